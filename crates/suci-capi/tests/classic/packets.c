/* The packet interface: no copies, one list for many destinations, and packets that were freed. */
#include "pair.h"

#define LONG (1 << 20)

/* A unit test asserts the same of Rust. */
_Static_assert(offsetof(datagram_packet, data) == 0, "data");
_Static_assert(offsetof(datagram_packet, length) == 8, "length");
_Static_assert(offsetof(datagram_packet, next) == 16, "next");
_Static_assert(offsetof(datagram_packet, id) == 24, "id");
_Static_assert(sizeof(datagram_packet) == 32, "the whole packet");

static uint64_t copied(datagram_socket *sock)
{
    suci_counters counters = {.size = sizeof counters};
    must(suci_node_counters(datagram_node(sock), &counters));
    return counters.payload_copied;
}

/* One list of three packets goes to two destinations; it is freed before it is sent. */
static void one_list_for_two(datagram_socket *a, datagram_socket *b, datagram_socket *c)
{
    size_t lengths[] = {LONG, 0, 100};
    datagram_packet *list = NULL;
    datagram_socket *receivers[] = {b, c};
    uint64_t before = copied(a);

    for (int i = 2; i >= 0; i--) {
        datagram_packet *packet = datagram_new_packet(a, lengths[i]);
        check(packet != NULL && packet->length == lengths[i] && packet->id == 0);
        memset(packet->data, 'a' + i, lengths[i]);
        packet->next = list;
        list = packet;
    }
    check(datagram_packet_put(a, list, 1) == 3 && datagram_packet_put(a, list, 2) == 3);
    check(datagram_packet_busy(list) == 1);
    fails(datagram_packet_put(a, list, 77), ENOENT);
    check(datagram_queue_length(a, 1) == 3 && datagram_queue_length(a, 2) == 3);
    check(datagram_free_packet(list) == 0);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 3; i++) {
            double deadline = now() + 20;
            while (datagram_ready(receivers[r], 0, 1) == 0) {
                check(datagram_ready(a, 0, 0) >= 0 && datagram_ready(receivers[!r], 0, 0) >= 0);
                check(now() < deadline);
            }
            datagram_packet *got = datagram_packet_get(receivers[r]);
            check(got != NULL && got->id == 0 && got->next == NULL && got->length == lengths[i]);
            for (size_t at = 0; at < got->length; at++)
                check(((char *)got->data)[at] == 'a' + i);
            check(datagram_free_packet(got) == 0);
        }
        fails(datagram_packet_get(receivers[r]), EAGAIN);
    }
    /* Up to 256 bytes are copied each time that they are sent; of the megabyte, nothing is. */
    check(copied(a) - before <= 10 * 2 * 100);
    flush(a, 1, b);
    flush(a, 2, c);
}

static void busy(datagram_socket *a, datagram_socket *b)
{
    datagram_packet *packet = datagram_new_packet(a, LONG);

    check(datagram_packet_busy(packet) == 0);
    check(datagram_packet_put(a, packet, 1) == 1 && datagram_packet_busy(packet) == 1);
    double deadline = now() + 5;
    while (datagram_packet_busy(packet) != 0) {
        check(datagram_ready(a, 0, 1) == 0 && datagram_ready(b, 0, 0) >= 0);
        check(now() < deadline);
    }
    check(datagram_queue_length(a, 1) == 0);
    /* The same packet again, with another content and shorter. */
    memset(packet->data, 'z', LONG);
    packet->length = 3000;
    check(datagram_packet_put(a, packet, 1) == 1);
    datagram_free_packet(packet);
    flush(a, 1, b);
    await(b, a);
    datagram_packet *got = datagram_packet_get(b);
    check(got->length == LONG && *(char *)got->data == 0);
    datagram_free_packet(got);
    await(b, a);
    got = datagram_packet_get(b);
    check(got->length == 3000 && *(char *)got->data == 'z');
    /* A packet that was got is passed on without a copy, also if it has to be sent twice. */
    uint64_t before = copied(b);
    check(datagram_packet_put(b, got, 0) == 1 && datagram_free_packet(got) == 0);
    await(a, b);
    got = datagram_packet_get(a);
    check(got->id == 1 && got->length == 3000 && *(char *)got->data == 'z');
    datagram_free_packet(got);
    flush(b, 0, a);
    check(copied(b) == before);
}

