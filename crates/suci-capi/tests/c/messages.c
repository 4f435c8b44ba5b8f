/* Two nodes of each kind in one process: what is sent arrives, by each way to send and receive. */
#include "check.h"

/* Opens a node on a port of its own. */
static suci_node open_node(int64_t id, uint32_t threads)
{
    suci_node_options options;
    suci_node node;
    suci_node_options_init(&options);
    options.id = id;
    options.threads = threads;
    options.listen = "127.0.0.1:0";
    options.memory = 8 << 20;
    options.max_message = 1 << 20;
    must(suci_node_open(&options, &node));
    return node;
}

static void introduce(suci_node a, uint32_t id, suci_node b)
{
    char address[SUCI_ADDRESS_SIZE];
    must(suci_node_address(b, address));
    must(suci_add_peer(a, id, address));
}

/* Receives while the other node, if it is caller-driven, does its work. */
static void receive(suci_node to, suci_node other, suci_message *message)
{
    int tries, result = SUCI_E_TIMED_OUT;
    for (tries = 0; tries < 3000 && result == SUCI_E_TIMED_OUT; ++tries) {
        suci_poll(other, NULL, 0);
        result = suci_recv(to, message, SUCI_MILLISECONDS(10));
    }
    must(result);
}

static void simple(suci_node a, suci_node b)
{
    suci_message message, again;
    must(suci_send(a, 1, "hello", 5, SUCI_SECONDS(5)));
    receive(b, a, &message);
    check(message.length == 5 && memcmp(message.payload, "hello", 5) == 0);
    check(message.from == 0 && message.channel == 0 && message.kind == SUCI_KIND_USER);
    check(message.user_header_length == 0 && message.number == 0 && !message.is_request);
    again = message;
    suci_message_release(&message);
    check(message.payload == NULL && message.opaque[0] == 0);
    suci_message_release(&message);
    suci_message_release(NULL);
    (void)again;
    must(suci_send(a, 1, NULL, 0, 0));
    receive(b, a, &message);
    check(message.length == 0);
    suci_message_release(&message);
}

static void gathered(suci_node a, suci_node b)
{
    char long_piece[1000];
    struct iovec pieces[3];
    suci_send_options options;
    suci_message message;
    uint64_t number = 7;
    memset(long_piece, 'x', sizeof long_piece);
    pieces[0].iov_base = long_piece;
    pieces[0].iov_len = sizeof long_piece;
    pieces[1].iov_base = NULL;
    pieces[1].iov_len = 0;
    pieces[2].iov_base = (void *)"end";
    pieces[2].iov_len = 3;
    suci_send_options_init(&options);
    options.channel = 5;
    options.tag = 99;
    options.kind = 200;
    options.user_header = "head";
    options.user_header_length = 4;
    must(suci_sendv(a, 1, pieces, 3, &options, SUCI_FOREVER, &number));
    check(number == 0 || number == SUCI_UNNUMBERED);
    receive(b, a, &message);
    check(message.length == 1003 && memcmp((const char *)message.payload + 1000, "end", 3) == 0);
    check(message.channel == 5 && message.tag == 99 && message.kind == 200);
    check(message.user_header_length == 4 && memcmp(message.user_header, "head", 4) == 0);
    suci_message_release(&message);
}

static void many(suci_node a, suci_node b)
{
    enum { COUNT = 500 };
    static char bytes[COUNT][32];
    struct iovec messages[COUNT];
    suci_message received[64];
    size_t i, count, accepted = 0, got = 0;
    int tries;
    for (i = 0; i < COUNT; ++i) {
        snprintf(bytes[i], sizeof bytes[i], "message %zu", i);
        messages[i].iov_base = bytes[i];
        messages[i].iov_len = sizeof bytes[i];
    }
    must(suci_send_many(a, 1, messages, COUNT, NULL, SUCI_SECONDS(5), &accepted));
    check(accepted == COUNT);
    for (tries = 0; tries < 3000 && got < COUNT; ++tries) {
        int result;
        suci_poll(a, NULL, 0);
        result = suci_recv_many(b, received, 64, &count, SUCI_MILLISECONDS(10));
        if (result == SUCI_E_TIMED_OUT)
            continue;
        must(result);
        for (i = 0; i < count; ++i, ++got) {
            check(received[i].length == 32 && memcmp(received[i].payload, bytes[got], 32) == 0);
            if (i % 3 == 1)
                suci_message_release(&received[i]);
        }
        suci_message_release_many(received, count);
        check(received[0].payload == NULL && received[count - 1].opaque[0] == 0);
        suci_message_release_many(received, count);
    }
    check(got == COUNT);
}

