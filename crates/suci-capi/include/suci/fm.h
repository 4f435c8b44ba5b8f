/*
 * fm.h - Fast Messages: messages that run a handler at their receiver, polled by the program.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     #include <stdio.h>
 *     #include <suci/fm.h>
 *
 *     enum { GREET = 1 };
 *
 *     static int greeted;
 *
 *     static void greet(uint64_t number, uint64_t i1, uint64_t i2, uint64_t i3)
 *     {
 *         printf("node %d says %d\n", FM_source(), (int)number);
 *         greeted = 1;
 *     }
 *
 *     int main(void)
 *     {
 *         if (FM_initialize() != 0 || FM_set_handler_4(GREET, greet) != 0) {
 *             fprintf(stderr, "%s\n", FM_error());
 *             return 1;
 *         }
 *         FM_send_4((FM_nodeid + 1) % FM_numnodes, GREET, 42, 0, 0, 0);
 *         while (!greeted)
 *             FM_extract_wait(1, 5, 0);
 *         return FM_finalize() != 0;
 *     }
 *
 * Compile with: cc program.c $(pkg-config --cflags --libs suci)
 * Run with:     suci run -n 4 ./program
 *
 * Names and meaning are those of Illinois Fast Messages 1.x (Pakin, Lauria and Chien, "High
 * Performance Messaging on Workstations: Illinois Fast Messages (FM) for Myrinet", Supercomputing
 * 1995). Differences and additions:
 *
 *   Handlers are named by numbers, which all processes of a program give alike. Addresses of
 *     functions differ between processes today.
 *   Words have 64 bits. Messages by FM_send() may have any length, not only 32 words.
 *   Functions return a result. A full queue is one (EAGAIN), where FM 1.x waits.
 *   FM_source(), FM_extract_limit(), FM_extract_wait() and FM_allow_insecure_network() are new.
 *   Buffers of the library are sent without a copy, and the request to send is apart from its
 *     completion: FM_alloc(), FM_send_buffer(), FM_buffer_busy(), FM_free().
 *
 * =================================================================================================
 *  CONVENTIONS, which hold for every function unless its text says otherwise
 * =================================================================================================
 *
 * PROCESSES. `suci run -n COUNT program` starts a program as nodes 0 to COUNT - 1 and sets the
 *   variables that FM_initialize() reads. A process has one node. Programs with this header and
 *   with the active messages of the Rust library can talk to each other.
 *
 * HANDLERS run inside of FM_extract(), FM_extract_limit() and FM_extract_wait(), in the thread that
 *   calls, and nowhere else. A handler may send to any node, and call FM_source(), FM_nodeid,
 *   FM_numnodes, FM_error() and the functions of buffers. Other functions fail with EBUSY. It must
 *   return: it must not block for long, nor leave by longjmp() or an exception.
 *
 * MESSAGES arrive complete, unmodified, and each once. Those that the main program sends to a node
 *   are handled there in their order, and so are those that its handlers send to the node. Between
 *   the two there is no order.
 *
 * MEMORY is bounded. A program that does not extract holds its senders back: their FM_send() fails
 *   with EAGAIN. If the queue to a node is full, what handlers send to it waits, and messages of
 *   main programs are handled no more until it was sent. So programs that flood each other with
 *   messages whose handlers reply come to no deadlock, if the handlers of the replies send nothing.
 *   A program whose handlers answer replies must bound how many messages are underway.
 *
 * EAGAIN is handled by the main program, which extracts and sends again. A handler never gets it:
 *   the library keeps what a handler sends, and sends it later, up to a bound (ENOBUFS). So a
 *   handler that causes more work than one reply notes it, and the main program does it:
 *
 *     static void on_task(uint64_t task, uint64_t i1, uint64_t i2, uint64_t i3)
 *     {
 *         queue_push(&work, task, FM_source());
 *     }
 *
 *     while (!done) {
 *         struct item item;
 *         if (!queue_pop(&work, &item)) {
 *             FM_extract_wait(4096, 1, 0);
 *             continue;
 *         }
 *         while (FM_send_4(item.node, RESULT, compute(item.task), 0, 0, 0) != 0) {
 *             if (errno != EAGAIN)
 *                 fail(FM_error());
 *             FM_extract_wait(4096, 0, 1);
 *         }
 *     }
 *
 * RESULTS. Functions return -1 (FM_alloc() a null pointer) and set errno on failure. FM_error()
 *   then gives a text that names the thing, its value and the remedy. Every function may set:
 *
 *     EBADF      FM_initialize() was not called, or FM_finalize() was; or this process was forked.
 *     EBUSY      Another thread is inside, or a handler called what it must not.
 *     EINVAL     An argument is out of its range, or null.
 *     EIO        A fault of the library. Please report it.
 *     others     An error of the system, as ENETDOWN.
 *
 * THREADS. One thread at a time may call. A call that finds another one inside fails with EBUSY and
 *   changes nothing. The functions of buffers, FM_nodeid, FM_numnodes and FM_error() may be called
 *   by any thread at any time.
 *
 * FORK. In the child of a fork calls fail with EBADF or EBUSY.
 *
 * =================================================================================================
 */

#ifndef SUCI_FM_H
#define SUCI_FM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 *  Beginning and end
 * --------------------------------------------------------------------------------------------- */

/* Allows the node addresses beyond loopback without a key (SUCI_KEY_FILE): call it before
 * FM_initialize(). Nothing is secret then, and whoever sees the packets can forge them: use it on a
 * trusted network only.
 * Errors: EBUSY: the node is open. Blocks: no. */
int FM_allow_insecure_network(void);

