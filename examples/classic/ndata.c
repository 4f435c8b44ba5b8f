/* N-data broadcast: node 0 sends N messages of 1,024 bytes to all other nodes, for N of 1 to 100.
 * It prints, for each N, the time until all nodes have them, in milliseconds.
 *
 *     ndata NODES MYID each|end|packet|tcp SECONDS
 *
 * `each`: every message is acknowledged (ack_sync) before the next one is written. `end`: all are
 * written, and acknowledged at the end. `packet`: a list of N packets, put to each node. `tcp`: a
 * connection to each node, whose program answers after N messages.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

#define SIZE 1024
#define MOST_RECEIVERS 64

static const long COUNTS[] = {1, 2, 5, 10, 20, 50, 100};
static char buffer[SIZE];
static int connections[MOST_RECEIVERS + 1];

/* Writes a message to nodes 1 to `others`. Its first byte says whether to acknowledge it. */
static void write_to_all(datagram_socket *sock, uint32_t others, int acknowledge)
{
    buffer[0] = (char)acknowledge;
    for (uint32_t id = 1; id <= others; id++)
        write_to(sock, id, buffer, SIZE);
}

static void send_each(datagram_socket *sock, uint32_t others, long count)
{
    for (long i = 0; i < count; i++) {
        write_to_all(sock, others, 1);
        wait_for_acknowledgements(sock, others);
    }
}

static void send_then_wait(datagram_socket *sock, uint32_t others, long count)
{
    for (long i = 0; i < count; i++)
        write_to_all(sock, others, i + 1 == count);
    wait_for_acknowledgements(sock, others);
}

static void send_packets(datagram_socket *sock, uint32_t others, long count)
{
    datagram_packet *list = NULL;

    /* The last packet of the list is made first. */
    for (long i = count; i > 0; i--) {
        datagram_packet *packet = new_packet(sock, SIZE);
        memcpy(packet->data, buffer, SIZE);
        *(char *)packet->data = i == count;
        packet->next = list;
        list = packet;
    }
    for (uint32_t id = 1; id <= others; id++)
        put_to(sock, id, list);
    datagram_free_packet(list);
    wait_for_acknowledgements(sock, others);
}

static void send_tcp(uint32_t others, long count)
{
    for (long i = 0; i < count; i++) {
        buffer[0] = i + 1 == count;
        for (uint32_t id = 1; id <= others; id++)
            tcp_send(connections[id], buffer, SIZE);
    }
    for (uint32_t id = 1; id <= others; id++)
        if (tcp_receive(connections[id], buffer, SIZE) != 0)
            exit(1);
}

static void send_all(datagram_socket *sock, const char *method, uint32_t others, long count)
{
    if (strcmp(method, "each") == 0)
        send_each(sock, others, count);
    else if (strcmp(method, "end") == 0)
        send_then_wait(sock, others, count);
    else if (strcmp(method, "packet") == 0)
        send_packets(sock, others, count);
    else
        send_tcp(others, count);
}

static void measure(datagram_socket *sock, const char *method, uint32_t others, double seconds)
{
    /* Connections open, and the library learns the path. */
    send_all(sock, method, others, 10);
    for (size_t at = 0; at < sizeof COUNTS / sizeof *COUNTS; at++) {
        long rounds = 0;
        double begun = now(), passed;
        do {
            send_all(sock, method, others, COUNTS[at]);
            rounds++;
            passed = now() - begun;
        } while (passed < seconds);
        printf("%ld %.3f\n", COUNTS[at], passed / (double)rounds * 1e3);
        fflush(stdout);
    }
}

/* A receiver: acknowledges the messages that say so, until an empty one comes. */
static void receive(datagram_socket *sock)
{
    for (;;) {
        wait_for_message(sock);
        datagram_packet *packet = datagram_packet_get(sock);
        if (packet == NULL)
            die("datagram_packet_get");
        if (packet->length == 0)
            return;
        if (*(char *)packet->data && ack_sync(sock, packet->id) != 0)
            die("ack_sync");
        datagram_free_packet(packet);
    }
}

static void receive_tcp(int fd)
{
    while (tcp_receive(fd, buffer, SIZE) >= 0)
        if (buffer[0])
            tcp_send(fd, "", 0);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: ndata NODES MYID each|end|packet|tcp SECONDS\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]), others = count_nodes(argv[1]) - 1;
    int tcp = strcmp(argv[3], "tcp") == 0;

    if (others > MOST_RECEIVERS) {
        fprintf(stderr, "%" PRIu32 " receivers: at most %d\n", others, MOST_RECEIVERS);
        return 2;
    }
    if (tcp && id != 0) {
        receive_tcp(tcp_accept(tcp_listen(argv[1], id)));
        return 0;
    }
    for (uint32_t to = 1; tcp && to <= others; to++) {
        struct sockaddr_in address = tcp_address(argv[1], to);
        connections[to] = tcp_connect(&address);
    }
    datagram_socket *sock = tcp ? NULL : open_socket(argv[1], id, 0, NULL);
    if (id == 0) {
        measure(sock, argv[3], others, atof(argv[4]));
        if (!tcp)
            end(sock, others);
        return 0;
    }
    receive(sock);
    return datagram_close(sock, 30, 0) != 0;
}
