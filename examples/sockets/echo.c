/*
 * echo - node 0 sends back what the other nodes send, with sockets in the manner of CDP.
 *
 * cc echo.c $(pkg-config --cflags --libs suci) -o echo && suci run -n 4 ./echo 100
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <suci/cdp.h>

enum { PORT = 7, MOST = 64 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, cdp_error());
    return 1;
}

/* Serves `count` clients with one poll() for all of them. Returns 0 when all have closed. */
static int serve(int count)
{
    struct pollfd fds[MOST + 1];
    int sockets[MOST + 1], open = 1, left = count, messages = 0;
    char buffer[1000];

    sockets[0] = cdp_socket();
    if (cdp_bind(sockets[0], PORT) != 0 || cdp_listen(sockets[0], MOST) != 0)
        return failed("listen");
    while (left > 0) {
        for (int i = 0; i < open; i++) {
            fds[i].fd = cdp_fd(sockets[i]);
            fds[i].events = POLLIN;
        }
        if (poll(fds, (nfds_t)open, -1) < 0)
            return 1;
        for (int i = open - 1; i > 0; i--) {
            ssize_t length;

            if (!(fds[i].revents & POLLIN))
                continue;
            length = cdp_recv(sockets[i], buffer, sizeof(buffer), 1);
            if (length > 0) {
                if (cdp_send(sockets[i], buffer, (size_t)length) != length)
                    return failed("send");
                messages++;
            } else if (length == 0) {
                cdp_close(sockets[i]);
                sockets[i] = sockets[--open];
                left--;
            } else if (errno != EAGAIN) {
                return failed("recv");
            }
        }
        if ((fds[0].revents & POLLIN) && open <= MOST) {
            int s = cdp_accept(sockets[0], NULL, 1);

            if (s >= 0)
                sockets[open++] = s;
        }
    }
    printf("%d messages\n", messages);
    return 0;
}

static int visit(int count)
{
    cdp_addr server = {0, PORT};
    int s = cdp_socket(), right = 0;

    /* The server may not listen yet. */
    while (cdp_connect(s, &server) != 0) {
        if (errno != ECONNREFUSED)
            return failed("connect");
        poll(NULL, 0, 10);
    }
    for (int i = 0; i < count; i++) {
        char sent[32], came[32];
        size_t length = (size_t)snprintf(sent, sizeof(sent), "message %d", i);

        if (cdp_send(s, sent, length) < 0 || cdp_recv(s, came, sizeof(came), 0) < 0)
            return failed("echo");
        right += memcmp(sent, came, length) == 0;
    }
    printf("%d messages came back\n", right);
    return cdp_close(s) != 0;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100, size = atoi(getenv("SUCI_SIZE")), result;

    if (cdp_init(-1, NULL, 0, 0) != 0)
        return failed("init");
    result = strcmp(getenv("SUCI_ID"), "0") == 0 ? serve(size - 1) : visit(count);
    return cdp_end() != 0 || result;
}
