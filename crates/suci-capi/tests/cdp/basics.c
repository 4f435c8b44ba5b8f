/* Two nodes test the promises of cdp.h: node 0 serves, node 1 connects. */
#include "../c/check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <suci/cdp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the program if a call did not fail with this errno. */
#define fails(call, code)                                                                     \
    do {                                                                                      \
        errno = 0;                                                                            \
        check((call) == -1);                                                                  \
        if (errno != (code)) {                                                                \
            fprintf(stderr, "%s:%d: %s: errno %d (%s), not %s\n", __FILE__, __LINE__, #call,  \
                    errno, cdp_error(), #code);                                               \
            exit(1);                                                                          \
        }                                                                                     \
        check(cdp_error()[0] != '\0');                                                        \
    } while (0)

/* Ends the program if a call failed. */
#define works(call)                                                                           \
    do {                                                                                      \
        if ((call) < 0) {                                                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cdp_error());       \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

enum { MESSAGES = 80, STREAMS = 81, NOBODY = 82, WAITING = 83, LONG = 1000000 };

static const cdp_addr messages = {0, MESSAGES}, streams = {0, STREAMS}, nobody = {0, NOBODY};
static const cdp_addr no_port = {0, 0};

static int listener(uint16_t port, int stream)
{
    int s = cdp_socket();

    check(s >= 0);
    works(cdp_setopt(s, CDP_STREAM, stream));
    works(cdp_bind(s, port));
    works(cdp_listen(s, 4));
    return s;
}

static int wait_for(int s, short events)
{
    struct pollfd fd = {-1, 0, 0};

    fd.fd = cdp_fd(s);
    fd.events = events;
    check(fd.fd >= 0);
    check(poll(&fd, 1, 20000) == 1);
    return fd.revents;
}

static void serve(void)
{
    int at = listener(MESSAGES, 0), byte = listener(STREAMS, 1), s;
    unsigned char *bytes = (unsigned char *)malloc(LONG);
    cdp_addr peer, own;
    ssize_t length;

    fails(cdp_accept(cdp_socket(), NULL, 1), EINVAL);
    fails(cdp_bind(at, 5), EINVAL);

    /* Nobody connects to this one. Its time limit was set before it listened. */
    s = cdp_socket();
    works(cdp_setopt(s, CDP_RECV_TIMEOUT, 20));
    works(cdp_listen(s, 1));
    fails(cdp_accept(s, NULL, 1), EAGAIN);
    fails(cdp_accept(s, NULL, 0), EAGAIN);
    works(cdp_close(s));

    /* Messages come back. */
    check(wait_for(at, POLLIN) == POLLIN);
    s = cdp_accept(at, &peer, 0);
    check(s >= 0 && peer.node == 1 && peer.port >= 32768);
    works(cdp_getsockname(s, &own));
    check(own.node == 0 && own.port == MESSAGES);
    for (;;) {
        length = cdp_recv(s, bytes, LONG, 0);
        works(length);
        if (length == 0)
            break;
        check(cdp_send(s, bytes, (size_t)length) == length);
    }
    fails(cdp_send(s, "x", 1), EPIPE);
    works(cdp_close(s));
    fails(cdp_close(s), EBADF);

    /* A message, then the end. */
    s = cdp_accept(at, NULL, 0);
    check(s >= 0);
    check(cdp_send(s, "parted", 6) == 6);
    works(cdp_close(s));

    /* A stream is read to its end, then answered. */
    s = cdp_accept(byte, NULL, 0);
    check(s >= 0);
    for (length = 0; length < LONG;) {
        ssize_t part = cdp_recv(s, bytes + length, (size_t)(LONG - length), 0);

        check(part > 0);
        length += part;
    }
    check(cdp_recv(s, bytes, 1, 0) == 0);
    check(cdp_send(s, "done", 4) == 4);
    works(cdp_close(s));

    /* cdp_end() of node 1 waits until this message was read. */
    s = cdp_accept(at, NULL, 0);
    check(s >= 0);
    poll(NULL, 0, 100);
    check(cdp_recv(s, bytes, LONG, 0) == LONG);
    check(cdp_recv(s, bytes, LONG, 0) == 0);
    free(bytes);
}

static int connected(const cdp_addr *to, int stream)
{
    int s = cdp_socket();

    works(cdp_setopt(s, CDP_STREAM, stream));
    /* The server may not listen yet. */
    while (cdp_connect(s, to) != 0) {
        check(errno == ECONNREFUSED);
        poll(NULL, 0, 10);
    }
    return s;
}

static void visit(void)
{
    unsigned char *sent = (unsigned char *)malloc(LONG), *came = (unsigned char *)malloc(LONG);
    int s = connected(&messages, 0), other = cdp_socket();
    cdp_addr peer;
    ssize_t length;

    for (int place = 0; place < LONG; place++)
        sent[place] = (unsigned char)(place * 7);
    fails(cdp_connect(s, &messages), EISCONN);
    fails(cdp_connect(other, &nobody), ECONNREFUSED);
    fails(cdp_connect(other, &no_port), ECONNREFUSED);
    fails(cdp_send(other, "x", 1), ENOTCONN);
    fails(cdp_fd(other), ENOTCONN);
    works(cdp_getpeername(s, &peer));
    check(peer.node == 0 && peer.port == MESSAGES);
    fails(cdp_getpeername(other, &peer), ENOTCONN);
    fails(cdp_setopt(s, 99, 1), ENOPROTOOPT);
    fails(cdp_setopt(s, CDP_STREAM, 1), EINVAL);
    fails(cdp_shutdown(s), EOPNOTSUPP);
    works(cdp_bind(other, 4000));
    /* The port stays after an attempt that failed. */
    fails(cdp_connect(other, &nobody), ECONNREFUSED);
    works(cdp_getsockname(other, &peer));
    check(peer.port == 4000);
    fails(cdp_bind(cdp_socket(), 4000), EADDRINUSE);

    /* Boundaries, the rest of a message, waits. */
    fails(cdp_recv(s, came, LONG, 1), EAGAIN);
    works(cdp_setopt(s, CDP_RECV_TIMEOUT, 20));
    fails(cdp_recv(s, came, LONG, 0), EAGAIN);
    works(cdp_setopt(s, CDP_RECV_TIMEOUT, 0));
    check(cdp_send(s, sent, 10) == 10);
    check(cdp_send(s, sent, LONG) == LONG);
    check(cdp_recv(s, came, 4, 0) == 4 && cdp_more(s) == 1);
    check(cdp_recv(s, came + 4, LONG, 0) == 6 && cdp_more(s) == 0);
    check(memcmp(sent, came, 10) == 0);
    check((wait_for(s, POLLIN | POLLOUT) & (POLLIN | POLLOUT)) != 0);
    check(cdp_recv(s, came, LONG, 0) == LONG);
    check(memcmp(sent, came, LONG) == 0);

    /* poll() knows of a rest. */
    check(cdp_send(s, sent, 10) == 10);
    for (length = 0; length < 10; length += 5) {
        check(wait_for(s, POLLIN) == POLLIN);
        check(cdp_recv(s, came, 5, 0) == 5);
    }
    check(poll(NULL, 0, 0) == 0 && cdp_more(s) == 0);

    /* A message that is too long waits until it is allowed, and the next one stays apart. */
    works(cdp_setopt(s, CDP_MAX_MESSAGE, 100));
    check(cdp_send(s, sent, 200000) == 200000);
    check(cdp_send(s, sent, 7) == 7);
    fails(cdp_recv(s, came, LONG, 0), EMSGSIZE);
    check(wait_for(s, POLLIN) == POLLIN);
    fails(cdp_recv(s, came, LONG, 0), EMSGSIZE);
    works(cdp_setopt(s, CDP_MAX_MESSAGE, LONG));
    check(cdp_recv(s, came, LONG, 0) == 200000);
    check(memcmp(sent, came, 200000) == 0);
    check(cdp_recv(s, came, LONG, 0) == 7);
    works(cdp_close(s));

    /* Data that came before the peer closed can be read; nothing can be sent. */
    s = connected(&messages, 0);
    check(wait_for(s, POLLIN) == POLLIN);
    while (cdp_send(s, "x", 1) == 1)
        poll(NULL, 0, 10);
    check(errno == EPIPE);
    check(cdp_recv(s, came, LONG, 0) == 6 && memcmp(came, "parted", 6) == 0);
    check(cdp_recv(s, came, LONG, 0) == 0);
    works(cdp_close(s));

    /* A stream. */
    s = connected(&streams, 1);
    for (length = 0; length < LONG;) {
        ssize_t part = cdp_send(s, sent + length, (size_t)(LONG - length));

        check(part > 0);
        length += part;
    }
    works(cdp_shutdown(s));
    fails(cdp_send(s, "x", 1), EPIPE);
    for (length = 0; length < 4;) {
        ssize_t part = cdp_recv(s, came + length, (size_t)(4 - length), 0);

        check(part > 0);
        length += part;
    }
    check(memcmp(came, "done", 4) == 0);
    check(cdp_recv(s, came, 1, 0) == 0);
    works(cdp_close(s));

    /* Without waiting. */
    s = cdp_socket();
    works(cdp_setopt(s, CDP_NONBLOCKING, 1));
    if (cdp_connect(s, &messages) != 0) {
        check(errno == EINPROGRESS);
        check(wait_for(s, POLLOUT) == POLLOUT);
    }
    fails(cdp_recv(s, came, 1, 0), EAGAIN);
    check(cdp_send(s, sent, LONG) == LONG);
    free(sent);
    free(came);
}

/* The child of a fork can use nothing of its parent's node. */
static void check_child(void)
{
    struct stat about;
    int status, s = cdp_socket();
    pid_t child = fork();

    check(s >= 0 && child >= 0);
    if (child == 0) {
        fails(cdp_socket(), EBADF);
        fails(cdp_close(s), EBADF);
        fails(cdp_init(-1, NULL, 0, 0), EBADF);
        fails(cdp_end(), EBADF);
        /* F37: nor does it keep its port. */
        for (s = 3; s < 1024; s++)
            check(fstat(s, &about) != 0 || !S_ISSOCK(about.st_mode));
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0);
    works(cdp_close(s));
}

static void *accept_until_the_end(void *s)
{
    fails(cdp_accept(*(int *)s, NULL, 0), EBADF);
    return NULL;
}

int main(void)
{
    char address[64];
    pthread_t accepting;
    int at;
    const char *wrong[] = {"nowhere", "nowhere"};

    fails(cdp_socket(), EBADF);
    fails(cdp_init(-7, NULL, 0, 0), EINVAL);
    fails(cdp_init(-1, wrong, 1, 0), EINVAL);
    fails(cdp_init(-1, wrong, 2, 0), EINVAL);
    fails(cdp_init(-1, NULL, 1, 0), EINVAL);
    works(cdp_init(-1, NULL, 0, 1));
    fails(cdp_init(-1, NULL, 0, 0), EBUSY);
    works(cdp_address(address));
    check(strchr(address, ':') != NULL);
    fails(cdp_add_node(9, "nowhere"), EINVAL);
    works(cdp_add_node(9, "127.0.0.1:9"));
    check_child();
    if (strcmp(getenv("SUCI_ID"), "0") == 0)
        serve();
    else
        visit();
    at = listener(WAITING, 0);
    check(pthread_create(&accepting, NULL, accept_until_the_end, &at) == 0);
    poll(NULL, 0, 50);
    works(cdp_end());
    check(pthread_join(accepting, NULL) == 0);
    fails(cdp_end(), EBADF);
    return 0;
}
