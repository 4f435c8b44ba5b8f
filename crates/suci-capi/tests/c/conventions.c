/* The conventions of suci.h: errors, sizes, wakes, signals, busy nodes, descriptors, fork, the log;
 * and the calls about requests, peers, numbers and books. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return SUCI_SECONDS(time.tv_sec) + time.tv_nsec;
}

static void rest(long milliseconds)
{
    struct timespec time;
    time.tv_sec = 0;
    time.tv_nsec = milliseconds * 1000000;
    nanosleep(&time, NULL);
}

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

static void errors(void)
{
    suci_node_options options;
    suci_node node, nobody;
    suci_error_info info;
    memset(&nobody, 0, sizeof nobody);
    check(suci_version_number() == SUCI_VERSION_NUMBER);
    check(strcmp(suci_version(), SUCI_VERSION) == 0);
    check(suci_send(nobody, 0, "x", 1, 0) == SUCI_E_HANDLE);
    check(strstr(suci_last_error_message(), "null") != NULL);
    suci_node_options_init(&options);
    options.id = 1;
    options.listen = "192.0.2.1:7000";
    check(suci_node_open(&options, &node) == SUCI_E_INSECURE);
    options.allow_insecure_network = 1;
    check(SUCI_ERRNO(suci_node_open(&options, &node)) == EADDRNOTAVAIL);
    check(SUCI_IS_ERRNO(suci_node_open(&options, &node)));
    check(strstr(suci_strerror(SUCI_ERRNO_BIT | EADDRNOTAVAIL), "assign") != NULL);
    suci_node_options_init(&options);
    options.id = 1;
    options.memory = 5;
    check(suci_node_open(&options, &node) == SUCI_E_CONFIG);
    check(strstr(suci_last_error_message(), "memory = 5") != NULL);
    options.size += 8;
    check(suci_node_open(&options, &node) == SUCI_E_SIZE);
    options.size = 4;
    check(suci_node_open(&options, &node) == SUCI_E_SIZE);
    check(suci_node_options_init_sized(&options, sizeof options + 8) == SUCI_E_SIZE);
    info.size = sizeof info;
    must(suci_last_error_info(&info));
    check(info.result == SUCI_E_SIZE);
}

static suci_node open_sealed(int64_t id, const char *file)
{
    suci_node_options options;
    suci_node node;
    suci_node_options_init(&options);
    options.id = id;
    options.listen = "127.0.0.1:0";
    options.key_file = file;
    must(suci_node_open(&options, &node));
    return node;
}

/* A key file is read, and refused if others can read it. Two nodes that have it talk. */
static void keys(void)
{
    static const char key[] = "suci-key-1 000102030405060708090a0b0c0d0e0f"
                              "101112131415161718191a1b1c1d1e1f 1dcab2e9\n";
    char path[] = "/tmp/suci-key-XXXXXX";
    suci_node_options options;
    suci_message message;
    suci_node a, b;
    int file = mkstemp(path);
    check(file >= 0 && write(file, key, sizeof key - 1) == (ssize_t)sizeof key - 1);
    check(fchmod(file, 0644) == 0);
    suci_node_options_init(&options);
    check(options.key_file == NULL);
    options.id = 1;
    options.key_file = path;
    check(suci_node_open(&options, &a) == SUCI_E_KEY);
    check(strstr(suci_last_error_message(), "chmod 600 /tmp/suci-key-") != NULL);
    check(fchmod(file, 0600) == 0);
    a = open_sealed(1, path);
    b = open_sealed(2, path);
    introduce(a, 2, b);
    introduce(b, 1, a);
    must(suci_send(a, 2, "sealed", 6, SUCI_SECONDS(20)));
    must(suci_recv(b, &message, SUCI_SECONDS(20)));
    check(message.length == 6 && memcmp(message.payload, "sealed", 6) == 0);
    suci_message_release(&message);
    suci_node_free(a);
    suci_node_free(b);
    check(unlink(path) == 0 && close(file) == 0);
    check(SUCI_ERRNO(suci_node_open(&options, &a)) == ENOENT);
}

/* ---- waits */

struct waker {
    suci_node node;
    int result;
};

static void *wake_soon(void *argument)
{
    struct waker *waker = (struct waker *)argument;
    rest(50);
    waker->result = suci_wake(waker->node);
    return NULL;
}

