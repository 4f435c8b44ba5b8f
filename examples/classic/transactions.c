/* Transactions: node 0 sends requests of 128 bytes to the other nodes in turn, and each is
 * answered by 100 KiB. Node 0 prints, for each N, the time of N transactions in seconds.
 *
 *     transactions NODES MYID suci|tcp-each|tcp-kept MOST
 *
 * `tcp-each`: a connection for each transaction. `tcp-kept`: a connection to each node, opened
 * before. N goes up to MOST.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

#define REQUEST 128
#define REPLY (100 * 1024)
#define MOST_SERVERS 64

static const long COUNTS[] = {1, 3, 10, 30, 100, 300, 1000};
static char buffer[REPLY];
static struct sockaddr_in addresses[MOST_SERVERS + 1];
static int connections[MOST_SERVERS + 1];

enum way { SUCI, TCP_EACH, TCP_KEPT };

static void check(ssize_t length)
{
    if (length != REPLY) {
        fprintf(stderr, "a reply of %zd bytes\n", length);
        exit(1);
    }
}

/* One transaction with node `id`. */
static void transact(datagram_socket *sock, enum way way, uint32_t id)
{
    if (way == SUCI) {
        write_to(sock, id, buffer, REQUEST);
        check((ssize_t)take(sock, PACKET, buffer, sizeof buffer));
        return;
    }
    int fd = way == TCP_EACH ? tcp_connect(&addresses[id]) : connections[id];
    tcp_send(fd, buffer, REQUEST);
    check(tcp_receive(fd, buffer, sizeof buffer));
    if (way == TCP_EACH)
        close(fd);
}

static void measure(datagram_socket *sock, enum way way, uint32_t others, long most)
{
    /* The first packets to each node, and the connections that stay. */
    for (uint32_t id = 1; id <= others; id++)
        transact(sock, way, id);
    for (size_t at = 0; at < sizeof COUNTS / sizeof *COUNTS && COUNTS[at] <= most; at++) {
        double begun = now();
        for (long i = 0; i < COUNTS[at]; i++)
            transact(sock, way, 1 + (uint32_t)(i % others));
        printf("%ld %.6f\n", COUNTS[at], now() - begun);
        fflush(stdout);
    }
}

/* A server answers each request until an empty message comes. */
static void serve(datagram_socket *sock)
{
    datagram_packet *reply = new_packet(sock, REPLY);

    for (;;) {
        wait_for_message(sock);
        datagram_packet *request = datagram_packet_get(sock);
        if (request == NULL)
            die("datagram_packet_get");
        if (request->length == 0)
            return;
        put_to(sock, request->id, reply);
        datagram_free_packet(request);
    }
}

/* The same over TCP: one connection at a time, until one sends an empty message. */
static void serve_tcp(int listener)
{
    for (;;) {
        int fd = tcp_accept(listener);
        ssize_t length;
        while ((length = tcp_receive(fd, buffer, sizeof buffer)) > 0)
            tcp_send(fd, buffer, REPLY);
        close(fd);
        if (length == 0)
            return;
    }
}

static enum way way_of(const char *name)
{
    if (strcmp(name, "suci") == 0)
        return SUCI;
    return strcmp(name, "tcp-each") == 0 ? TCP_EACH : TCP_KEPT;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: transactions NODES MYID suci|tcp-each|tcp-kept MOST\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]), others = count_nodes(argv[1]) - 1;
    enum way way = way_of(argv[3]);

    if (others > MOST_SERVERS) {
        fprintf(stderr, "%" PRIu32 " servers: at most %d\n", others, MOST_SERVERS);
        return 2;
    }
    if (way != SUCI && id != 0) {
        serve_tcp(tcp_listen(argv[1], id));
        return 0;
    }
    for (uint32_t to = 1; way != SUCI && to <= others; to++) {
        addresses[to] = tcp_address(argv[1], to);
        connections[to] = way == TCP_KEPT ? tcp_connect(&addresses[to]) : -1;
    }
    datagram_socket *sock = way == SUCI ? open_socket(argv[1], id, 0, NULL) : NULL;
    if (id != 0) {
        serve(sock);
        return datagram_close(sock, 30, 0) != 0;
    }
    measure(sock, way, others, atol(argv[4]));
    for (uint32_t to = 1; way != SUCI && to <= others; to++)
        tcp_send(way == TCP_KEPT ? connections[to] : tcp_connect(&addresses[to]), "", 0);
    if (sock != NULL)
        end(sock, others);
    return 0;
}
