/* A node joins a cluster through another one, and both learn of a third. */
#include "check.h"

#define LONG SUCI_SECONDS(20)

static suci_node join(int64_t id, suci_node seed, const char *cluster)
{
    suci_node_options options;
    suci_node node;
    suci_book book = {0};
    suci_node_options_init(&options);
    options.id = id;
    options.threads = 1;
    options.listen = "127.0.0.1:0";
    options.cluster = cluster;
    must(suci_book_new(&book));
    if (seed.id != 0) {
        char address[SUCI_ADDRESS_SIZE];
        must(suci_node_address(seed, address));
        must(suci_book_add(book, 1, address));
    }
    options.book = book;
    must(suci_node_open(&options, &node));
    must(suci_book_free(book));
    return node;
}

/* Waits for an event about a node. */
static void await(suci_node node, uint32_t type, uint32_t about)
{
    suci_event event;
    bool found = false;
    while (!found) {
        must(suci_next_event(node, &event, LONG));
        found = event.type == type && event.node == about;
        suci_event_release(&event);
    }
}

int main(void)
{
    suci_node none = {0}, nodes[3];
    suci_member members[4];
    size_t count;
    uint32_t i;
    nodes[0] = join(1, none, "test");
    must(suci_wait_joined(nodes[0], 0));
    for (i = 1; i < 3; ++i) {
        nodes[i] = join(i + 1, nodes[0], "test");
        must(suci_wait_joined(nodes[i], LONG));
    }
    await(nodes[1], SUCI_EVENT_MEMBER_JOINED, 3);
    must(suci_members(nodes[1], members, 4, &count));
    check(count == 3);
    for (i = 0; i < 3; ++i) {
        char address[SUCI_ADDRESS_SIZE];
        must(suci_node_address(nodes[i], address));
        check(members[i].node == i + 1 && strcmp(members[i].address, address) == 0);
        check(members[i].incarnation[0] != 0 && !members[i].suspect);
    }
    must(suci_node_close(nodes[2], LONG));
    await(nodes[1], SUCI_EVENT_MEMBER_LEFT, 3);
    for (i = 0; i < 3; ++i)
        must(suci_node_free(nodes[i]));
    nodes[0] = join(1, none, NULL);
    check(suci_members(nodes[0], members, 4, &count) == SUCI_E_MISSING);
    check(suci_wait_joined(nodes[0], 0) == SUCI_E_MISSING);
    must(suci_node_free(nodes[0]));
    return 0;
}