static suci_node to_wake;

static void on_alarm(int signal)
{
    (void)signal;
    suci_wake(to_wake);
}

static void on_nothing(int signal)
{
    (void)signal;
}

static void wakes(suci_node node)
{
    struct waker waker;
    struct sigaction action;
    struct itimerval timer;
    pthread_t thread;
    suci_message message;
    suci_event event;
    suci_item item;
    int64_t begin;
    int kind;
    waker.node = node;
    for (kind = 0; kind < 3; ++kind) {
        int result;
        pthread_create(&thread, NULL, wake_soon, &waker);
        begin = now();
        do {
            if (kind == 0)
                result = suci_recv(node, &message, SUCI_FOREVER);
            else if (kind == 1) {
                result = suci_next_event(node, &event, SUCI_SECONDS(30));
                if (result == SUCI_OK)
                    suci_event_release(&event);
            } else {
                result = suci_next(node, &item, SUCI_FOREVER);
                if (result == SUCI_OK)
                    suci_item_release(&item);
            }
        } while (result == SUCI_OK);
        check(result == SUCI_E_WOKEN);
        check(now() - begin < SUCI_SECONDS(10));
        pthread_join(thread, NULL);
        must(waker.result);
    }
    /* A wake waits for the next call; two are one. */
    must(suci_wake(node));
    must(suci_wake(node));
    check(suci_recv(node, &message, 0) == SUCI_E_WOKEN);
    check(suci_recv(node, &message, 0) == SUCI_E_TIMED_OUT);
    check(suci_recv(node, &message, SUCI_MILLISECONDS(1)) == SUCI_E_TIMED_OUT);
    /* A signal does not end a call... */
    memset(&action, 0, sizeof action);
    action.sa_handler = on_nothing;
    sigaction(SIGALRM, &action, NULL);
    memset(&timer, 0, sizeof timer);
    timer.it_value.tv_usec = 20000;
    setitimer(ITIMER_REAL, &timer, NULL);
    begin = now();
    check(suci_recv(node, &message, SUCI_MILLISECONDS(120)) == SUCI_E_TIMED_OUT);
    check(now() - begin >= SUCI_MILLISECONDS(120));
    /* ...unless its handler wakes. */
    to_wake = node;
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    check(suci_recv(node, &message, SUCI_FOREVER) == SUCI_E_WOKEN);
}

static void *receive_once(void *argument)
{
    suci_message message;
    struct waker *waker = (struct waker *)argument;
    waker->result = suci_recv(waker->node, &message, SUCI_SECONDS(30));
    return NULL;
}

static void busy(suci_node node)
{
    struct waker waker;
    pthread_t thread;
    uint32_t id;
    waker.node = node;
    pthread_create(&thread, NULL, receive_once, &waker);
    while (suci_node_id(node, &id) != SUCI_E_BUSY)
        rest(1);
    check(suci_send(node, 1, "x", 1, 0) == SUCI_E_BUSY);
    check(suci_node_free(node) == SUCI_E_BUSY);
    must(suci_wake(node));
    pthread_join(thread, NULL);
    check(waker.result == SUCI_E_WOKEN);
    must(suci_node_id(node, &id));
}

/* A threaded node: a release by another thread's send ends the wait for events. */
static void *await_release(void *argument)
{
    struct waker *waker = (struct waker *)argument;
    suci_event event;
    do {
        waker->result = suci_next_event(waker->node, &event, SUCI_SECONDS(30));
        if (waker->result != SUCI_OK)
            return NULL;
    } while (event.type != SUCI_EVENT_RELEASED);
    waker->result = (int)event.released.cookie;
    return NULL;
}

static void releases(suci_node node, suci_node peer, uint32_t id)
{
    static char memory[4096];
    struct waker waker;
    struct iovec piece;
    suci_send_options options;
    suci_message message;
    pthread_t thread;
    waker.node = node;
    pthread_create(&thread, NULL, await_release, &waker);
    rest(30);
    piece.iov_base = memory;
    piece.iov_len = sizeof memory;
    suci_send_options_init(&options);
    options.flags = SUCI_SEND_BY_REFERENCE;
    options.cookie = 31;
    must(suci_sendv(node, id, &piece, 1, &options, SUCI_SECONDS(5), NULL));
    must(suci_recv(peer, &message, SUCI_SECONDS(30)));
    suci_message_release(&message);
    pthread_join(thread, NULL);
    check(waker.result == 31);
}

