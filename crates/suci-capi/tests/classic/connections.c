/* Explicit and implicit disconnection, flow control by the program, refused messages, threads and
 * forks. */
#include "pair.h"

#include <pthread.h>
#include <sys/wait.h>

/* Waits until the connection of `a` to `id` has this state. */
static void await_state(datagram_socket *a, uint32_t id, int state, datagram_socket *b)
{
    double deadline = now() + 20;
    while (datagram_state(a, id) != state) {
        datagram_ready(a, 0, 1);
        if (b != NULL)
            check(datagram_ready(b, 0, 0) >= 0);
        check(now() < deadline);
    }
}

static void disconnect(datagram_socket *a, datagram_socket *b)
{
    char buf[10];

    fails(datagram_state(a, 77), ENOENT);
    fails(datagram_disconnect(a, 77), ENOENT);
    fails(datagram_reconnect(a, 77), ENOENT);
    check(datagram_state(a, 1) == DATAGRAM_IDLE);
    check(datagram_destination(1, a) == 0 && datagram_destination(0, b) == 0);
    check(datagram_write(a, "1", 1) == 1);
    await(b, a);
    await_state(a, 1, DATAGRAM_CONNECTED, b);
    await_state(b, 0, DATAGRAM_CONNECTED, a);
    check(datagram_read(b, buf, sizeof buf) == 1);
    flush(a, 1, b);

    check(datagram_write(a, "2", 1) == 1);
    check(datagram_disconnect(a, 1) == 0 && datagram_state(a, 1) == DATAGRAM_DISCONNECTED);
    fails(datagram_write(a, "3", 1), ENOTCONN);
    await_state(b, 0, DATAGRAM_DISCONNECTED_THERE, a);
    fails(datagram_write(b, "4", 1), ENOTCONN);
    serve(a, b, 0.1);
    fails(datagram_read(b, buf, sizeof buf), EAGAIN);
    check(datagram_queue_length(a, 1) == 1);
    check(datagram_reconnect(a, 1) == 0);
    await(b, a);
    check(datagram_read(b, buf, sizeof buf) == 1 && buf[0] == '2');
    await_state(b, 0, DATAGRAM_CONNECTED, a);
    check(datagram_write(b, "5", 1) == 1);
    await(a, b);
    check(datagram_read(a, buf, sizeof buf) == 1 && buf[0] == '5');
    flush(b, 0, a);
}

/* The peer's process ends and another takes its place. */
static datagram_socket *restart(datagram_socket *a, datagram_socket *b, const addressdb *db)
{
    static char block[10 << 20];
    char buf[10];

    /* A message of which `b` has nothing when its node ends. */
    check(datagram_write(a, block, sizeof block) == sizeof block);
    check(datagram_ready(a, 0, 0) == 0 && datagram_queue_length(a, 1) == 1);
    datagram_close(b, 0, 0);
    b = open_node(db, 1, 0, NULL);
    check(datagram_destination(0, b) == 0 && datagram_write(b, "7", 1) == 1);
    double deadline = now() + 20;
    int ended = 0, read = 0;
    while (!ended || !read) {
        int ready = datagram_ready(a, 0, 1);
        if (ready < 0) {
            check(errno == ECONNRESET && strstr(datagram_error(), "1 messages") != NULL);
            ended++;
        } else if (ready > 0) {
            check(datagram_read(a, buf, sizeof buf) == 1 && buf[0] == '7');
            read++;
        }
        check(datagram_ready(b, 0, 0) >= 0);
        check(now() < deadline);
    }
    check(ended == 1);

    /* It stays disconnected, whoever answers there. */
    flush(b, 0, a);
    check(datagram_disconnect(a, 1) == 0);
    check(datagram_close(b, 1, 0) == 0);
    b = open_node(db, 1, 0, NULL);
    /* The first message comes with the connection, before its sender can know. */
    check(datagram_destination(0, b) == 0 && datagram_write(b, "8", 1) == 1);
    await_state(b, 0, DATAGRAM_DISCONNECTED_THERE, a);
    check(datagram_state(a, 1) == DATAGRAM_DISCONNECTED);
    fails(datagram_write(b, "9", 1), ENOTCONN);
    fails(datagram_write(a, "9", 1), ENOTCONN);
    check(datagram_reconnect(a, 1) == 0);
    await(a, b);
    check(datagram_read(a, buf, sizeof buf) == 1 && buf[0] == '8');
    await_state(b, 0, DATAGRAM_CONNECTED, a);
    flush(b, 0, a);
    return b;
}

