/* Receives between nodes of each kind in one process. */
#include "check.h"
#include <stdlib.h>

#define LONG SUCI_SECONDS(20)

static suci_node open_node(int64_t id, uint32_t threads)
{
    suci_node_options options;
    suci_node node;
    suci_node_options_init(&options);
    options.id = id;
    options.threads = threads;
    options.listen = "127.0.0.1:0";
    must(suci_node_open(&options, &node));
    return node;
}

static void introduce(suci_node a, uint32_t id, suci_node b)
{
    char address[SUCI_ADDRESS_SIZE];
    must(suci_node_address(b, address));
    must(suci_add_peer(a, id, address));
}

static void send_matched(suci_node a, uint64_t tag, void *data, size_t length)
{
    suci_send_options options;
    struct iovec piece;
    suci_send_options_init(&options);
    options.flags = SUCI_SEND_MATCHED;
    options.channel = 3;
    options.tag = tag;
    options.user_header = "head";
    options.user_header_length = 4;
    piece.iov_base = data;
    piece.iov_len = length;
    must(suci_sendv(a, 1, &piece, 1, &options, LONG, NULL));
}

static suci_match_pattern tagged(uint64_t tag)
{
    suci_match_pattern pattern;
    memset(&pattern, 0, sizeof pattern);
    pattern.tag = tag;
    pattern.channel = 3;
    return pattern;
}

/* Returns a receive that is left. */
static uint64_t receives(suci_node a, suci_node b)
{
    static char sent[300000], got[300000];
    suci_match_pattern pattern = tagged(7);
    suci_match match;
    struct iovec parts[2];
    uint64_t receive, second;
    size_t at;
    for (at = 0; at < sizeof sent; ++at)
        sent[at] = (char)(at % 251);
    parts[0].iov_base = got;
    parts[0].iov_len = 1000;
    parts[1].iov_base = got + 1000;
    parts[1].iov_len = sizeof got - 1000;
    must(suci_match_post(b, &pattern, parts, 2, 0, &receive));
    send_matched(a, 7, sent, sizeof sent);
    must(suci_match_wait(b, receive, &match, LONG));
    check(match.receive == receive && match.released && match.from == 0 && match.tag == 7);
    check(match.length == sizeof sent && match.total == sizeof sent && match.channel == 3);
    check(match.user_header_length == 4 && memcmp(match.user_header, "head", 4) == 0);
    check(memcmp(got, sent, sizeof sent) == 0);

    /* Several messages in one buffer, of any tag and node. */
    pattern.ignore = UINT64_MAX;
    pattern.flags = SUCI_MATCH_ANY_NODE;
    parts[0].iov_len = 100;
    must(suci_match_post(b, &pattern, parts, 1, 50, &receive));
    must(suci_match_post(b, &pattern, parts + 1, 1, 0, &second));
    send_matched(a, 1, sent, 30);
    send_matched(a, 2, sent, 40);
    must(suci_match_wait(b, SUCI_MATCH_ANY_RECEIVE, &match, LONG));
    check(match.receive == receive && match.tag == 1 && !match.released);
    must(suci_match_wait(b, SUCI_MATCH_ANY_RECEIVE, &match, LONG));
    check(match.receive == receive && match.tag == 2 && match.released && match.offset == 30);
    return second;
}

static void unexpected(suci_node a, suci_node b, uint64_t second)
{
    static char sent[5000], got[100];
    suci_match_pattern pattern = tagged(9);
    suci_match match;
    struct iovec part;
    uint64_t receive, messages, bytes;
    bool cancelled;
    must(suci_match_cancel(b, second, &cancelled));
    check(cancelled);
    send_matched(a, 9, sent, sizeof sent);
    must(suci_match_peek(b, &pattern, &match, LONG));
    check(match.total == sizeof sent && match.tag == 9 && match.from == 0);
    must(suci_match_unexpected(b, &messages, &bytes));
    check(messages == 1);
    must(suci_match_claim(b, &pattern, &match, LONG));
    check(suci_match_peek(b, &pattern, &match, 0) == SUCI_E_TIMED_OUT);
    part.iov_base = got;
    part.iov_len = sizeof got;
    must(suci_match_receive_claimed(b, match.message, &part, 1, &receive));
    must(suci_match_wait(b, receive, &match, LONG));
    check(match.length == sizeof got && match.total == sizeof sent);
    check(suci_match_discard(b, match.message) == SUCI_E_NOT_WAITING);
    send_matched(a, 9, sent, 10);
    must(suci_match_claim(b, &pattern, &match, LONG));
    must(suci_match_discard(b, match.message));
    must(suci_match_unexpected(b, &messages, &bytes));
    check(messages == 0 && bytes == 0);
    must(suci_match_unexpected(b, NULL, NULL));
}

static void misuse(suci_node b)
{
    suci_match_pattern pattern = tagged(9);
    suci_match match;
    struct iovec part;
    uint64_t receive;
    char got[10];
    part.iov_base = got;
    part.iov_len = sizeof got;
    check(suci_match_post(b, &pattern, &part, 1, 11, &receive) == SUCI_E_ARGUMENT);
    check(suci_match_post(b, NULL, &part, 1, 0, &receive) == SUCI_E_ARGUMENT);
    check(suci_match_post(b, &pattern, &part, 1, 0, NULL) == SUCI_E_ARGUMENT);
    pattern.channel = 1u << 24;
    check(suci_match_post(b, &pattern, &part, 1, 0, &receive) == SUCI_E_ARGUMENT);
    pattern.channel = 3;
    pattern.flags = 2;
    check(suci_match_peek(b, &pattern, &match, 0) == SUCI_E_ARGUMENT);
    pattern.flags = 0;
    part.iov_base = NULL;
    check(suci_match_post(b, &pattern, &part, 1, 0, &receive) == SUCI_E_ARGUMENT);
    check(suci_match_wait(b, 99, &match, 0) == SUCI_E_TIMED_OUT);
}

static void ends(suci_node a, suci_node b)
{
    suci_match_pattern pattern = tagged(9);
    suci_match match;
    struct iovec part;
    uint64_t receive;
    char got[10];
    part.iov_base = got;
    part.iov_len = sizeof got;
    must(suci_match_post(b, &pattern, &part, 1, 0, &receive));
    must(suci_node_close(a, LONG));
    check(suci_match_wait(b, receive, &match, LONG) == SUCI_E_ENDED);
    check(match.receive == receive && match.released && match.from == 0);
}

int main(void)
{
    uint32_t threads;
    for (threads = 0; threads < 2; ++threads) {
        /* The sender has a thread, so that one thread of this program suffices. */
        suci_node a = open_node(0, 1), b = open_node(1, threads);
        introduce(a, 1, b);
        introduce(b, 0, a);
        unexpected(a, b, receives(a, b));
        misuse(b);
        ends(a, b);
        must(suci_node_free(a));
        must(suci_node_free(b));
    }
    return 0;
}
