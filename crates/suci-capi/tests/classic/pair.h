/* Helpers of the test programs: two sockets of one process. */
#ifndef PAIR_H
#define PAIR_H

#include "../c/check.h"

#include <errno.h>
#include <suci/datagram.h>
#include <time.h>
#include <unistd.h>

#define PAIR_UNUSED __attribute__((unused))

/* Ends the program if a call did not fail with this errno. */
#define fails(call, code)                                                                     \
    do {                                                                                      \
        errno = 0;                                                                            \
        long fails_result = (long)(call);                                                     \
        int fails_errno = errno;                                                              \
        if ((fails_result != -1 && fails_result != 0) || fails_errno != (code)) {             \
            fprintf(stderr, "%s:%d: %s gave %ld, errno %d (%s), not %s\n", __FILE__, __LINE__, \
                    #call, fails_result, fails_errno, datagram_error(), #code);               \
            exit(1);                                                                          \
        }                                                                                     \
        check(datagram_error()[0] != '\0');                                                   \
    } while (0)

PAIR_UNUSED static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Returns a table of nodes 0 to `count` - 1 on loopback ports from `port` on. */
PAIR_UNUSED static addressdb table(int count, int port)
{
    addressdb db;
    char address[SUCI_ADDRESS_SIZE];

    must(suci_book_new(&db.book));
    for (int id = 0; id < count; id++) {
        snprintf(address, sizeof address, "127.0.0.1:%d", port + id);
        must(suci_book_add(db.book, (uint32_t)id, address));
    }
    return db;
}

PAIR_UNUSED static datagram_socket *open_node(const addressdb *db, uint32_t id, int flags,
                                              const suci_node_options *options)
{
    datagram_socket *sock = datagram_open(db, NULL, 0, id, flags, options);
    check(sock != NULL);
    return sock;
}

/* Does input and output of both until a message can be read from `to`. */
PAIR_UNUSED static void await(datagram_socket *to, datagram_socket *other)
{
    double deadline = now() + 20;
    while (datagram_ready(to, 0, 1) == 0) {
        check(datagram_ready(other, 0, 0) >= 0);
        check(now() < deadline);
    }
}

/* Does input and output of both until `from` has nothing queued for `id`. */
PAIR_UNUSED static void flush(datagram_socket *from, uint32_t id, datagram_socket *to)
{
    double deadline = now() + 20;
    while (datagram_queue_length(from, id) > 0) {
        check(datagram_ready(from, 0, 1) >= 0);
        check(datagram_ready(to, 0, 0) >= 0);
        check(now() < deadline);
    }
    check(datagram_queue_length(from, id) == 0);
}

/* Does input and output of both for a while. */
PAIR_UNUSED static void serve(datagram_socket *a, datagram_socket *b, double seconds)
{
    double end = now() + seconds;
    while (now() < end) {
        check(datagram_ready(a, 0, 1) >= 0);
        check(datagram_ready(b, 0, 1) >= 0);
    }
}

#endif
