/* The ends of many sockets, and of their nodes.
 *
 * "close N": both nodes of a launch close N sockets and their node at once.
 * "die", "stop" and "stop early": a process connects to its child, which then ends or is stopped;
 *   the last one closes its node before its sockets have failed. Prints the seconds that
 *   cdp_end() took. */
#include "../c/check.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <suci/cdp.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 80, FEW = 8 };

#define works(call)                                                                           \
    do {                                                                                      \
        if ((call) < 0) {                                                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cdp_error());       \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static double now(void)
{
    struct timespec time;

    check(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Closes the node. Returns the seconds that it took. */
static double end(int result)
{
    double begun = now();
    int ended = cdp_end();

    if (ended != result) {
        fprintf(stderr, "cdp_end: %d, not %d: %s\n", ended, result, ended ? cdp_error() : "");
        exit(1);
    }
    check(ended == 0 || errno == ETIMEDOUT);
    return now() - begun;
}

/* Listens for `count` sockets. */
static int listener(int count)
{
    int at = cdp_socket();

    works(cdp_bind(at, PORT));
    works(cdp_listen(at, count));
    return at;
}

/* Accepts `count` sockets. */
static int *accepted(int at, int count)
{
    int i, *sockets = (int *)calloc((size_t)count, sizeof(int));

    for (i = 0; i < count; i++)
        works(sockets[i] = cdp_accept(at, NULL, 0));
    return sockets;
}

/* Connects `count` sockets to a node. */
static int *connected(uint32_t node, int count)
{
    cdp_addr address = {0, PORT};
    int i, *sockets = (int *)calloc((size_t)count, sizeof(int));

    address.node = node;
    for (i = 0; i < count; i++) {
        works(sockets[i] = cdp_socket());
        /* The other node may not be there yet. */
        while (cdp_connect(sockets[i], &address) != 0) {
            works(errno == ECONNREFUSED ? 0 : -1);
            poll(NULL, 0, 10);
        }
    }
    return sockets;
}

/* A message each way on each of many sockets; then all are closed, at both ends at once. */
static void close_at_once(int is_server, int count)
{
    int *sockets, i;
    char got[8];

    works(cdp_init(-1, NULL, 0, 0));
    sockets = is_server ? accepted(listener(count), count) : connected(0, count);
    for (i = 0; i < count; i++)
        works(cdp_send(sockets[i], "hello", 5));
    for (i = 0; i < count; i++)
        check(cdp_recv(sockets[i], got, sizeof(got), 0) == 5);
    for (i = 0; i < count; i++)
        works(cdp_close(sockets[i]));
    printf("%.3f\n", end(0));
}

/* Opens a node, and tells the other process where. Enters the node of the other process. */
static void open_beside(int node, int to, int from)
{
    const char *any = "127.0.0.1:0";
    char at[64];

    works(cdp_init(node, &any, 1, 0));
    works(cdp_address(at));
    check(write(to, at, sizeof(at)) == (ssize_t)sizeof(at));
    check(read(from, at, sizeof(at)) == (ssize_t)sizeof(at));
    works(cdp_add_node((uint32_t)!node, at));
}

static void outlive(const char *how, int is_early)
{
    int *sockets, there[2], back[2], at, i, status;
    char got[8];
    pid_t other;

    check(pipe(there) == 0 && pipe(back) == 0);
    if ((other = fork()) == 0) {
        open_beside(1, back[1], there[0]);
        at = listener(FEW);
        check(write(back[1], "", 1) == 1);
        accepted(at, FEW);
        pause();
    }
    open_beside(0, there[1], back[0]);
    check(read(back[0], got, 1) == 1);
    sockets = connected(1, FEW);
    check(kill(other, strcmp(how, "die") == 0 ? SIGKILL : SIGSTOP) == 0);
    /* On a busy machine its other threads go on until one of them has taken the signal. */
    if (strcmp(how, "stop") == 0)
        check(waitpid(other, &status, WUNTRACED) == other && WIFSTOPPED(status));
    for (i = 0; i < FEW; i++)
        works(cdp_send(sockets[i], "lost", 4));
    for (i = 0; i < FEW && !is_early; i++) {
        check(cdp_recv(sockets[i], got, sizeof(got), 0) == -1);
        check(errno == ETIMEDOUT || errno == ECONNRESET);
    }
    printf("%.3f\n", end(-1));
    check(kill(other, SIGKILL) == 0);
    check(waitpid(other, NULL, 0) == other);
}

int main(int argc, char **argv)
{
    const char *id = getenv("SUCI_ID");

    check(argc > 2);
    if (strcmp(argv[1], "close") == 0)
        close_at_once(id && strcmp(id, "0") == 0, atoi(argv[2]));
    else
        outlive(argv[1], strcmp(argv[2], "early") == 0);
    return 0;
}
