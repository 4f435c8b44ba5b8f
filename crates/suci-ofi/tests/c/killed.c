// A peer that is killed fails what is open with it, and what comes later. Others go on.
#include "node.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int one, two, three;

// Tells its name, and answers nothing.
static int peer(void) {
    struct node node;
    open_node(&node, 0);
    if (write(1, node.name, 64) != 64)
        return 1;
    for (;;)
        fi_cq_read(node.cq, NULL, 0);
}

int main(int count, char **arguments) {
    if (count > 1)
        return peer();
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], 1);
        execl("/proc/self/exe", arguments[0], "peer", NULL);
        _exit(1);
    }
    char name[64], buffer[8], any[8];
    CHECK(read(ends[0], name, 64) == 64);
    struct node node;
    fi_addr_t there, self;
    open_node(&node, 0);
    EQUAL(fi_av_insert(node.av, name, 1, &there, 0, NULL), 1);
    EQUAL(fi_av_insert(node.av, node.name, 1, &self, 0, NULL), 1);

    struct fi_cq_tagged_entry entry;
    struct iovec out = {"here", 4};
    struct fi_msg_tagged message = {
        .msg_iov = &out, .iov_count = 1, .addr = there, .tag = 1, .context = &one};
    EQUAL(fi_tsendmsg(node.ep, &message, FI_DELIVERY_COMPLETE), 0);
    EQUAL(next(&node, NULL, &entry, NULL), 1);
    CHECK(entry.op_context == &one);

    EQUAL(fi_trecv(node.ep, buffer, 8, NULL, there, 2, 0, &two), 0);
    EQUAL(fi_trecv(node.ep, any, 8, NULL, FI_ADDR_UNSPEC, 3, 0, &three), 0);
    CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    struct fi_cq_err_entry failed;
    EQUAL(next_error(&node, NULL, &failed), FI_EHOSTUNREACH);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(failed.op_context == &two);
    printf("noticed after %ld ms\n",
           (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000);
    EQUAL(fi_tsend(node.ep, "later", 5, NULL, there, 1, &one), -FI_EHOSTUNREACH);
    EQUAL(fi_trecv(node.ep, buffer, 8, NULL, there, 2, 0, &two), -FI_EHOSTUNREACH);

    // A receive from any node goes on.
    EQUAL(fi_tinject(node.ep, "self", 4, self, 3), 0);
    EQUAL(next(&node, NULL, &entry, NULL), 1);
    CHECK(entry.op_context == &three && !memcmp(any, "self", 4));
    close_node(&node);
    return 0;
}
