/* Two nodes in one process: a question and its answer. */
#include <stdio.h>
#include <suci/suci.h>

static int fail(const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, suci_last_error_message());
    return 1;
}

/* Opens a node that a thread serves, at a port that the system chooses. */
static int open_node(int64_t id, suci_node *node)
{
    suci_node_options options;
    suci_node_options_init(&options);
    options.id = id;
    options.listen = "127.0.0.1:0";
    options.accept = SUCI_ACCEPT_ANYONE;
    options.threads = 1;
    return suci_node_open(&options, node);
}

int main(void)
{
    suci_node server, client;
    suci_message message;
    char address[SUCI_ADDRESS_SIZE];

    if (open_node(0, &server) != SUCI_OK || open_node(1, &client) != SUCI_OK)
        return fail("opening");
    if (suci_node_address(server, address) != SUCI_OK ||
        suci_add_peer(client, 0, address) != SUCI_OK)
        return fail("introducing");

    if (suci_send(client, 0, "hello", 5, SUCI_SECONDS(5)) != SUCI_OK)
        return fail("sending");
    if (suci_recv(server, &message, SUCI_SECONDS(5)) != SUCI_OK)
        return fail("receiving");
    printf("node %u says %.*s\n", (unsigned)message.from, (int)message.length,
           (const char *)message.payload);
    if (suci_send(server, message.from, "hello yourself", 14, SUCI_SECONDS(5)) != SUCI_OK)
        return fail("answering");
    suci_message_release(&message);
    if (suci_recv(client, &message, SUCI_SECONDS(5)) != SUCI_OK)
        return fail("receiving the answer");
    printf("node %u says %.*s\n", (unsigned)message.from, (int)message.length,
           (const char *)message.payload);
    suci_message_release(&message);

    if (suci_node_close(client, SUCI_SECONDS(5)) != SUCI_OK ||
        suci_node_close(server, SUCI_SECONDS(5)) != SUCI_OK)
        return fail("closing");
    suci_node_free(client);
    suci_node_free(server);
    return 0;
}