/* Opens the node of this process: call it once, before all others but the one above.
 * Errors: ENOENT: the program was not started by `suci run`; EBUSY: it was called before; EINVAL: a
 *   variable makes no sense, or an address is beyond loopback and there is no key. Blocks: no. */
int FM_initialize(void);

/* Closes the node: waits until every node has what was sent to it and knows of the end, for at most
 * 60 seconds. Handlers run no more. A process that exits without it may lose what it sent last.
 * Errors: ETIMEDOUT: some nodes did not get everything. The node is closed all the same. Blocks: 60
 *   seconds at most. */
int FM_finalize(void);

/* Returns the ID of this node, 0 to FM_numnodes - 1. Programs write FM_nodeid. Threads: any. */
int FM_get_nodeid(void);

/* Returns the number of nodes. Programs write FM_numnodes. Threads: any. */
int FM_get_numnodes(void);

#define FM_nodeid FM_get_nodeid()
#define FM_numnodes FM_get_numnodes()

/* Returns the text of the last failure of a call in this thread. Threads: any. */
const char *FM_error(void);

/* ------------------------------------------------------------------------------------------------
 *  Handlers
 * --------------------------------------------------------------------------------------------- */

/* A handler of messages by FM_send() and FM_send_buffer(). The `size` bytes at `buf` are the
 * library's: they must not be changed, and are gone when the handler returns. */
typedef void (*FM_handler)(const void *buf, size_t size);

/* A handler of messages by FM_send_4(). */
typedef void (*FM_handler_4)(uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3);

/* Makes `function` the handler with the number `handler`, 0 to 65535, in the place of any other.
 * Set all handlers before the first call that extracts. */
int FM_set_handler(int handler, FM_handler function);

/* The same for a handler of four words. */
int FM_set_handler_4(int handler, FM_handler_4 function);

/* Returns the node that sent the message whose handler runs in this thread. Errors: EINVAL: no
 * handler runs. */
int FM_source(void);

/* ------------------------------------------------------------------------------------------------
 *  Sending
 *
 *  `dest` is the receiver, 0 to FM_numnodes - 1; it may be this node. `handler` is the number of
 *  the handler that runs there. The calls return at once: what they send leaves with the call, or,
 *  if the network or the receiver does not take it yet, with later calls. What a handler sends
 *  leaves when it returned.
 *
 *  Errors: ENOENT: there is no such node. EAGAIN: the queue to it is full (32 MiB, or half a
 *    million messages); call FM_extract(), then send again. In a handler instead ENOBUFS: handlers
 *    sent 1,024 messages or 16 MiB that wait; send fewer. Blocks: no.
 * --------------------------------------------------------------------------------------------- */

/* Sends four words. */
int FM_send_4(int dest, int handler, uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3);

/* Sends a copy of `size` bytes at `buf`, at most 64 MiB: the program may change them at once. */
int FM_send(int dest, int handler, const void *buf, size_t size);

/* ------------------------------------------------------------------------------------------------
 *  Extracting
 *
 *  Each call does input and output. It returns the number of handlers that ran.
 *
 *  Errors: each is told once, and messages go on. If handlers ran before in the same call, they are
 *    counted, and the next call tells the error.
 *      ENOSYS     A message was dropped, since its handler was not set.
 *      EPROTO     A message of four words for a handler of buffers was dropped, or the reverse.
 *      EBADMSG    A message was dropped, since it is none of this interface.
 *      EMSGSIZE   A receiver refused a message of this node, which was longer than 64 MiB.
 *      ECONNRESET A node ended without FM_finalize(), or before it had all that was sent to it.
 *      others     What a handler sent cannot be sent, as the text says.
 * --------------------------------------------------------------------------------------------- */

/* Runs the handlers of the messages that are there, at most 4,096. Blocks: no. */
int FM_extract(void);

/* Runs the handlers of the messages that are there, at most `most`: a program that takes no more
 * than it can use holds its senders back. Blocks: no. */
int FM_extract_limit(uint32_t most);

/* Waits until at least one handler ran, for at most `sec` seconds and `msec` milliseconds (a
 * negative `sec` has no limit), and runs at most `most`. Returns 0 if none ran. Blocks: sec,
 * msec. */
int FM_extract_wait(uint32_t most, int sec, int msec);

/* ------------------------------------------------------------------------------------------------
 *  Buffers: messages without a copy
 *
 *  FM_send_buffer() is the request, FM_buffer_busy() tells its completion.
 * --------------------------------------------------------------------------------------------- */

/* Returns `size` bytes of the library, which are 0. Give them back by FM_free(). Errors: EINVAL: no
 * memory can have that size; ENOMEM. Threads: any. */
void *FM_alloc(size_t size);

/* Sends the first `size` bytes of the buffer `buf`, which FM_alloc() returned, as FM_send() does,
 * but without a copy if there are more than 256. The call returns at once. The bytes must not
 * change while FM_buffer_busy() returns 1. The same buffer may be sent to many nodes.
 * Errors: as all that send; EINVAL: `buf` is no buffer, or shorter. */
int FM_send_buffer(int dest, int handler, const void *buf, size_t size);

/* Returns 1 while the library still reads the buffer for a node that did not acknowledge it, else
 * 0: then it may be changed and sent anew. Calls that extract bring the acknowledgements. Errors:
 * EINVAL: `buf` is no buffer. Threads: any. */
int FM_buffer_busy(const void *buf);

/* Gives a buffer back, also one that is busy: its memory goes when the last node has acknowledged
 * it. Null is allowed. Errors: EINVAL: `buf` is no buffer, or was freed. Threads: any. */
int FM_free(void *buf);

#ifdef __cplusplus
}
#endif

#endif /* SUCI_FM_H */
