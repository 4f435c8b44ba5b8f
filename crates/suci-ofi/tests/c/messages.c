// Two endpoints in one process: every way to send and to receive.
#include "node.h"

static struct node a, b;
static fi_addr_t to_b, to_a;
static int one, two, three;
static struct fi_cq_tagged_entry entry;
static struct fi_cq_err_entry failed;
static fi_addr_t source;

// Expects the completion of a send.
static void sent(void *context, uint64_t kind) {
    EQUAL(next(&a, &b, &entry, NULL), 1);
    CHECK(entry.op_context == context);
    CHECK((entry.flags & (FI_SEND | kind)) == (FI_SEND | kind));
}

// Expects the completion of a receive.
static void received(void *context, size_t length, uint64_t tag) {
    EQUAL(next(&b, &a, &entry, &source), 1);
    CHECK(entry.op_context == context);
    CHECK(entry.flags & FI_RECV);
    EQUAL(entry.len, length);
    EQUAL(entry.tag, tag);
    EQUAL(source, to_a);
}

static void untagged(void) {
    char buffer[64] = {0};
    EQUAL(fi_recv(b.ep, buffer, 64, NULL, FI_ADDR_UNSPEC, &one), 0);
    EQUAL(fi_send(a.ep, "hello", 6, NULL, to_b, &two), 0);
    sent(&two, FI_MSG);
    received(&one, 6, 0);
    CHECK(!strcmp(buffer, "hello") && !(entry.flags & FI_REMOTE_CQ_DATA));

    // Parts, and data of the completion.
    struct iovec out[2] = {{"ab", 2}, {"cd", 3}}, in[2] = {{buffer, 1}, {buffer + 8, 32}};
    struct fi_msg message = {.msg_iov = out, .iov_count = 2, .addr = to_b, .data = 77};
    message.context = &two;
    EQUAL(fi_recvv(b.ep, in, NULL, 2, to_a, &one), 0);
    EQUAL(fi_sendmsg(a.ep, &message, FI_REMOTE_CQ_DATA), 0);
    sent(&two, FI_MSG);
    received(&one, 5, 0);
    CHECK(buffer[0] == 'a' && !strcmp(buffer + 8, "bcd"));
    CHECK(entry.flags & FI_REMOTE_CQ_DATA && entry.data == 77);

    EQUAL(fi_inject(a.ep, "x", 1, to_b), 0);
    EQUAL(fi_injectdata(a.ep, "y", 1, 5, to_b), 0);
    EQUAL(fi_senddata(a.ep, NULL, 0, NULL, 6, to_b, &three), 0);
    sent(&three, FI_MSG);
    for (int at = 0; at < 3; at++)
        EQUAL(fi_recv(b.ep, buffer + at, 1, NULL, FI_ADDR_UNSPEC, &one), 0);
    received(&one, 1, 0);
    received(&one, 1, 0);
    EQUAL(entry.data, 5);
    received(&one, 0, 0);
    EQUAL(entry.data, 6);
    CHECK(buffer[0] == 'x' && buffer[1] == 'y');
}

