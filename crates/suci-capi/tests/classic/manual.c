/* On a manual socket the program alone retransmits what was lost. */
#include "pair.h"

#define COUNT 300
#define SIZE 3000

int main(int argc, char **argv)
{
    static char block[SIZE];
    suci_node_options options;

    check(argc > 1);
    addressdb db = table(2, atoi(argv[1]));
    suci_node_options_init(&options);
    options.faults = "loss=0.3,seed=5";
    datagram_socket *a = open_node(&db, 0, DATAGRAM_MANUAL, &options);
    datagram_socket *b = open_node(&db, 1, 0, NULL);
    check(datagram_destination(1, a) == 0);
    for (int i = 0; i < COUNT; i++) {
        memcpy(block, &i, sizeof i);
        check(datagram_write(a, block, sizeof block) == SIZE);
    }
    /* Far longer than any retransmission timeout of a path this short. */
    int read = 0, number;
    double end = now() + 1;
    while (now() < end || read == 0) {
        check(datagram_ready(a, 0, 1) >= 0);
        if (datagram_ready(b, 0, 1) > 0) {
            check(datagram_read(b, block, SIZE) == SIZE);
            memcpy(&number, block, sizeof number);
            check(number == read++);
        }
        check(now() < end + 20);
    }
    check(read < COUNT && datagram_queue_length(a, 1) > 0);
    end = now() + 30;
    while (read < COUNT) {
        check(datagram_retransmission(a, 1) == 0);
        double pause = now() + 0.01;
        while (now() < pause) {
            check(datagram_ready(a, 0, 1) >= 0);
            if (datagram_ready(b, 0, 1) > 0) {
                check(datagram_read(b, block, SIZE) == SIZE);
                memcpy(&number, block, sizeof number);
                check(number == read++);
            }
        }
        check(now() < end);
    }
    check(datagram_close(a, 5, 0) == 0 && datagram_close(b, 5, 0) == 0);
    return 0;
}
