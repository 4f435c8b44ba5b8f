/* Two nodes test the promises of fm.h. */
#include "../c/check.h"

#include <errno.h>
#include <pthread.h>
#include <suci/fm.h>

enum { ORDERED = 1, BYTES = 2, ASK = 3, ANSWER = 4, MISUSE = 5, FULL = 6, BULK = 8, ACK = 9, UNSET = 99, STEP = 100 };

/* Ends the program if a call did not fail with this errno. */
#define fails(call, code)                                                                     \
    do {                                                                                      \
        errno = 0;                                                                            \
        check((call) == -1);                                                                  \
        if (errno != (code)) {                                                                \
            fprintf(stderr, "%s:%d: %s: errno %d (%s), not %s\n", __FILE__, __LINE__, #call,  \
                    errno, FM_error(), #code);                                                \
            exit(1);                                                                          \
        }                                                                                     \
        check(FM_error()[0] != '\0');                                                         \
    } while (0)

static uint64_t next_word;
static size_t bytes_came;
static int answers, misused, was_full, fillers, steps, acks;

static void on_ordered(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    check(FM_source() == 1 - FM_nodeid);
    check(i0 == next_word && i1 == UINT64_MAX && i2 == 0 && i3 == 7);
    next_word++;
}

static void on_bytes(const void *buf, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)buf;

    for (size_t place = 0; place < size; place++)
        check(bytes[place] == (unsigned char)(size + place));
    bytes_came += size;
}

/* Answers the sender. */
static void on_ask(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i1, (void)i2, (void)i3;
    check(FM_send_4(FM_source(), ANSWER, i0 + 1, 0, 0, 0) == 0);
}

static void on_answer(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i1, (void)i2, (void)i3;
    check(i0 == (uint64_t)answers + 1);
    answers++;
}

/* A handler makes calls that are forbidden to handlers. */
static void on_misuse(const void *buf, size_t size)
{
    (void)buf;
    check(size == 0);
    fails(FM_extract(), EBUSY);
    fails(FM_extract_wait(1, 0, 0), EBUSY);
    fails(FM_finalize(), EBUSY);
    fails(FM_initialize(), EBUSY);
    fails(FM_set_handler(MISUSE, on_misuse), EBUSY);
    fails(FM_send_4(2, ORDERED, 0, 0, 0, 0), ENOENT);
    misused = 1;
}

static void on_filler(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i0, (void)i1, (void)i2, (void)i3;
    fillers++;
}

/* Sends as much as handlers may. */
static void on_full(const void *buf, size_t size)
{
    (void)buf, (void)size;
    for (int sent = 0; sent < 1024; sent++)
        check(FM_send_4(FM_source(), FULL, 0, 0, 0, 0) == 0);
    fails(FM_send_4(FM_source(), FULL, 0, 0, 0, 0), ENOBUFS);
    was_full = 1;
}

/* Answers the sender of a long message. */
static void on_bulk(const void *buf, size_t size)
{
    (void)buf;
    check(size == 100000);
    check(FM_send_4(FM_source(), ACK, 0, 0, 0, 0) == 0);
}

static void on_ack(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i0, (void)i1, (void)i2, (void)i3;
    acks++;
}

static void on_step(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3)
{
    (void)i0, (void)i1, (void)i2, (void)i3;
    steps++;
}

/* Handles messages until a condition holds. */
#define until(condition)                                                                      \
    while (!(condition))                                                                      \
    check(FM_extract_wait(8, 20, 0) > 0)

/* Waits until the other node has come as far: what it sends next belongs to the next step. */
static void end_step(int other)
{
    static int own;

    check(FM_send_4(other, STEP, 0, 0, 0, 0) == 0);
    own++;
    until(steps == own);
}

static void misuse_before(void)
{
    fails(FM_extract(), EBADF);
    fails(FM_nodeid, EBADF);
    fails(FM_numnodes, EBADF);
    fails(FM_finalize(), EBADF);
    fails(FM_send(0, BYTES, "", 0), EBADF);
    fails(FM_set_handler(BYTES, on_bytes), EBADF);
}

static void misuse(void)
{
    fails(FM_initialize(), EBUSY);
    fails(FM_source(), EINVAL);
    fails(FM_set_handler(-1, on_bytes), EINVAL);
    fails(FM_set_handler(65536, on_bytes), EINVAL);
    fails(FM_set_handler(BYTES, NULL), EINVAL);
    fails(FM_set_handler_4(ASK, NULL), EINVAL);
    fails(FM_send_4(2, ORDERED, 0, 0, 0, 0), ENOENT);
    fails(FM_send_4(-1, ORDERED, 0, 0, 0, 0), ENOENT);
    fails(FM_send_4(0, 65536, 0, 0, 0, 0), EINVAL);
    fails(FM_send(0, BYTES, NULL, 1), EINVAL);
    fails(FM_extract_wait(1, 0, -1), EINVAL);
    check(FM_extract_limit(0) == 0);
}