static void batch(suci_node a, suci_node b)
{
    suci_outgoing messages[3];
    suci_send_options options;
    suci_message message;
    size_t accepted = 9;
    memset(messages, 0, sizeof messages);
    suci_send_options_init(&options);
    options.channel = 3;
    messages[0].to = 1;
    messages[0].data = "one";
    messages[0].length = 3;
    messages[1] = messages[0];
    messages[1].options = &options;
    messages[2] = messages[0];
    messages[2].to = 77;
    check(suci_send_batch(a, messages, 3, 0, &accepted) == SUCI_E_UNKNOWN_PEER);
    check(accepted == 2);
    receive(b, a, &message);
    check(message.channel == 0);
    suci_message_release(&message);
    receive(b, a, &message);
    check(message.channel == 3 && memcmp(message.payload, "one", 3) == 0);
    suci_message_release(&message);
}

static void by_reference(suci_node a, suci_node b)
{
    static char memory[300000];
    struct iovec piece;
    suci_send_options options;
    suci_message message;
    suci_event event;
    int tries, result, released = 0, delivered = 0;
    memset(memory, 'r', sizeof memory);
    piece.iov_base = memory;
    piece.iov_len = sizeof memory;
    suci_send_options_init(&options);
    options.flags = SUCI_SEND_BY_REFERENCE | SUCI_SEND_NOTIFY;
    options.cookie = 4711;
    check(suci_sendv(a, 77, &piece, 1, &options, 0, NULL) == SUCI_E_UNKNOWN_PEER);
    must(suci_sendv(a, 1, &piece, 1, &options, SUCI_SECONDS(5), NULL));
    receive(b, a, &message);
    check(message.length == sizeof memory && ((const char *)message.payload)[299999] == 'r');
    suci_message_release(&message);
    for (tries = 0; tries < 3000 && !(released && delivered); ++tries) {
        suci_poll(b, NULL, 0);
        result = suci_next_event(a, &event, SUCI_MILLISECONDS(10));
        if (result == SUCI_E_TIMED_OUT)
            continue;
        must(result);
        if (event.type == SUCI_EVENT_RELEASED) {
            check(event.released.cookie == 4711 && !released);
            released = 1;
        } else if (event.type == SUCI_EVENT_DELIVERED) {
            check(event.delivery.cookie == 4711 && event.node == 1);
            delivered = 1;
        }
        suci_event_release(&event);
        check(event.type == SUCI_EVENT_NONE);
    }
    check(released && delivered);
}

static void copied(suci_node a, suci_node b)
{
    char buffer[64];
    suci_message message;
    suci_error_info info;
    int tries, result = SUCI_E_TIMED_OUT;
    info.size = sizeof info;
    must(suci_send(a, 1, "too long for four", 17, 0));
    for (tries = 0; tries < 3000 && result == SUCI_E_TIMED_OUT; ++tries) {
        suci_poll(a, NULL, 0);
        result = suci_recv_copy(b, buffer, 4, &message, SUCI_MILLISECONDS(10));
    }
    check(result == SUCI_E_BUFFER_TOO_SHORT);
    must(suci_last_error_info(&info));
    check(info.result == SUCI_E_BUFFER_TOO_SHORT && info.length == 17 && info.limit == 4);
    must(suci_recv_copy(b, buffer, sizeof buffer, &message, SUCI_SECONDS(5)));
    check(message.payload == (void *)buffer && message.length == 17);
    check(memcmp(buffer, "too long for four", 17) == 0);
    suci_message_release(&message);
}

/* Checks what the last failure tells about the message that node 1 announced on channel 3. */
static void check_announcement(int result, uint64_t number, uint64_t length)
{
    suci_error_info info;
    info.size = sizeof info;
    must(suci_last_error_info(&info));
    check(info.result == result && info.node == 1 && info.channel == 3 && info.number == number);
    check(info.length == length);
}

