/* The host table, opening and closing, messages by copy, and what each wrong call gives. */
#include "pair.h"

/* Reads a host table from a file of its own. Returns the result of the call. */
static int lex(const char *text, addressdb *db)
{
    char name[] = "/tmp/suci-classic-XXXXXX";
    FILE *file = fdopen(mkstemp(name), "w+");
    check(file != NULL);
    fputs(text, file);
    rewind(file);
    int result = addressdb_lex(file, db);
    int code = errno;
    fclose(file);
    unlink(name);
    errno = code;
    return result;
}

static void host_table(void)
{
    addressdb db = {{0}};
    size_t count;

    check(lex("# a comment\n0 127.0.0.1:7000\n\n1 [::1]:7001 # another\n", &db) == 0);
    must(suci_book_count(db.book, &count));
    check(count == 2);
    check(addressdb_free(&db) == 0 && db.book.id == 0);
    fails(addressdb_free(&db), EBADF);
    fails(lex("0 127.0.0.1:7000\n1 nonsense\n", &db), EINVAL);
    check(strstr(datagram_error(), "/tmp/suci-classic-") != NULL);
    check(strstr(datagram_error(), ":2") != NULL);
    fails(addressdb_lex(NULL, &db), EINVAL);
    fails(addressdb_lex(stdin, NULL), EINVAL);
}

static void opening(const addressdb *db)
{
    suci_node_options options;
    addressdb stale = {{12345}};

    fails(datagram(NULL, NULL, 0, 0), EINVAL);
    fails(datagram(&stale, NULL, 0, 0), EBADF);
    fails(datagram(db, NULL, 7000, 0), EINVAL);
    fails(datagram(db, "127.0.0.1", 70000, 0), EINVAL);
    fails(datagram(db, "nonsense", 7000, 0), EINVAL);
    fails(datagram(db, "0.0.0.0", 0, 0), EACCES);
    fails(datagram(db, "192.0.2.1", 0, 0), EACCES);
    fails(datagram_open(db, "192.0.2.1", 0, 0, DATAGRAM_ALLOW_INSECURE_NETWORK, NULL),
          EADDRNOTAVAIL);
    fails(datagram_open(db, NULL, 0, 0, 64, NULL), EINVAL);
    suci_node_options_init(&options);
    options.threads = 1;
    fails(datagram_open(db, NULL, 0, 0, 0, &options), EINVAL);
    options.threads = 0;
    options.max_message = 1000;
    fails(datagram_open(db, NULL, 0, 0, 0, &options), EINVAL);

    datagram_socket *sock = datagram(db, "127.0.0.1", 0, 0);
    check(sock != NULL);
    char address[SUCI_ADDRESS_SIZE];
    must(suci_node_address(datagram_node(sock), address));
    char *port = strrchr(address, ':') + 1;
    fails(datagram(db, "127.0.0.1", atoi(port), 1), EADDRINUSE);
    fails(datagram_close(sock, 0, -1), EINVAL);
    check(datagram_close(sock, 1, 0) == 0);
    fails(datagram_close(sock, 1, 0), EBADF);
    fails(datagram_ready(sock, 0, 0), EBADF);
    fails(datagram_write(sock, "x", 1), EBADF);
    fails(datagram_ready(NULL, 0, 0), EBADF);
    fails(datagram_ready((datagram_socket *)(uintptr_t)0x1234567890, 0, 0), EBADF);
    check(datagram_node(sock).id == 0);
}

