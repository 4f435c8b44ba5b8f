/* The node in C of three that are written in Rust, C and Prolog: see README.md.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <suci/suci.h>

#define PATIENCE SUCI_SECONDS(20)

enum { LINE = 16, LINES = 65536, LONG = LINE * LINES };

static void check(int result)
{
    if (result != SUCI_OK) {
        fprintf(stderr, "%s\n", suci_last_error_message());
        exit(1);
    }
}

/* Writes the short message to `text`, which has room for LONG bytes. Returns its length. */
static size_t write_short(char *text, uint32_t from, uint32_t to)
{
    return (size_t)snprintf(text, LONG, "short from %" PRIu32 " to %" PRIu32, from, to);
}

/* 1 MiB: numbered lines of 16 bytes. */
static size_t write_long(char *text, uint32_t from, uint32_t to)
{
    char line[LINE + 32];
    int i;

    for (i = 0; i < LINES; ++i) {
        snprintf(line, sizeof line, "%" PRIu32 ">%" PRIu32 " %011d\n", from, to, i);
        memcpy(text + (size_t)i * LINE, line, LINE);
    }
    return LONG;
}

/* Takes the next message of `from`, which must be `expected`. */
static void expect(suci_node node, uint32_t from, const char *expected, size_t length)
{
    suci_filter only = { SUCI_FROM_NODE, from, 0, 0 };
    suci_message message;

    check(suci_recv_from(node, &only, &message, PATIENCE));
    if (message.length != length || memcmp(message.payload, expected, length) != 0) {
        fprintf(stderr, "a wrong message from node %" PRIu32 "\n", from);
        exit(1);
    }
    suci_message_release(&message);
}

int main(void)
{
    static char text[LONG];
    suci_node node;
    uint32_t me, size, other;

    check(suci_node_open(NULL, &node));
    check(suci_node_id(node, &me));
    check(suci_env_size(&size));
    for (other = 0; other < size; ++other) {
        if (other == me)
            continue;
        check(suci_send(node, other, text, write_short(text, me, other), PATIENCE));
        check(suci_send(node, other, text, write_long(text, me, other), PATIENCE));
    }
    for (other = 0; other < size; ++other) {
        if (other == me)
            continue;
        expect(node, other, text, write_short(text, other, me));
        expect(node, other, text, write_long(text, other, me));
    }
    check(suci_node_close(node, PATIENCE));
    check(suci_node_free(node));
    printf("node %" PRIu32 " in C: all messages are right\n", me);
    return 0;
}