static void silence(const addressdb *db)
{
    suci_node_options options;

    suci_node_options_init(&options);
    options.silence_timeout = SUCI_MILLISECONDS(200);
    datagram_socket *sock = open_node(db, 2, 0, &options);
    check(datagram_destination(3, sock) == 0 && datagram_write(sock, "x", 1) == 1);
    check(datagram_state(sock, 3) == DATAGRAM_IDLE);
    check(datagram_ready(sock, 0, 0) == 0);
    check(datagram_state(sock, 3) == DATAGRAM_CONNECTING);
    await_state(sock, 3, DATAGRAM_SILENT, NULL);
    /* It recovers by itself. */
    datagram_socket *late = open_node(db, 3, 0, NULL);
    await(late, sock);
    await_state(sock, 3, DATAGRAM_CONNECTED, late);
    check(datagram_close(sock, 5, 0) == 0 && datagram_close(late, 5, 0) == 0);

    /* Disconnected before there was a connection. */
    sock = open_node(db, 2, 0, NULL);
    check(datagram_disconnect(sock, 3) == 0 && datagram_state(sock, 3) == DATAGRAM_DISCONNECTED);
    check(datagram_destination(3, sock) == 0);
    fails(datagram_write(sock, "x", 1), ENOTCONN);
    check(datagram_reconnect(sock, 3) == 0 && datagram_write(sock, "x", 1) == 1);
    late = open_node(db, 3, 0, NULL);
    await(late, sock);
    check(datagram_close(sock, 5, 0) == 0 && datagram_close(late, 5, 0) == 0);
}

static void flow(datagram_socket *a, datagram_socket *b)
{
    suci_peer_stats stats = {.size = sizeof stats};
    size_t size = 0;

    fails(datagram_getdestbuf(a, 77, &size), ENOENT);
    fails(datagram_getdestbuf(a, 1, NULL), EINVAL);
    check(datagram_getdestbuf(a, 1, &size) == 0 && size > 0);
    fails(datagram_through(a, 77), ENOENT);
    check(datagram_through(a, 1) == 0);
    must(suci_peer_get_stats(datagram_node(a), 1, &stats));
    check(stats.mode == SUCI_MODE_THROUGHPUT);
    check(datagram_rapid(a, 1) == 0);
    must(suci_peer_get_stats(datagram_node(a), 1, &stats));
    check(stats.mode == SUCI_MODE_RESPONSE);
    serve(a, b, 0.05);
    must(suci_peer_get_stats(datagram_node(b), 0, &stats));
    check(stats.remote_mode == SUCI_MODE_RESPONSE);
}

/* A receiver that takes less than the sender may send. */
static void refusal(const addressdb *db)
{
    static char block[600000];
    suci_node_options options;
    int refused = 0;

    suci_node_options_init(&options);
    options.max_message = 500000;
    datagram_socket *a = open_node(db, 2, 0, NULL), *b = open_node(db, 3, 0, &options);
    check(datagram_destination(3, a) == 0 && datagram_destination(2, b) == 0);
    fails(datagram_write(b, block, sizeof block), EMSGSIZE);
    check(datagram_write(a, block, sizeof block) == sizeof block);
    check(datagram_write(a, block, 400000) == 400000);
    double deadline = now() + 20;
    while (datagram_ready(b, 0, 1) == 0 || !refused) {
        if (datagram_ready(a, 0, 1) < 0) {
            check(errno == EMSGSIZE && strstr(datagram_error(), "600000") != NULL);
            refused++;
        }
        check(now() < deadline);
    }
    check(refused == 1 && datagram_length(b) == 400000);
    check(datagram_close(a, 5, 0) == 0 && datagram_close(b, 5, 0) == 0);
}

static void *wait_long(void *sock)
{
    return (void *)(intptr_t)datagram_ready(sock, 3, 0);
}

/* A child can use nothing of its parent's sockets, and opens its own with the same table. */
static int in_a_child(const addressdb *db, datagram_socket *a)
{
    datagram_socket *own;
    errno = 0;
    if (datagram_ready(a, 0, 0) != -1 || errno != EBADF || datagram_close(a, 0, 0) != -1 ||
        errno != EBADF)
        return 1;
    own = datagram(db, "127.0.0.1", 0, 3);
    return own == NULL || datagram_close(own, 1, 0) != 0 ? 2 : 0;
}

static void threads_and_forks(const addressdb *db, datagram_socket *a, datagram_socket *b)
{
    pthread_t thread;
    void *result;
    int status, busy = 0;

    check(pthread_create(&thread, NULL, wait_long, b) == 0);
    double deadline = now() + 2;
    while (!busy && now() < deadline) {
        busy = datagram_length(b) == -1 && errno == EBUSY;
        usleep(1000);
    }
    check(busy);
    fails(datagram_close(b, 0, 0), EBUSY);
    /* suci_wake() ends the wait. */
    must(suci_wake(datagram_node(a)));
    check(datagram_ready(a, 10, 0) == 0 && now() < deadline + 5);
    check(pthread_join(thread, &result) == 0 && result == NULL);

    pid_t child = fork();
    if (child == 0)
        _exit(in_a_child(db, a));
    check(waitpid(child, &status, 0) == child && status == 0);
    check(datagram_destination(1, a) == 0 && datagram_write(a, "x", 1) == 1);
    await(b, a);
    char buf[10];
    check(datagram_read(b, buf, sizeof buf) == 1);
    flush(a, 1, b);
}

int main(int argc, char **argv)
{
    check(argc > 1);
    addressdb db = table(4, atoi(argv[1]));
    datagram_socket *a = open_node(&db, 0, 0, NULL), *b = open_node(&db, 1, 0, NULL);

    disconnect(a, b);
    flow(a, b);
    silence(&db);
    refusal(&db);
    threads_and_forks(&db, a, b);
    b = restart(a, b, &db);
    check(datagram_close(a, 5, 0) == 0 && datagram_close(b, 5, 0) == 0);
    return 0;
}