static void tags(void) {
    char buffer[64] = {0};
    // The mask, and the order of messages with equal tags.
    EQUAL(fi_tinject(a.ep, "1", 1, to_b, 0x501), 0);
    EQUAL(fi_tinject(a.ep, "2", 1, to_b, 0x602), 0);
    EQUAL(fi_tinject(a.ep, "3", 1, to_b, 0x502), 0);
    EQUAL(fi_trecv(b.ep, buffer, 1, NULL, FI_ADDR_UNSPEC, 0x602, 0, &one), 0);
    received(&one, 1, 0x602);
    EQUAL(fi_trecv(b.ep, buffer + 1, 1, NULL, to_a, 0x5ff, 0xff, &two), 0);
    received(&two, 1, 0x501);
    EQUAL(fi_trecv(b.ep, buffer + 2, 1, NULL, to_a, 0, ~0ull, &three), 0);
    received(&three, 1, 0x502);
    CHECK(!memcmp(buffer, "213", 3));

    // Truncation.
    EQUAL(fi_trecv(b.ep, buffer, 4, NULL, to_a, 9, 0, &one), 0);
    EQUAL(fi_tsend(a.ep, "0123456789", 10, NULL, to_b, 9, &two), 0);
    sent(&two, FI_TAGGED);
    EQUAL(next_error(&b, &a, &failed), FI_ETRUNC);
    CHECK(failed.op_context == &one && failed.len == 4 && failed.olen == 6);
    CHECK(!memcmp(buffer, "0123", 4) && failed.tag == 9);

    // A receive that is withdrawn.
    EQUAL(fi_trecv(b.ep, buffer, 4, NULL, to_a, 10, 0, &one), 0);
    EQUAL(fi_cancel(&b.ep->fid, &one), 0);
    EQUAL(next_error(&b, &a, &failed), FI_ECANCELED);
    CHECK(failed.op_context == &one);
    EQUAL(fi_cancel(&b.ep->fid, &one), -FI_ENOENT);
}

static void look(uint64_t flags, uint64_t tag, void *context) {
    struct fi_msg_tagged wanted = {.addr = to_a, .tag = tag, .context = context};
    EQUAL(fi_trecvmsg(b.ep, &wanted, flags), 0);
}

static void peeks(void) {
    char buffer[64] = {0};
    struct fi_context context;
    look(FI_PEEK, 30, &one);
    EQUAL(next_error(&b, &a, &failed), FI_ENOMSG);
    CHECK(failed.op_context == &one);

    EQUAL(fi_tinjectdata(a.ep, "first", 5, 3, to_b, 30), 0);
    EQUAL(fi_tinject(a.ep, "second", 6, to_b, 30), 0);
    EQUAL(fi_tinject(a.ep, "third", 5, to_b, 30), 0);
    time_t end = time(NULL) + 60;
    do {
        look(FI_PEEK, 30, &one);
        ssize_t got = fi_cq_readfrom(b.cq, &entry, 1, &source);
        if (got == 1)
            break;
        EQUAL(got, -FI_EAVAIL);
        EQUAL(fi_cq_readerr(b.cq, &failed, 0), 1);
        EQUAL(failed.err, FI_ENOMSG);
    } while (time(NULL) < end);
    CHECK(entry.op_context == &one && entry.len == 5 && entry.data == 3 && entry.tag == 30);
    EQUAL(source, to_a);

    // The claimed message is for its claim alone.
    look(FI_PEEK | FI_CLAIM, 30, &context);
    received(&context, 5, 30);
    EQUAL(fi_trecv(b.ep, buffer, 64, NULL, to_a, 30, 0, &two), 0);
    received(&two, 6, 30);
    CHECK(!memcmp(buffer, "second", 6));
    struct iovec in = {buffer, 64};
    struct fi_msg_tagged claimed = {.msg_iov = &in, .iov_count = 1, .context = &context};
    EQUAL(fi_trecvmsg(b.ep, &claimed, FI_CLAIM), 0);
    received(&context, 5, 30);
    CHECK(!memcmp(buffer, "first", 5));
    EQUAL(fi_trecvmsg(b.ep, &claimed, FI_CLAIM), -FI_EINVAL);

    look(FI_PEEK | FI_DISCARD, 30, &one);
    received(&one, 5, 30);
    look(FI_PEEK, 30, &one);
    EQUAL(next_error(&b, &a, &failed), FI_ENOMSG);
}