static int readable(int fd, int milliseconds)
{
    struct pollfd entry;
    entry.fd = fd;
    entry.events = POLLIN;
    return poll(&entry, 1, milliseconds) == 1;
}

/* Takes everything. Returns how many messages there were. */
static int drain(suci_node node)
{
    suci_item item;
    int messages = 0, result;
    while ((result = suci_next(node, &item, 0)) == SUCI_OK) {
        messages += item.type == SUCI_ITEM_MESSAGE;
        suci_item_release(&item);
    }
    check(result == SUCI_E_TIMED_OUT);
    return messages;
}

static void descriptors(suci_node node, suci_node peer)
{
    int fd, again, messages = 0;
    suci_item item;
    int64_t end = now() + SUCI_SECONDS(30);
    must(suci_node_fd(node, &fd));
    must(suci_node_fd(node, &again));
    check(fd == again);
    drain(node);
    must(suci_send(peer, 0, "tell", 4, 0));
    while (messages == 0 && now() < end) {
        suci_poll(peer, NULL, 0);
        if (readable(fd, 10))
            messages += drain(node);
    }
    check(messages == 1);
    /* Timers of a caller-driven node make it readable, too. */
    while (readable(fd, 20) && now() < end)
        drain(node);
    must(suci_wake(node));
    check(readable(fd, 5000));
    check(suci_next(node, &item, 0) == SUCI_E_WOKEN);
}

/* ---- the rest of the interface */

static void *serve(void *argument)
{
    struct waker *waker = (struct waker *)argument;
    struct iovec piece;
    suci_message request;
    waker->result = suci_recv(waker->node, &request, SUCI_SECONDS(30));
    if (waker->result != SUCI_OK)
        return NULL;
    check(request.is_request && request.length == 8);
    piece.iov_base = (void *)"answer";
    piece.iov_len = 6;
    suci_message_release(&request);
    check(suci_reply(waker->node, &request, &piece, 1, NULL, 0) == SUCI_E_NOT_A_REQUEST);
    waker->result = suci_recv(waker->node, &request, SUCI_SECONDS(30));
    must(suci_reply(waker->node, &request, &piece, 1, NULL, SUCI_SECONDS(5)));
    suci_message_release(&request);
    suci_flush(waker->node, SUCI_SECONDS(5));
    return NULL;
}

static void requests(suci_node a, suci_node b)
{
    struct waker waker;
    struct iovec piece;
    suci_message reply;
    pthread_t thread;
    waker.node = b;
    pthread_create(&thread, NULL, serve, &waker);
    piece.iov_base = (void *)"question";
    piece.iov_len = 8;
    check(suci_call(a, 1, &piece, 1, NULL, SUCI_MILLISECONDS(200), &reply) == SUCI_E_TIMED_OUT);
    must(suci_call(a, 1, &piece, 1, NULL, SUCI_SECONDS(30), &reply));
    check(reply.length == 6 && memcmp(reply.payload, "answer", 6) == 0);
    suci_message_release(&reply);
    pthread_join(thread, NULL);
}

