/* A node in a poll() loop: memory is sent by reference and comes back by an event. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <suci/suci.h>

static char memory[1 << 20];

static int fail(const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, suci_last_error_message());
    return 1;
}

/* Prints a message or an event. Returns 1 if it gives the memory back. */
static int handle(suci_item *item)
{
    int is_back = 0;
    if (item->type == SUCI_ITEM_MESSAGE) {
        printf("a message of %zu bytes from node %u\n", item->message.length,
               (unsigned)item->message.from);
    } else if (item->event.type == SUCI_EVENT_RELEASED) {
        printf("memory %u is mine again\n", (unsigned)item->event.released.cookie);
        is_back = 1;
    }
    suci_item_release(item);
    return is_back;
}

int main(void)
{
    suci_node_options options;
    suci_send_options how;
    suci_node node;
    suci_item item;
    struct iovec piece;
    struct pollfd entry;
    int is_back = 0, rounds;

    suci_node_options_init(&options);
    options.id = 1;
    options.listen = "127.0.0.1:0";
    if (suci_node_open(&options, &node) != SUCI_OK || suci_node_fd(node, &entry.fd) != SUCI_OK)
        return fail("opening");
    entry.events = POLLIN;

    /* A node may send to itself. */
    memset(memory, 'm', sizeof memory);
    piece.iov_base = memory;
    piece.iov_len = sizeof memory;
    suci_send_options_init(&how);
    how.flags = SUCI_SEND_BY_REFERENCE;
    how.cookie = 42;
    if (suci_sendv(node, 1, &piece, 1, &how, 0, NULL) != SUCI_OK)
        return fail("sending");

    for (rounds = 0; rounds < 100 && !is_back; ++rounds) {
        int result;
        poll(&entry, 1, 1000);
        while ((result = suci_next(node, &item, 0)) == SUCI_OK)
            is_back |= handle(&item);
        if (result != SUCI_E_TIMED_OUT)
            return fail("receiving");
    }
    if (suci_node_free(node) != SUCI_OK)
        return fail("closing");
    return !is_back;
}