static void several(void) {
    char buffer[256];
    size_t least = 100;
    EQUAL(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
    struct iovec in = {buffer, sizeof buffer};
    struct fi_msg wanted = {
        .msg_iov = &in, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &three};
    EQUAL(fi_recvmsg(b.ep, &wanted, FI_MULTI_RECV), 0);
    char text[90] = "one";
    EQUAL(fi_inject(a.ep, text, 90, to_b), 0);
    strcpy(text, "two");
    EQUAL(fi_inject(a.ep, text, 90, to_b), 0);
    received(&three, 90, 0);
    CHECK(entry.buf == buffer && !strcmp(buffer, "one") && !(entry.flags & FI_MULTI_RECV));
    received(&three, 90, 0);
    CHECK(entry.buf == buffer + 90 && !strcmp(buffer + 90, "two"));
    CHECK(entry.flags & FI_MULTI_RECV);
}

static void long_ones(void) {
    static char out[3 << 20], in[3 << 20];
    for (size_t length = 65536; length <= sizeof out; length = length * 3 + 1) {
        for (size_t at = 0; at < length; at++)
            out[at] = (char)(at * 7 + length);
        for (int early = 0; early < 2; early++) {
            memset(in, 0, sizeof in);
            if (early)
                EQUAL(fi_trecv(b.ep, in, length, NULL, to_a, 40, 0, &one), 0);
            EQUAL(fi_tsend(a.ep, out, length, NULL, to_b, 40, &two), 0);
            if (!early)
                EQUAL(fi_trecv(b.ep, in, length, NULL, to_a, 40, 0, &one), 0);
            received(&one, length, 40);
            sent(&two, FI_TAGGED);
            CHECK(!memcmp(in, out, length));
        }
    }
    // To itself.
    fi_addr_t self;
    EQUAL(fi_av_insert(b.av, b.name, 1, &self, 0, NULL), 1);
    EQUAL(fi_tsend(b.ep, out, 1 << 20, NULL, self, 41, &two), 0);
    EQUAL(fi_trecv(b.ep, in, 1 << 20, NULL, self, 41, 0, &one), 0);
    for (int at = 0; at < 2; at++) {
        EQUAL(next(&b, NULL, &entry, NULL), 1);
        CHECK(entry.op_context == &one || entry.op_context == &two);
    }
    CHECK(!memcmp(in, out, 1 << 20));
}

static void selective(void) {
    struct node c;
    fi_addr_t to;
    char buffer[8];
    open_node(&c, FI_SELECTIVE_COMPLETION);
    EQUAL(fi_av_insert(c.av, b.name, 1, &to, 0, NULL), 1);
    EQUAL(fi_av_insert(b.av, c.name, 1, &to_a, 0, NULL), 1);
    EQUAL(fi_tsend(c.ep, "quiet", 5, NULL, to, 50, &one), 0);
    struct iovec out = {"loud", 4};
    struct fi_msg_tagged message = {
        .msg_iov = &out, .iov_count = 1, .addr = to, .tag = 51, .context = &two};
    EQUAL(fi_tsendmsg(c.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    EQUAL(fi_trecv(b.ep, buffer, 8, NULL, to_a, 51, 0, &three), 0);
    EQUAL(next(&b, &c, &entry, &source), 1);
    EQUAL(source, to_a);
    EQUAL(next(&c, &b, &entry, NULL), 1);
    CHECK(entry.op_context == &two);
    EQUAL(fi_cntr_wait(c.sent, 2, 10000), 0);
    EQUAL(fi_cntr_read(c.sent), 2);
    EQUAL(fi_cq_sread(c.cq, &entry, 1, NULL, 10), -FI_EAGAIN);
    close_node(&c);
}

int main(void) {
    open_node(&a, 0);
    open_node(&b, 0);
    EQUAL(fi_av_insert(a.av, b.name, 1, &to_b, 0, NULL), 1);
    EQUAL(fi_av_insert(b.av, a.name, 1, &to_a, 0, NULL), 1);
    untagged();
    tags();
    peeks();
    several();
    long_ones();
    selective();
    close_node(&a);
    close_node(&b);
    return 0;
}
