/* Ping-pong: node 0 sends a message to node 1, which sends it back. Node 0 prints, for each size,
 * the bytes of a message divided by half the round-trip time, in KB/s.
 *
 *     pingpong NODES MYID write|packet|tcp SECONDS
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

#define SMALLEST 128
#define LARGEST (512 * 1024)

static char buffer[LARGEST];

/* One round trip of node 0. */
static void round_trip(datagram_socket *sock, int fd, enum method method, size_t size)
{
    if (method == TCP) {
        tcp_send(fd, buffer, size);
        if (tcp_receive(fd, buffer, sizeof buffer) != (ssize_t)size) {
            fprintf(stderr, "the other node ended\n");
            exit(1);
        }
        return;
    }
    if (method == WRITE) {
        write_to(sock, 1, buffer, size);
    } else {
        datagram_packet *packet = new_packet(sock, size);
        put_to(sock, 1, packet);
        datagram_free_packet(packet);
    }
    if (take(sock, method, buffer, sizeof buffer) != size) {
        fprintf(stderr, "the answer has another length than %zu\n", size);
        exit(1);
    }
}

static void measure(datagram_socket *sock, int fd, enum method method, double seconds)
{
    for (size_t size = SMALLEST; size <= LARGEST; size *= 2) {
        long rounds = 0;
        round_trip(sock, fd, method, size);
        double begun = now(), passed;
        do {
            round_trip(sock, fd, method, size);
            rounds++;
            passed = now() - begun;
        } while (passed < seconds || rounds < 3);
        printf("%zu %.3f\n", size, (double)size * 2 * (double)rounds / passed / 1e3);
        fflush(stdout);
    }
}

/* Node 1 sends back what comes, until an empty message comes. */
static void echo(datagram_socket *sock, enum method method)
{
    for (;;) {
        if (method == WRITE) {
            size_t size = take(sock, method, buffer, sizeof buffer);
            if (size == 0)
                return;
            write_to(sock, 0, buffer, size);
            continue;
        }
        wait_for_message(sock);
        datagram_packet *packet = datagram_packet_get(sock);
        if (packet == NULL)
            die("datagram_packet_get");
        if (packet->length == 0)
            return;
        put_to(sock, 0, packet);
        datagram_free_packet(packet);
    }
}

/* The same over TCP, until the connection ends. */
static void echo_tcp(int fd)
{
    ssize_t length;

    while ((length = tcp_receive(fd, buffer, sizeof buffer)) >= 0)
        tcp_send(fd, buffer, (size_t)length);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: pingpong NODES MYID write|packet|tcp SECONDS\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]);
    enum method method = method_of(argv[3]);
    double seconds = atof(argv[4]);

    if (method == TCP) {
        struct sockaddr_in address = tcp_address(argv[1], 1);
        if (id == 0)
            measure(NULL, tcp_connect(&address), method, seconds);
        else
            echo_tcp(tcp_accept(tcp_listen(argv[1], 1)));
        return 0;
    }
    datagram_socket *sock = open_socket(argv[1], id, 0, NULL);
    if (id == 0) {
        measure(sock, -1, method, seconds);
        end(sock, 1);
        return 0;
    }
    echo(sock, method);
    return datagram_close(sock, 30, 0) != 0;
}