static void peers(suci_node a)
{
    suci_peer_info infos[4];
    suci_peer_options options;
    suci_peer_stats stats;
    suci_limits limits;
    suci_send_options message;
    struct iovec piece;
    size_t count = 0, length = 0;
    uint64_t messages, bytes;
    char text[16];
    bool flag;
    must(suci_peers(a, infos, 4, &count));
    check(count == 1 && infos[0].node == 1 && infos[0].known && infos[0].link == SUCI_LINK_UP);
    check(strncmp(infos[0].address, "127.0.0.1:", 10) == 0);
    suci_peer_options_init(&options);
    must(suci_peer_get_options(a, 1, &options));
    check(options.silence_timeout == SUCI_SECONDS(10) && options.rate_cap == SUCI_NO_LIMIT);
    options.mode = SUCI_MODE_RESPONSE;
    options.priority_class = 6;
    options.rate_cap = 1 << 30;
    must(suci_peer_set_options(a, 1, &options));
    suci_peer_options_init(&options);
    must(suci_peer_get_options(a, 1, &options));
    check(options.mode == SUCI_MODE_RESPONSE && options.priority_class == 6);
    check(options.rate_cap == 1 << 30);
    options.silence_timeout = 1;
    check(suci_peer_set_options(a, 1, &options) == SUCI_E_CONFIG);
    options.priority_class = 9;
    check(suci_peer_set_options(a, 1, &options) == SUCI_E_ARGUMENT);
    must(suci_peer_set_channel_priority(a, 1, 5, 7, 1));
    check(suci_peer_get_options(a, 99, &options) == SUCI_E_UNKNOWN_PEER);
    must(suci_peer_suspend(a, 1));
    check(suci_send(a, 1, "x", 1, 0) == SUCI_E_SUSPENDED);
    must(suci_peer_resume(a, 1));
    limits.window = 0;
    limits.pace = SUCI_NO_LIMIT;
    limits.ack_interval = -1;
    must(suci_peer_steer(a, 1, &limits));
    suci_send_options_init(&message);
    message.channel = 8;
    message.cookie = 12;
    piece.iov_base = (void *)"held";
    piece.iov_len = 4;
    must(suci_sendv(a, 1, &piece, 1, &message, 0, NULL));
    must(suci_peer_cancel(a, 1, 8, 12, &messages));
    check(messages == 1);
    must(suci_peer_steer(a, 1, NULL));
    must(suci_flush(a, SUCI_SECONDS(30)));
    must(suci_peer_queue(a, 1, &messages, &bytes));
    check(messages == 0 && bytes == 0);
    must(suci_peer_delivered(a, 1, 0, &messages));
    must(suci_peer_remote_window(a, 1, 0, &bytes));
    must(suci_peer_controller(a, 1, text, sizeof text, &length));
    check(length > 0 && strlen(text) == length);
    must(suci_peer_controller(a, 1, text, 2, &length));
    check(strlen(text) == 1 && length > 1);
    stats.size = sizeof stats;
    must(suci_peer_get_stats(a, 1, &stats));
    check(stats.node == 1 && stats.link == SUCI_LINK_UP && stats.mode == SUCI_MODE_RESPONSE);
    check(stats.messages_sent > 0 && stats.rtt > 0 && stats.mtu >= 1200);
    check(strcmp(suci_wait_reason_name(SUCI_WAITS_FOR_CAP), "cap") == 0);
    must(suci_peer_connect(a, 1));
    must(suci_peer_retransmit(a, 1));
    must(suci_peer_finish_channel(a, 1, 8, &flag));
    check(flag);
    must(suci_peer_finish_channel(a, 1, 8, &flag));
    check(!flag);
}

/* A message longer than any may be is an error, before memory for a copy is asked for. */
static void lengths(suci_node node)
{
    static char byte;
    const size_t length = (size_t)1 << 48;
    struct iovec one = {&byte, length}, many[1024];
    suci_outgoing item = {1, 0, &byte, length, NULL};
    size_t accepted, at;
    for (at = 0; at < 1024; at++) {
        many[at].iov_base = &byte;
        many[at].iov_len = length / 1024;
    }
    check(suci_send(node, 1, &byte, length, 0) == SUCI_E_TOO_LONG);
    check(suci_sendv(node, 1, &one, 1, NULL, 0, NULL) == SUCI_E_TOO_LONG);
    check(suci_sendv(node, 1, many, 1024, NULL, 0, NULL) == SUCI_E_TOO_LONG);
    check(suci_send_many(node, 1, &one, 1, NULL, 0, &accepted) == SUCI_E_TOO_LONG);
    check(suci_send_batch(node, &item, 1, 0, &accepted) == SUCI_E_TOO_LONG);
}

