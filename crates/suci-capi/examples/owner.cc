// C++: owners that release what they have.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <suci/suci.h>

namespace {

void must(int result)
{
    if (result != SUCI_OK)
        throw std::runtime_error(suci_last_error_message());
}

class Message {
public:
    Message() = default;
    Message(const Message &) = delete;
    Message &operator=(const Message &) = delete;
    ~Message() { suci_message_release(&raw); }

    std::string_view text() const { return {static_cast<const char *>(raw.payload), raw.length}; }

    suci_message raw{};
};

class Node {
public:
    explicit Node(std::int64_t id)
    {
        suci_node_options options;
        suci_node_options_init(&options);
        options.id = id;
        options.listen = "127.0.0.1:0";
        options.threads = 1;
        must(suci_node_open(&options, &handle));
    }
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;
    ~Node() { suci_node_free(handle); }

    std::string address() const
    {
        char text[SUCI_ADDRESS_SIZE];
        must(suci_node_address(handle, text));
        return text;
    }

    suci_node handle{};
};

} // namespace

int main()
{
    try {
        Node a(0), b(1);
        must(suci_add_peer(a.handle, 1, b.address().c_str()));
        must(suci_add_peer(b.handle, 0, a.address().c_str()));
        std::string_view text = "from C++";
        must(suci_send(a.handle, 1, text.data(), text.size(), SUCI_SECONDS(5)));
        Message message;
        must(suci_recv(b.handle, &message.raw, SUCI_SECONDS(5)));
        std::printf("%.*s\n", static_cast<int>(message.text().size()), message.text().data());
        return message.text() == text ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
