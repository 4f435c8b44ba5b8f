/* Bursts into a window of 50 packets: node 0 writes N packets of 1,400 bytes at once, and waits
 * until node 1 has acknowledged all. It prints, for each N, the throughput in KB/s. The library of
 * the paper collapsed to 7 KB/s where N was twice the window.
 *
 *     burst NODES MYID window|adaptive|tcp SECONDS
 *
 * `window`: a congestion window that stays 50 packets. `adaptive`: the library's own.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

#define SIZE 1400
#define WINDOW 50
/* UDP payload of a packet with such a message, about. */
#define PACKET_BYTES 1452

static const long COUNTS[] = {10, 25, 40, 50, 60, 75, 100, 150, 200};
static char buffer[SIZE];

/* Sends `count` packets at once, and waits until all are there. */
static void send_burst(datagram_socket *sock, int fd, long count)
{
    for (long i = 0; i < count; i++) {
        buffer[0] = i + 1 == count;
        if (sock == NULL)
            tcp_send(fd, buffer, SIZE);
        else
            write_to(sock, 1, buffer, SIZE);
    }
    if (sock != NULL)
        wait_for_acknowledgements(sock, 1);
    else if (tcp_receive(fd, buffer, SIZE) != 0)
        exit(1);
}

static void measure(datagram_socket *sock, int fd, double seconds)
{
    send_burst(sock, fd, 10);
    for (size_t at = 0; at < sizeof COUNTS / sizeof *COUNTS; at++) {
        long packets = 0;
        double begun = now(), passed;
        do {
            send_burst(sock, fd, COUNTS[at]);
            packets += COUNTS[at];
            passed = now() - begun;
        } while (passed < seconds);
        printf("%ld %.3f\n", COUNTS[at], (double)packets * SIZE / passed / 1e3);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: burst NODES MYID window|adaptive|tcp SECONDS\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]);
    double seconds = atof(argv[4]);

    if (strcmp(argv[3], "tcp") == 0) {
        struct sockaddr_in address = tcp_address(argv[1], 1);
        if (id == 0) {
            measure(NULL, tcp_connect(&address), seconds);
            return 0;
        }
        int fd = tcp_accept(tcp_listen(argv[1], 1));
        while (tcp_receive(fd, buffer, SIZE) >= 0)
            if (buffer[0])
                tcp_send(fd, "", 0);
        return 0;
    }
    suci_node_options options;
    suci_node_options_init(&options);
    if (strcmp(argv[3], "window") == 0) {
        options.controller = SUCI_CONTROLLER_FIXED;
        options.controller_window = WINDOW * PACKET_BYTES;
    }
    datagram_socket *sock = open_socket(argv[1], id, 0, &options);
    if (id == 0) {
        measure(sock, -1, seconds);
        end(sock, 1);
        return 0;
    }
    while (take(sock, WRITE, buffer, SIZE) > 0)
        if (buffer[0] && ack_sync(sock, 0) != 0)
            die("ack_sync");
    return datagram_close(sock, 30, 0) != 0;
}