/* Node 1 announces a message to node 0. */
static void announced(suci_node a, suci_node b)
{
    enum { LENGTH = 6 << 20 };
    suci_send_options options;
    char *memory = (char *)malloc(LENGTH), *target = (char *)malloc(LENGTH);
    struct iovec piece;
    suci_item item;
    uint64_t number = 0;
    int tries, result, state = 0;
    memset(memory, 'i', LENGTH);
    memset(target, 0, LENGTH);
    piece.iov_base = memory;
    piece.iov_len = LENGTH;
    suci_send_options_init(&options);
    options.channel = 3;
    must(suci_sendv(b, 0, &piece, 1, &options, SUCI_SECONDS(5), NULL));
    for (tries = 0; tries < 6000 && state < 3; ++tries) {
        suci_poll(b, NULL, 0);
        result = suci_next(a, &item, SUCI_MILLISECONDS(5));
        if (result == SUCI_E_TIMED_OUT)
            continue;
        must(result);
        if (item.type == SUCI_ITEM_EVENT && item.event.type == SUCI_EVENT_INCOMING) {
            check(item.event.incoming.length == LENGTH && state == 0);
            number = item.event.incoming.number;
            check(suci_accept(a, 1, 3, number) == SUCI_E_NEEDS_BUFFER);
            check_announcement(SUCI_E_NEEDS_BUFFER, number, LENGTH);
            check(suci_accept_into(a, 1, 3, number, target, 10, 5) == SUCI_E_BUFFER_TOO_SHORT);
            check_announcement(SUCI_E_BUFFER_TOO_SHORT, number, LENGTH);
            must(suci_accept_into(a, 1, 3, number, target, LENGTH, 1234));
            check(suci_refuse(a, 1, 3, number, 0) == SUCI_E_NOT_WAITING);
            check_announcement(SUCI_E_NOT_WAITING, number, 0);
            state = 1;
        } else if (item.type == SUCI_ITEM_MESSAGE) {
            check(item.message.payload == (void *)target && item.message.length == LENGTH);
            check(target[0] == 'i' && target[LENGTH - 1] == 'i' && state == 1);
            state = 2;
        } else if (item.event.type == SUCI_EVENT_RELEASED) {
            check(item.event.released.cookie == 1234 && state == 2);
            state = 3;
        }
        suci_item_release(&item);
        suci_item_release(&item);
    }
    check(state == 3);
    free(memory);
    free(target);
}

static void chosen(suci_node a, suci_node b)
{
    suci_send_options options;
    struct iovec piece;
    suci_filter filter;
    suci_message message;
    int tries, result = SUCI_E_TIMED_OUT;
    piece.iov_base = (void *)"urgent";
    piece.iov_len = 6;
    suci_send_options_init(&options);
    options.channel = 9;
    must(suci_send(a, 1, "first", 5, 0));
    must(suci_sendv(a, 1, &piece, 1, &options, 0, NULL));
    memset(&filter, 0, sizeof filter);
    filter.flags = SUCI_FROM_NODE | SUCI_ON_CHANNEL;
    filter.channel = 9;
    for (tries = 0; tries < 3000 && result == SUCI_E_TIMED_OUT; ++tries) {
        suci_poll(a, NULL, 0);
        result = suci_recv_from(b, &filter, &message, SUCI_MILLISECONDS(10));
    }
    must(result);
    check(message.length == 6);
    suci_message_release(&message);
    receive(b, a, &message);
    check(message.length == 5);
    suci_message_release(&message);
}

static void broadcast(suci_node a, suci_node b)
{
    uint32_t to[2] = {1, 77};
    int results[2] = {-1, -1};
    struct iovec piece;
    suci_message message;
    piece.iov_base = (void *)"all";
    piece.iov_len = 3;
    check(suci_broadcast(a, to, 2, &piece, 1, NULL, results) == SUCI_E_NOT_ALL);
    check(results[0] == SUCI_OK && results[1] == SUCI_E_UNKNOWN_PEER);
    check(strstr(suci_last_error_message(), "77") != NULL);
    must(suci_broadcast(a, to, 1, &piece, 1, NULL, NULL));
    receive(b, a, &message);
    suci_message_release(&message);
    receive(b, a, &message);
    suci_message_release(&message);
}

static void run(uint32_t threads)
{
    suci_node a = open_node(0, threads), b = open_node(1, threads);
    introduce(a, 1, b);
    introduce(b, 0, a);
    simple(a, b);
    gathered(a, b);
    many(a, b);
    batch(a, b);
    by_reference(a, b);
    copied(a, b);
    announced(a, b);
    chosen(a, b);
    broadcast(a, b);
    must(suci_node_free(a));
    must(suci_node_free(b));
    check(suci_send(a, 1, "x", 1, 0) == SUCI_E_HANDLE);
    check(suci_node_free(a) == SUCI_E_HANDLE);
}

int main(void)
{
    run(0);
    run(1);
    run(2);
    return 0;
}