/* Words in order, and a limit. */
static void words(int other)
{
    for (uint64_t word = 0; word < 1000; word++)
        check(FM_send_4(other, ORDERED, word, UINT64_MAX, 0, 7) == 0);
    while (next_word < 1000) {
        uint64_t before = next_word;
        int handled = FM_extract_limit(3);
        check(handled >= 0 && handled <= 3 && next_word <= before + (uint64_t)handled);
    }
}

static unsigned char *filled(unsigned char *bytes, size_t size)
{
    for (size_t place = 0; place < size; place++)
        bytes[place] = (unsigned char)(size + place);
    return bytes;
}

/* Bytes by a copy, and without one. */
static void bytes(int other)
{
    static unsigned char copy[300];
    static const size_t sizes[] = {0, 1, 256, 257, 100000, 1000000};
    unsigned char *buffer = (unsigned char *)FM_alloc(1000000);
    size_t sum = sizeof copy;

    check(buffer != NULL && buffer[0] == 0 && buffer[999999] == 0);
    check(FM_send(other, BYTES, filled(copy, sizeof copy), sizeof copy) == 0);
    memset(copy, 0, sizeof copy);
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        while (FM_buffer_busy(buffer) == 1)
            check(FM_extract_wait(8, 0, 10) >= 0);
        check(FM_send_buffer(other, BYTES, filled(buffer, sizes[at]), sizes[at]) == 0);
        /* A buffer of up to 256 bytes was copied. A longer one may have arrived already. */
        check(FM_buffer_busy(buffer) == 0 || sizes[at] > 256);
        sum += sizes[at];
    }
    fails(FM_send_buffer(other, BYTES, buffer, 1000001), EINVAL);
    fails(FM_send_buffer(other, BYTES, buffer + 1, 1), EINVAL);
    fails(FM_send_buffer(other, BYTES, NULL, 0), EINVAL);
    fails(FM_buffer_busy(copy), EINVAL);
    check(FM_free(buffer) == 0);
    fails(FM_free(buffer), EINVAL);
    check(FM_free(NULL) == 0);
    errno = 0;
    check(FM_alloc(SIZE_MAX) == NULL && errno == EINVAL);
    until(bytes_came == sum);
}

/* Both nodes send until the queues are full, and handle nothing before. A queue is never full
 * if the other node already handles messages as fast as this one sends. */
static void flood(int other)
{
    static char block[100000];
    int sent = 0;

    while (sent < 2000 && FM_send(other, BULK, block, sizeof block) == 0)
        sent++;
    check(sent > 300);
    check(sent == 2000 || (errno == EAGAIN && strstr(FM_error(), "full") != NULL));
    until(acks == sent);
}

/* Messages that no handler takes. Each node gets three such from the other. */
static void faults(int other)
{
    int codes[3] = {0}, found = 0;

    check(FM_send_4(other, UNSET, 0, 0, 0, 0) == 0);
    check(FM_send_4(other, BYTES, 0, 0, 0, 0) == 0);
    check(FM_send(other, ASK, "x", 1) == 0);
    while (found < 3) {
        if (FM_extract_wait(8, 20, 0) == -1) {
            codes[found++] = errno;
            check(strstr(FM_error(), other == 0 ? "node 0" : "node 1") != NULL);
        }
    }
    check(codes[0] == ENOSYS && codes[1] == EPROTO && codes[2] == EPROTO);
}

static void *in_another_thread(void *unused)
{
    (void)unused;
    check(FM_nodeid >= 0 && FM_numnodes == 2);
    fails(FM_source(), EINVAL);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int other;

    misuse_before();
    check(FM_initialize() == 0);
    check(FM_numnodes == 2 && (FM_nodeid == 0 || FM_nodeid == 1));
    other = 1 - FM_nodeid;
    check(FM_set_handler_4(ORDERED, on_ordered) == 0);
    check(FM_set_handler(BYTES, on_bytes) == 0);
    check(FM_set_handler_4(ASK, on_ask) == 0);
    check(FM_set_handler_4(ANSWER, on_answer) == 0);
    check(FM_set_handler(MISUSE, on_misuse) == 0);
    check(FM_set_handler_4(FULL, on_filler) == 0);
    check(FM_set_handler(FULL + 1, on_full) == 0);
    check(FM_set_handler(BULK, on_bulk) == 0);
    check(FM_set_handler_4(ACK, on_ack) == 0);
    check(FM_set_handler_4(STEP, on_step) == 0);
    misuse();
    words(other);
    end_step(other);
    bytes(other);
    end_step(other);
    for (uint64_t asked = 0; asked < 100; asked++)
        check(FM_send_4(other, ASK, asked, 0, 0, 0) == 0);
    check(FM_send(FM_nodeid, MISUSE, "", 0) == 0);
    check(FM_send(other, FULL + 1, "", 0) == 0);
    until(answers == 100 && misused && was_full && fillers == 1024);
    end_step(other);
    flood(other);
    end_step(other);
    faults(other);
    end_step(other);
    check(pthread_create(&thread, NULL, in_another_thread, NULL) == 0);
    check(pthread_join(thread, NULL) == 0);
    check(FM_finalize() == 0);
    fails(FM_extract(), EBADF);
    return 0;
}