static void messages(datagram_socket *a, datagram_socket *b)
{
    char buf[100];
    uint32_t id;

    fails(datagram_write(a, "x", 1), EDESTADDRREQ);
    fails(datagram_destination(77, a), ENOENT);
    check(datagram_destination(1, a) == 0);
    fails(datagram_write(a, NULL, 5), EINVAL);
    fails(datagram_read(b, buf, sizeof buf), EAGAIN);
    fails(datagram_length(b), EAGAIN);
    fails(datagram_source(b, &id), EAGAIN);
    check(datagram_write(a, "hello", 5) == 5 && datagram_write(a, NULL, 0) == 0);
    check(datagram_write(a, "there", 5) == 5 && datagram_queue_length(a, 1) == 3);
    await(b, a);
    check(datagram_length(b) == 5);
    fails(datagram_read(b, buf, 4), EMSGSIZE);
    fails(datagram_read(b, NULL, 5), EINVAL);
    check(datagram_read(b, buf, sizeof buf) == 5 && memcmp(buf, "hello", 5) == 0);
    check(datagram_source(b, &id) == 0 && id == 0);
    await(b, a);
    check(datagram_read(b, NULL, 0) == 0);
    await(b, a);
    check(datagram_read(b, buf, sizeof buf) == 5 && memcmp(buf, "there", 5) == 0);
    flush(a, 1, b);
    fails(datagram_queue_length(a, 77), ENOENT);
    fails(datagram_retransmission(a, 77), ENOENT);
    check(datagram_retransmission(a, 1) == 0);
    /* To itself. */
    check(datagram_destination(0, a) == 0 && datagram_write(a, "me", 2) == 2);
    await(a, b);
    check(datagram_read(a, buf, sizeof buf) == 2 && memcmp(buf, "me", 2) == 0);
    check(datagram_destination(1, a) == 0);
}

/* Packets that the socket sent. */
static uint64_t sent(datagram_socket *sock)
{
    suci_socket_counters counters = {.size = sizeof counters};
    must(suci_node_socket_counters(datagram_node(sock), &counters));
    return counters.datagrams_sent;
}

/* Writes do not send, and reads find only what datagram_ready() found. */
static void input_and_output(datagram_socket *a, datagram_socket *b)
{
    char buf[10];
    int read = 0;
    uint64_t before;

    serve(a, b, 0.05);
    before = sent(a);
    for (int i = 0; i < 100; i++)
        check(datagram_write(a, "message", 7) == 7);
    check(sent(a) == before && datagram_queue_length(a, 1) == 100);
    usleep(150000);
    check(datagram_queue_length(a, 1) == 100);
    check(datagram_ready(a, 0, 0) == 0 && sent(a) > before);
    /* They are in the socket of `b`, whose program did not look there. */
    fails(datagram_length(b), EAGAIN);
    while (read < 100) {
        await(b, a);
        while (datagram_read(b, buf, sizeof buf) == 7)
            read++;
        check(errno == EAGAIN);
    }
    flush(a, 1, b);
}

static void full_queue(const addressdb *db)
{
    char block[30000] = {0};
    suci_node_options options;
    int taken = 0;

    suci_node_options_init(&options);
    options.send_queue = 64 << 10;
    datagram_socket *sock = open_node(db, 2, 0, &options);
    check(datagram_destination(3, sock) == 0);
    while (datagram_write(sock, block, sizeof block) >= 0)
        taken++;
    check(errno == EAGAIN && taken == 2);
    check(datagram_ready(sock, 0, 0) == 0);
    fails(datagram_write(sock, block, sizeof block), EAGAIN);
    check(datagram_queue_length(sock, 3) == 2);
    /* Nobody is there. */
    fails(datagram_close(sock, 0, 100), ETIMEDOUT);
    fails(datagram_ready(sock, 0, 0), EBADF);
}

int main(int argc, char **argv)
{
    check(argc > 1);
    addressdb db = table(4, atoi(argv[1]));

    host_table();
    opening(&db);
    datagram_socket *a = open_node(&db, 0, 0, NULL), *b = open_node(&db, 1, 0, NULL);
    messages(a, b);
    input_and_output(a, b);
    full_queue(&db);
    check(datagram_close(a, 5, 0) == 0 && datagram_close(b, 5, 0) == 0);
    return 0;
}