static void numbers(suci_node node, uint32_t threads)
{
    suci_counters counters;
    suci_socket_counters socket;
    suci_share_stats shares;
    uint64_t limit;
    uint32_t count;
    char text[256];
    size_t length;
    counters.size = sizeof counters;
    socket.size = sizeof socket;
    shares.size = sizeof shares;
    must(suci_node_counters(node, &counters));
    must(suci_node_socket_counters(node, &socket));
    check(counters.messages_sent > 0 && socket.datagrams_sent > 0);
    /* Of two threads the second one serves the peer with ID 1. */
    must(suci_node_share_stats(node, threads == 2, &shares));
    check(shares.peers == 1 && shares.jain > 0.99);
    check(suci_node_share_stats(node, 9, &shares) == SUCI_E_NOT_FOUND);
    must(suci_node_threads(node, &count));
    check(count == threads);
    if (threads == 0) {
        check(suci_node_thread_counters(node, 0, &counters, NULL) == SUCI_E_NODE_KIND);
    } else {
        must(suci_node_thread_counters(node, 0, &counters, &socket));
        check(suci_node_thread_counters(node, 9, &counters, NULL) == SUCI_E_NOT_FOUND);
        check(suci_poll(node, NULL, 0) == SUCI_E_NODE_KIND);
    }
    must(suci_node_peer_limit(node, &limit));
    check(limit > 0);
    must(suci_node_warning(node, text, sizeof text, &length));
    counters.size = 12;
    check(suci_node_counters(node, &counters) == SUCI_E_SIZE);
}

static void books(void)
{
    suci_book book;
    suci_node_options options;
    suci_node node;
    char address[SUCI_ADDRESS_SIZE], text[64];
    size_t count, length;
    uint32_t id;
    check(suci_book_parse("0 127.0.0.1", "here", &book) == SUCI_E_BOOK);
    check(strstr(suci_last_error_message(), "here:1") != NULL);
    check(suci_book_read("/nowhere", &book) == (SUCI_ERRNO_BIT | ENOENT));
    must(suci_book_parse("1 127.0.0.1:7101\n", "here", &book));
    suci_node_options_init(&options);
    options.id = 9;
    options.book = book;
    check(suci_node_open(&options, &node) == SUCI_E_NOT_IN_BOOK);
    must(suci_book_add(book, 5, "[::1]:7102"));
    check(suci_book_add(book, 5, "[::1]:7103") == SUCI_E_BOOK);
    check(suci_book_add(book, 6, "nonsense") == SUCI_E_ADDRESS);
    must(suci_book_count(book, &count));
    check(count == 2);
    must(suci_book_entry(book, 1, &id));
    check(id == 5 && suci_book_entry(book, 2, &id) == SUCI_E_NOT_FOUND);
    must(suci_book_address(book, 5, 0, address));
    check(strcmp(address, "[::1]:7102") == 0);
    check(suci_book_address(book, 5, 1, address) == SUCI_E_NOT_FOUND);
    must(suci_book_text(book, text, sizeof text, &length));
    check(strcmp(text, "1 127.0.0.1:7101\n5 [::1]:7102\n") == 0 && length == strlen(text));
    must(suci_book_free(book));
    check(suci_book_free(book) == SUCI_E_HANDLE);
    must(suci_book_new(&book));
    must(suci_book_free(book));
}

static void *make_books(void *unused)
{
    suci_book book;
    int round;
    for (round = 0; round < 30000; round++) {
        must(suci_book_new(&book));
        must(suci_book_free(book));
    }
    return unused;
}

