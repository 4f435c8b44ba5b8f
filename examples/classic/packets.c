/* The second listing of the Suci paper as a whole program: a loop on the packet interface. Node 0
 * puts each packet to all other nodes, and each of them answers with the packet that it got.
 *
 *     packets NODES MYID ROUNDS LENGTH
 *
 * Node 0 prints the number of answers, and the payload bytes that the library copied to send.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

/* Waits for the next packet. */
static datagram_packet *get(datagram_socket *sock)
{
    int ready = datagram_ready(sock, 20, 0);
    if (ready < 0)
        die("datagram_ready");
    if (ready == 0) {
        fprintf(stderr, "no packet came within 20 s\n");
        exit(1);
    }
    datagram_packet *packet = datagram_packet_get(sock);
    if (packet == NULL)
        die("datagram_packet_get");
    return packet;
}

/* Node 0: puts one packet to all others, and takes their answers. */
static long ask(datagram_socket *sock, uint32_t others, size_t length, unsigned char letter)
{
    long answers = 0;

    datagram_packet *packet = datagram_new_packet(sock, length);
    if (packet == NULL)
        die("datagram_new_packet");
    memset(packet->data, letter, length);
    for (uint32_t dest = 1; dest <= others; dest++)
        if (datagram_packet_put(sock, packet, dest) != 1)
            die("datagram_packet_put");
    for (uint32_t i = 0; i < others; i++) {
        datagram_packet *answer = get(sock);
        if (answer->length != length || memcmp(answer->data, packet->data, length) != 0) {
            fprintf(stderr, "the answer of node %" PRIu32 " is damaged\n", answer->id);
            exit(1);
        }
        if (ack_sync(sock, answer->id) != 0)
            die("ack_sync");
        datagram_free_packet(answer);
        answers++;
    }
    datagram_free_packet(packet);
    return answers;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: packets NODES MYID ROUNDS LENGTH\n");
        return 2;
    }
    uint32_t id = (uint32_t)atoi(argv[2]);
    long rounds = atol(argv[3]), answers = 0;
    size_t length = (size_t)atol(argv[4]);
    datagram_socket *sock = open_socket(argv[1], id, 0, NULL);

    if (id == 0) {
        uint32_t others = count_nodes(argv[1]) - 1;
        for (long round = 0; round < rounds; round++)
            answers += ask(sock, others, length, (unsigned char)('a' + round % 26));
        suci_counters counters = {.size = sizeof counters};
        if (suci_node_counters(datagram_node(sock), &counters) != SUCI_OK)
            die("suci_node_counters");
        printf("answers %ld, copied %" PRIu64 "\n", answers, counters.payload_copied);
    }
    for (long round = 0; id != 0 && round < rounds; round++) {
        datagram_packet *packet = get(sock);
        if (datagram_packet_put(sock, packet, packet->id) != 1)
            die("datagram_packet_put");
        datagram_free_packet(packet);
    }
    if (datagram_close(sock, 10, 0) != 0)
        die("datagram_close");
    return 0;
}