static void short_packets(datagram_socket *a, datagram_socket *b)
{
    for (int length = 1; length <= 40; length++) {
        datagram_packet *packet = datagram_new_packet(a, (size_t)length);
        memset(packet->data, length, (size_t)length);
        check(datagram_packet_put(a, packet, 1) == 1);
        /* Bytes of a packet of this length are copied by the put. */
        memset(packet->data, 0, (size_t)length);
        datagram_free_packet(packet);
        await(b, a);
        datagram_packet *got = datagram_packet_get(b);
        check(got->length == (size_t)length);
        for (int at = 0; at < length; at++)
            check(((char *)got->data)[at] == length);
        datagram_free_packet(got);
    }
    flush(a, 1, b);
}

static void wrong_packets(datagram_socket *a)
{
    datagram_packet *packet = datagram_new_packet(a, 10), *second = datagram_new_packet(a, 10);

    packet->length = 11;
    fails(datagram_packet_put(a, packet, 1), EINVAL);
    packet->length = 10;
    packet->next = packet;
    fails(datagram_packet_put(a, packet, 1), EINVAL);
    packet->next = second;
    second->length = 100;
    fails(datagram_packet_put(a, packet, 1), EINVAL);
    check(datagram_queue_length(a, 1) == 0);
    check(datagram_free_packet(packet) == 0);
    fails(datagram_free_packet(packet), EINVAL);
    fails(datagram_free_packet(second), EINVAL);
    fails(datagram_packet_put(a, packet, 1), EINVAL);
    fails(datagram_packet_busy(packet), EINVAL);
    fails(datagram_packet_put(a, NULL, 1), EINVAL);
    check(datagram_free_packet(NULL) == 0);
    fails(datagram_new_packet(a, SIZE_MAX), EINVAL);
    fails(datagram_new_packet(a, SIZE_MAX / 4), ENOMEM);
    fails(datagram_new_packet(NULL, 10), EBADF);
}

/* Only ack_sync() acknowledges while the receiver makes no other call. */
static void acknowledgements(datagram_socket *a, datagram_socket *b)
{
    int waited = 0;

    for (int i = 0; i < 20; i++) {
        check(datagram_destination(1, a) == 0 && datagram_write(a, "x", 1) == 1);
        await(b, a);
        datagram_free_packet(datagram_packet_get(b));
        /* Every other time the call comes at once, when no other reason to send is near. */
        if (i % 2 == 0) {
            check(datagram_ready(a, 0, 1) == 0);
            waited += datagram_queue_length(a, 1) == 1;
        }
        check(ack_sync(b, 0) == 0);
        check(datagram_ready(a, 0, 5) == 0);
        check(datagram_queue_length(a, 1) == 0);
    }
    check(waited > 0);
    fails(ack_sync(b, 77), ENOENT);
}

int main(int argc, char **argv)
{
    check(argc > 1);
    addressdb db = table(3, atoi(argv[1]));
    datagram_socket *a = open_node(&db, 0, 0, NULL), *b = open_node(&db, 1, 0, NULL);
    datagram_socket *c = open_node(&db, 2, 0, NULL);

    one_list_for_two(a, b, c);
    busy(a, b);
    short_packets(a, b);
    wrong_packets(a);
    acknowledgements(a, b);
    datagram_packet *left = datagram_new_packet(a, 100);
    check(datagram_close(a, 5, 0) == 0 && datagram_close(b, 5, 0) == 0);
    check(datagram_close(c, 5, 0) == 0);
    check(left->length == 100 && datagram_free_packet(left) == 0);
    return 0;
}