/* Threads of a child use handles of their own at once: the first of the child, or later ones. */
static void threads_of_a_child(int later)
{
    pthread_t threads[2];
    suci_book book;
    int status, at;
    pid_t child = fork();
    if (child == 0) {
        if (later)
            must(suci_book_new(&book));
        for (at = 0; at < 2; at++)
            check(pthread_create(&threads[at], NULL, make_books, NULL) == 0);
        for (at = 0; at < 2; at++)
            check(pthread_join(threads[at], NULL) == 0);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* How many sockets, and descriptors of events and timers, this process has. */
static int node_descriptors(void)
{
    char name[64], target[64];
    int fd, count = 0;
    for (fd = 0; fd < 1024; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = 0;
        count += strncmp(target, "socket:", 7) == 0 || strncmp(target, "anon_inode:", 11) == 0;
    }
    return count;
}

/* Books are data, and the child's as well; all else belongs to the parent's nodes. */
static void handles_of_a_child(suci_book book, suci_region region)
{
    suci_node node;
    suci_node_options options;
    suci_remote_region name;
    size_t count;
    if (suci_book_count(book, &count) != SUCI_OK || count != 2)
        _exit(7);
    if (suci_region_name(region, &name) != SUCI_E_FORKED ||
        suci_region_free(region) != SUCI_E_FORKED)
        _exit(8);
    suci_node_options_init(&options);
    options.id = 2;
    options.listen = "127.0.0.1:0";
    options.book = book;
    if (suci_node_open(&options, &node) != SUCI_OK || suci_node_free(node) != SUCI_OK)
        _exit(9);
    if (suci_book_free(book) != SUCI_OK || suci_book_free(book) != SUCI_E_HANDLE)
        _exit(10);
}

static void forks(suci_node node, suci_node other)
{
    int status;
    suci_book book;
    suci_region region;
    must(suci_book_parse("0 127.0.0.1:7\n1 127.0.0.1:8\n", "a text", &book));
    must(suci_region_allocate(node, 64, SUCI_REGION_READ, &region));
    pid_t child = fork();
    if (child == 0) {
        /* Nothing here may touch the parent's node. */
        suci_message message;
        uint32_t id;
        if (suci_send(node, 1, "x", 1, 0) != SUCI_E_FORKED)
            _exit(2);
        if (suci_recv(node, &message, 0) != SUCI_E_FORKED || suci_node_id(node, &id) != SUCI_E_FORKED)
            _exit(3);
        if (suci_wake(node) != SUCI_E_FORKED)
            _exit(4);
        if (suci_node_free(node) != SUCI_E_FORKED || suci_node_free(node) != SUCI_E_HANDLE)
            _exit(5);
        /* F37: the descriptors are given back with the handle, the port's, too. */
        if (suci_node_free(other) != SUCI_E_FORKED || node_descriptors() != 0)
            _exit(6);
        handles_of_a_child(book, region);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(suci_book_free(book));
    must(suci_region_free(region));
}

static void closed(suci_node a, suci_node b)
{
    suci_message message;
    suci_item item;
    int result;
    must(suci_send(a, 1, "last", 4, 0));
    suci_node_close(a, SUCI_SECONDS(5));
    check(suci_send(a, 1, "x", 1, 0) == SUCI_E_CLOSED);
    check(suci_node_close(a, 0) == SUCI_E_CLOSED);
    while ((result = suci_next(a, &item, SUCI_FOREVER)) == SUCI_OK)
        suci_item_release(&item);
    check(result == SUCI_E_CLOSED);
    do {
        must(suci_recv(b, &message, SUCI_SECONDS(30)));
        result = message.length == 4 && memcmp(message.payload, "last", 4) == 0;
        suci_message_release(&message);
    } while (!result);
}

static void run(uint32_t threads)
{
    suci_node a = open_node(0, threads), b = open_node(1, 1);
    introduce(a, 1, b);
    introduce(b, 0, a);
    wakes(a);
    if (threads == 0)
        busy(a);
    requests(a, b);
    releases(b, a, 0);
    if (threads > 0)
        releases(a, b, 1);
    descriptors(a, b);
    peers(a);
    numbers(a, threads);
    lengths(a);
    forks(a, b);
    closed(a, b);
    must(suci_node_free(a));
    must(suci_node_free(b));
}

static void logs(void)
{
    char text[8192];
    int ends[2];
    ssize_t got;
    suci_node node;
    check(pipe(ends) == 0);
    must(suci_log_to(ends[1]));
    node = open_node(3, 0);
    must(suci_node_free(node));
    must(suci_log_to(-1));
    close(ends[1]);
    got = read(ends[0], text, sizeof text - 1);
    check(got > 0);
    text[got] = 0;
    check(strncmp(text, "suci DEBUG node opened node=3 ", 30) == 0);
    close(ends[0]);
    /* SIGPIPE would end the program. */
    check(pipe(ends) == 0);
    close(ends[0]);
    must(suci_log_to(ends[1]));
    node = open_node(3, 0);
    must(suci_node_free(node));
    must(suci_log_to(-1));
    close(ends[1]);
}

int main(void)
{
    uint32_t number;
    errors();
    keys();
    books();
    threads_of_a_child(0);
    threads_of_a_child(1);
    run(0);
    run(1);
    run(2);
    logs();
    check(suci_env_id(&number) == SUCI_E_NOT_FOUND);
    check(suci_env_size(&number) == SUCI_E_NOT_FOUND);
    return 0;
}
