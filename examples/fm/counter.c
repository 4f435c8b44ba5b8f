/* Fast Messages: a ping-pong, and a counter that all nodes raise.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each node raises the counter of node 0 and waits for its new value, ROUNDS times. Then node 0
 * sends a block to node 1 and back without a copy, each half of the rounds. At the end node 0
 * prints the counter and how many bytes came back right.
 *
 *     suci run -n 4 ./counter ROUNDS
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <suci/fm.h>

enum { ADD = 1, VALUE = 2, DONE = 3, PING = 4, PONG = 5, END = 6 };

enum { BLOCK = 100000 };

static uint64_t counter, values, last_value;
static int done, ended;
static size_t came;
static unsigned char *block;

static void die(const char *what)
{
    fprintf(stderr, "node %d: %s: %s\n", FM_nodeid, what, FM_error());
    exit(1);
}

/* Waits for messages and handles them. */
static void handle_some(void)
{
    int handled = FM_extract_wait(64, 20, 0);

    if (handled < 0)
        die("extract");
    if (handled == 0) {
        fprintf(stderr, "node %d: nothing came for 20 seconds\n", FM_nodeid);
        exit(1);
    }
}

/* Sends four words from the main program: while the queue is full, it handles messages. */
static void send_4(int dest, int handler, uint64_t word)
{
    while (FM_send_4(dest, handler, word, 0, 0, 0) != 0) {
        if (errno != EAGAIN)
            die("send");
        handle_some();
    }
}

/* At node 0: another node raises the counter, and hears its value. */
static void on_add(uint64_t amount, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i1, (void)i2, (void)i3;
    counter += amount;
    if (FM_send_4(FM_source(), VALUE, counter, 0, 0, 0) != 0)
        die("reply");
}

static void on_value(uint64_t value, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i1, (void)i2, (void)i3;
    values++;
    last_value = value;
}

static void on_done(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i0, (void)i1, (void)i2, (void)i3;
    done++;
}

/* At node 1: returns the block by a copy. */
static void on_ping(const void *buf, size_t size)
{
    if (FM_send(FM_source(), PONG, buf, size) != 0)
        die("pong");
}

static void on_pong(const void *buf, size_t size)
{
    if (size == BLOCK && memcmp(buf, block, BLOCK) == 0)
        came += size;
}

static void on_end(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i0, (void)i1, (void)i2, (void)i3;
    ended = 1;
}

static void raise_counter(int rounds)
{
    for (int round = 1; round <= rounds; round++) {
        uint64_t before = last_value;

        send_4(0, ADD, 1);
        while (values < (uint64_t)round)
            handle_some();
        if (last_value <= before) {
            fprintf(stderr, "node %d: the counter fell\n", FM_nodeid);
            exit(1);
        }
    }
    send_4(0, DONE, 0);
}

/* Node 0 sends the block, and fills it anew when the library no longer reads it. */
static void ping(int rounds)
{
    for (int round = 1; round <= rounds; round++) {
        memset(block, round, BLOCK);
        if (FM_send_buffer(1 % FM_numnodes, PING, block, BLOCK) != 0)
            die("ping");
        while (came < (size_t)round * BLOCK || FM_buffer_busy(block))
            if (FM_extract_wait(64, 0, 100) < 0)
                die("extract");
    }
}

int main(int count, char **arguments)
{
    int rounds = count > 1 ? atoi(arguments[1]) : 100;

    if (FM_initialize() != 0)
        die("initialize");
    block = FM_alloc(BLOCK);
    if (block == NULL || FM_set_handler_4(ADD, on_add) != 0 ||
        FM_set_handler_4(VALUE, on_value) != 0 || FM_set_handler_4(DONE, on_done) != 0 ||
        FM_set_handler(PING, on_ping) != 0 || FM_set_handler(PONG, on_pong) != 0 ||
        FM_set_handler_4(END, on_end) != 0)
        die("set handlers");
    raise_counter(rounds);
    if (FM_nodeid == 0) {
        while (done < FM_numnodes)
            handle_some();
        ping(rounds / 2);
        printf("counter %llu, bytes %zu\n", (unsigned long long)counter, came);
        for (int node = 0; node < FM_numnodes; node++)
            send_4(node, END, 0);
    }
    while (!ended)
        handle_some();
    if (FM_free(block) != 0 || FM_finalize() != 0)
        die("finalize");
    return 0;
}
