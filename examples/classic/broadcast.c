/* Broadcast: node 0 sends a message to all other nodes, and each of them answers with an empty
 * message. Node 0 prints, for each size, the bytes that arrived at all receivers divided by the
 * time until the last answer, in KB/s. With SIZE it sends that size only, ROUNDS times, and prints
 * its processor time in seconds, and how many payload bytes its library copied.
 *
 *     broadcast NODES MYID write|packet|tcp SECONDS [SIZE ROUNDS]
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

#define SMALLEST 128
#define LARGEST (1024 * 1024)
#define LARGEST_OF_CURVE (512 * 1024)
#define MOST_RECEIVERS 64

static char buffer[LARGEST];
static int connections[MOST_RECEIVERS + 1];

/* Returns the packet of `size` bytes: the last one, once all receivers have acknowledged it. */
static datagram_packet *packet_of(datagram_socket *sock, size_t size)
{
    static datagram_packet *packet;

    if (packet == NULL || packet->length != size || datagram_packet_busy(packet)) {
        datagram_free_packet(packet);
        packet = new_packet(sock, size);
    }
    return packet;
}

/* Sends to nodes 1 to `others`, and waits for all answers. */
static void send_to_all(datagram_socket *sock, enum method method, uint32_t others, size_t size)
{
    datagram_packet *packet = method == PACKET ? packet_of(sock, size) : NULL;

    /* The program makes its message in place. */
    memset(packet != NULL ? packet->data : buffer, 'x', size);
    for (uint32_t id = 1; id <= others; id++) {
        if (method == WRITE)
            write_to(sock, id, buffer, size);
        else if (method == PACKET)
            put_to(sock, id, packet);
        else
            tcp_send(connections[id], buffer, size);
    }
    for (uint32_t id = 1; id <= others; id++) {
        if (method != TCP)
            take(sock, method, buffer, sizeof buffer);
        else if (tcp_receive(connections[id], buffer, sizeof buffer) != 0)
            exit(1);
    }
}

/* Measures the throughput of each size. */
static void measure(datagram_socket *sock, enum method method, uint32_t others, double seconds)
{
    for (size_t size = SMALLEST; size <= LARGEST_OF_CURVE; size *= 2) {
        long rounds = 0;
        send_to_all(sock, method, others, size);
        double begun = now(), passed;
        do {
            send_to_all(sock, method, others, size);
            rounds++;
            passed = now() - begun;
        } while (passed < seconds || rounds < 3);
        printf("%zu %.3f\n", size, (double)size * others * (double)rounds / passed / 1e3);
        fflush(stdout);
    }
}

/* Measures the processor time of `rounds` broadcasts. */
static void weigh(datagram_socket *sock, enum method method, uint32_t others, size_t size,
                  long rounds)
{
    suci_counters before = {.size = sizeof before}, after = {.size = sizeof after};

    send_to_all(sock, method, others, size);
    if (sock != NULL && suci_node_counters(datagram_node(sock), &before) != SUCI_OK)
        die("suci_node_counters");
    double begun = processor_time(), begun_at = now();
    for (long round = 0; round < rounds; round++)
        send_to_all(sock, method, others, size);
    double used = processor_time() - begun, passed = now() - begun_at;
    if (sock != NULL && suci_node_counters(datagram_node(sock), &after) != SUCI_OK)
        die("suci_node_counters");
    printf("processor %.6f seconds %.6f copied %" PRIu64 "\n", used, passed,
           after.payload_copied - before.payload_copied);
}

static void run(datagram_socket *sock, enum method method, uint32_t others, char **argv)
{
    if (argv[5] == NULL || argv[6] == NULL)
        measure(sock, method, others, atof(argv[4]));
    else
        weigh(sock, method, others, (size_t)atol(argv[5]), atol(argv[6]));
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: broadcast NODES MYID write|packet|tcp SECONDS [SIZE ROUNDS]\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]), others = count_nodes(argv[1]) - 1;
    enum method method = method_of(argv[3]);

    if (others > MOST_RECEIVERS) {
        fprintf(stderr, "%" PRIu32 " receivers: at most %d\n", others, MOST_RECEIVERS);
        return 2;
    }
    if (method == TCP && id != 0) {
        int fd = tcp_accept(tcp_listen(argv[1], id));
        while (tcp_receive(fd, buffer, sizeof buffer) >= 0)
            tcp_send(fd, "", 0);
        return 0;
    }
    for (uint32_t to = 1; method == TCP && to <= others; to++) {
        struct sockaddr_in address = tcp_address(argv[1], to);
        connections[to] = tcp_connect(&address);
    }
    datagram_socket *sock = method == TCP ? NULL : open_socket(argv[1], id, 0, NULL);
    if (id == 0) {
        run(sock, method, others, argv);
        if (sock != NULL)
            end(sock, others);
        return 0;
    }
    while (take(sock, method, buffer, sizeof buffer) > 0)
        write_to(sock, 0, "", 0);
    return datagram_close(sock, 30, 0) != 0;
}
