/* Throughput by block size: node 0 writes blocks to node 1 for SECONDS per size and waits until
 * all are acknowledged. It prints, for each size, the throughput in KB/s. The sizes lie around
 * those of packets, and at the 2,000 bytes where the library of the paper collapsed.
 *
 *     blocks NODES MYID write|packet|tcp SECONDS
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

/* Bytes that wait for acknowledgements before the loop reads them. */
#define AHEAD (256 * 1024)
#define LARGEST 16000

static const size_t SIZES[] = {250,  500,  1000, 1200, 1300, 1400, 1440, 1460, 1472, 1500,
                               1750, 2000, 2250, 2500, 3000, 4000, 6000, 8000, 8192, 16000};
static char buffer[LARGEST];

/* Writes blocks for `seconds`. Returns their number. */
static long stream(datagram_socket *sock, int fd, enum method method, size_t size, double seconds)
{
    double end_at = now() + seconds;
    long blocks = 0;

    while (now() < end_at) {
        if (method == TCP) {
            tcp_send(fd, buffer, size);
        } else if (datagram_queue_length(sock, 1) < (long)(AHEAD / size)) {
            datagram_packet *packet = method == PACKET ? new_packet(sock, size) : NULL;
            if (packet == NULL)
                write_to(sock, 1, buffer, size);
            else
                put_to(sock, 1, packet);
            datagram_free_packet(packet);
        } else {
            if (datagram_ready(sock, 0, 0) < 0)
                die("datagram_ready");
            continue;
        }
        blocks++;
    }
    /* The end of the blocks of this size: node 1 answers an empty message when it has them. */
    if (method == TCP) {
        tcp_send(fd, buffer, 1);
        if (tcp_receive(fd, buffer, sizeof buffer) != 0)
            exit(1);
    } else {
        write_to(sock, 1, buffer, 1);
        take(sock, WRITE, buffer, sizeof buffer);
    }
    return blocks;
}

static void measure(datagram_socket *sock, int fd, enum method method, double seconds)
{
    stream(sock, fd, method, 1000, seconds / 2);
    for (size_t at = 0; at < sizeof SIZES / sizeof *SIZES; at++) {
        double begun = now();
        long blocks = stream(sock, fd, method, SIZES[at], seconds);
        double passed = now() - begun;
        printf("%zu %.3f\n", SIZES[at], (double)SIZES[at] * (double)blocks / passed / 1e3);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: blocks NODES MYID write|packet|tcp SECONDS\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]);
    enum method method = method_of(argv[3]);
    double seconds = atof(argv[4]);

    if (method == TCP) {
        struct sockaddr_in address = tcp_address(argv[1], 1);
        if (id == 0) {
            measure(NULL, tcp_connect(&address), method, seconds);
            return 0;
        }
        int fd = tcp_accept(tcp_listen(argv[1], 1));
        ssize_t length;
        while ((length = tcp_receive(fd, buffer, sizeof buffer)) >= 0)
            if (length == 1)
                tcp_send(fd, "", 0);
        return 0;
    }
    datagram_socket *sock = open_socket(argv[1], id, 0, NULL);
    if (id == 0) {
        measure(sock, -1, method, seconds);
        end(sock, 1);
        return 0;
    }
    size_t length;
    while ((length = take(sock, method, buffer, sizeof buffer)) > 0)
        if (length == 1)
            write_to(sock, 0, "", 0);
    return datagram_close(sock, 30, 0) != 0;
}
