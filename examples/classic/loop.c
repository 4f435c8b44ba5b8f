/* The first listing of the Suci paper as a whole program: a loop that reads, else writes, else
 * checks the queue and retransmits. Two processes send each other COUNT numbered messages.
 *
 *     loop NODES MYID OTHER COUNT [manual]
 *
 * NODES is the file of the host table. With `manual` the loop's retransmission is the only one;
 * otherwise the library retransmits, and that call does nothing. SUCI_FAULTS=loss=0.05 makes the
 * library drop 5 % of the packets. Each process prints how many messages it received, how many of
 * them were lost, and how many came twice; it fails if any was.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "classic.h"

#define LENGTH 1000

/* Fills in message number `number`. */
static void fill(unsigned char *message, uint64_t number)
{
    memset(message, (int)(number & 0xff), LENGTH);
    memcpy(message, &number, sizeof number);
}

/* Checks a message that should be number `expected`. Returns its number. */
static uint64_t check(const unsigned char *message, ssize_t length, uint64_t expected)
{
    unsigned char right[LENGTH];
    uint64_t number;

    memcpy(&number, message, sizeof number);
    fill(right, number);
    if (length != LENGTH || memcmp(message, right, LENGTH) != 0) {
        fprintf(stderr, "a message of %zd bytes in place of number %" PRIu64 " is damaged\n",
                length, expected);
        exit(1);
    }
    return number;
}

int main(int argc, char **argv)
{
    unsigned char buf[LENGTH];
    long retransmissions = 0;
    uint64_t count, sent = 0, received = 0, expected = 0, lost = 0, twice = 0;

    if (argc < 5) {
        fprintf(stderr, "usage: loop NODES MYID OTHER COUNT [manual]\n");
        return 2;
    }
    uint32_t other = (uint32_t)atoi(argv[3]);
    count = (uint64_t)atoll(argv[4]);
    int flags = argc > 5 && strcmp(argv[5], "manual") == 0 ? DATAGRAM_MANUAL : 0;
    datagram_socket *sock = open_socket(argv[1], (uint32_t)atoi(argv[2]), flags, NULL);
    if (datagram_destination(other, sock) != 0)
        die("datagram_destination");

    double deadline = now() + 120;
    while (received < count || sent < count || datagram_queue_length(sock, other) > 0) {
        int ready = datagram_ready(sock, 0, sent < count ? 0 : 10);
        if (ready < 0)
            die("datagram_ready");
        if (ready > 0) {
            ssize_t length = datagram_read(sock, buf, sizeof buf);
            if (length < 0)
                die("datagram_read");
            uint64_t number = check(buf, length, expected);
            if (number < expected)
                twice++;
            else
                lost += number - expected;
            expected = number + 1;
            received++;
            continue;
        }
        if (sent < count) {
            fill(buf, sent);
            if (datagram_write(sock, buf, sizeof buf) >= 0) {
                sent++;
                continue;
            }
            if (errno != EAGAIN)
                die("datagram_write");
        }
        if (datagram_queue_length(sock, other) > 0) {
            if (datagram_retransmission(sock, other) != 0)
                die("datagram_retransmission");
            retransmissions++;
        }
        if (now() > deadline) {
            fprintf(stderr, "received %" PRIu64 ", sent %" PRIu64 " within 120 s\n", received,
                    sent);
            return 1;
        }
    }
    suci_socket_counters counters = {.size = sizeof counters};
    if (suci_node_socket_counters(datagram_node(sock), &counters) != SUCI_OK)
        die("suci_node_socket_counters");
    if (datagram_close(sock, 10, 0) != 0)
        die("datagram_close");
    printf("received %" PRIu64 ", lost %" PRIu64 ", twice %" PRIu64 ", packets dropped %" PRIu64
           ", retransmissions %ld\n",
           received, lost, twice, counters.fault_lost, retransmissions);
    return lost != 0 || twice != 0;
}
