/*
 * cdp.h - sockets between nodes: (node, port) addresses, messages of any length, streams.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     #include <stdio.h>
 *     #include <suci/cdp.h>
 *
 *     int main(void)
 *     {
 *         cdp_addr server = {0, 80};
 *         char answer[100];
 *         ssize_t length;
 *         int s;
 *
 *         if (cdp_init(-1, NULL, 0, 0) != 0 || (s = cdp_socket()) < 0
 *             || cdp_connect(s, &server) != 0 || cdp_send(s, "hello", 5) != 5
 *             || (length = cdp_recv(s, answer, sizeof(answer), 0)) < 0) {
 *             fprintf(stderr, "%s\n", cdp_error());
 *             return 1;
 *         }
 *         printf("%.*s\n", (int)length, answer);
 *         cdp_close(s);
 *         return cdp_end() != 0;
 *     }
 *
 * Compile with: cc program.c $(pkg-config --cflags --libs suci)
 * Run with:     suci run -n 2 ./program
 *
 * Names and meaning are those of CDP, the socket interface of a reliable protocol in user space for
 * the Cyclops-64 (University of Delaware). Differences and additions:
 *
 *   Messages may have any length, not only 1,480 bytes. CDP_STREAM makes a socket a byte stream.
 *   Routes stand in the address book (SUCI_BOOK: "7 via 3"), not in the calls.
 *   A socket is no descriptor of the system. cdp_fd() gives one for poll() and epoll.
 *   cdp_allow_insecure_network(), cdp_end(), cdp_add_node(), cdp_address(), cdp_more(),
 *     cdp_shutdown(), cdp_fd(), cdp_setopt(), cdp_getsockname(), cdp_getpeername() and cdp_error()
 *     are new.
 *
 * =================================================================================================
 *  CONVENTIONS, which hold for every function unless its text says otherwise
 * =================================================================================================
 *
 * PROCESSES. A process has one node, which cdp_init() opens. All its sockets share the node's UDP
 *   port. A thread of the library serves them, also while the program computes. Programs with this
 *   header and with the Rust crate suci-sockets can talk to each other.
 *
 * SOCKETS have numbers of their own, from 0. A socket begins as one that can be bound, listen or
 *   connect. Two sockets that connect to each other make no connection: one must listen.
 *
 * MESSAGES arrive complete, unmodified, in order, and each once, while both processes live and the
 *   session of their nodes lasts. cdp_send() of a message accepts all of it or nothing. A socket
 *   that is not read holds its sender back, and no other socket.
 *
 * THE END. cdp_close() ends both directions. The peer gets all that was sent, and may read it until
 *   it closes its own socket. A peer whose process ends resets its sockets. One that does not
 *   answer for 10 seconds ends them with ETIMEDOUT.
 *
 * RESULTS. Functions return -1 and set errno on failure. cdp_error() then gives a text that names
 *   the thing, its value and the remedy. Every function may set:
 *
 *     EBADF      cdp_init() was not called, or cdp_end() was; there is no such socket; or this
 *                process was forked.
 *     EINVAL     An argument is out of its range, or null, or the socket is of another sort.
 *     EIO        A fault of the library. Please report it.
 *     others     An error of the system, as ENETDOWN.
 *
 * THREADS. Any thread may call at any time; several may use one socket. A call that waits on a
 *   socket goes on until it returns, even if another thread closes that socket.
 *
 * SIGNALS. A signal does not end a call: the call goes on until its time limit. No function sets
 *   EINTR, and none raises SIGPIPE.
 *
 * FORK. In the child of a fork calls fail with EBADF.
 *
 * =================================================================================================
 */

#ifndef SUCI_CDP_H
#define SUCI_CDP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An address: a node and a port of it, 1 to 65535. */
typedef struct cdp_addr {
    uint32_t node;
    uint16_t port;
} cdp_addr;

/* Options of cdp_setopt(). */
enum cdp_option {
    CDP_STREAM = 1,       /* Not 0: bytes without boundaries. Before it listens or connects. */
    CDP_NONBLOCKING = 2,  /* Not 0: calls that would wait fail with EAGAIN. */
    CDP_RECV_TIMEOUT = 3, /* Longest wait of cdp_recv() and cdp_accept() in ms; 0: without end. */
    CDP_SEND_TIMEOUT = 4, /* Longest wait of cdp_send() in ms; 0: without end. */
    CDP_MAX_MESSAGE = 5   /* Bytes of the longest message that is received; 1 MiB at first. */
};

/* ------------------------------------------------------------------------------------------------
 *  Beginning and end
 * --------------------------------------------------------------------------------------------- */

/* Allows the node addresses beyond loopback without a key (SUCI_KEY_FILE): call it before
 * cdp_init(). Nothing is secret then, and whoever sees the packets can forge them: use it on a
 * trusted network only.
 * Errors: EBUSY: the node is open. Blocks: no. */
int cdp_allow_insecure_network(void);

/* Opens the node of this process. `node` is its ID; -1 takes that of `suci run` (SUCI_ID). `ifv`
 * has `ifi` texts, at most one: the address and UDP port at which the node is reached, as
 * "127.0.0.1:7000" (port 0: a free one). Without one the address book (SUCI_BOOK) says it, which
 * also says where other nodes are, and through which they are reached. If `forward` is not 0, the
 * node sends on the packets of nodes that reach each other through it.
 * Errors: EBUSY: the node is open; EADDRINUSE; EINVAL: `node` is below -1; or the address is beyond
 *   loopback and there is no key. Blocks: no. */
int cdp_init(int node, const char *const *ifv, int ifi, int forward);

/* Closes all sockets and the node. Waits until the other nodes have what was sent to them, for at
 * most 60 seconds; for a node that does not answer until its sockets fail, 10 seconds. The rest of
 * a long message waits for 45 seconds until its receiver reads.
 * Errors: ETIMEDOUT: some do not have all that was sent, or may not have it. The node is closed all
 *   the same. Blocks: 60 seconds at most. */
int cdp_end(void);

/* Enters the address and UDP port of another node, as "127.0.0.1:7000".
 * Errors: EINVAL. Blocks: for a cycle of the library's thread. */
int cdp_add_node(uint32_t node, const char *address);

/* Writes the address and UDP port of this node into `address`, which has 64 bytes. Blocks: no. */
int cdp_address(char *address);

/* Returns the text of this thread's last failure. It stays until the thread's next failure. */
const char *cdp_error(void);

/* ------------------------------------------------------------------------------------------------
 *  Sockets
 * --------------------------------------------------------------------------------------------- */

/* Makes a socket and returns its number.
 * Errors: EMFILE: the process has a million of them. Blocks: no. */
int cdp_socket(void);

/* Binds a socket to a port of this node; 0 takes a free one from 32768 on. A socket that is not
 * bound gets such a port when it listens or connects.
 * Errors: EADDRINUSE, EADDRNOTAVAIL: no port is free. Blocks: no. */
int cdp_bind(int s, uint16_t port);

/* Lets a socket take connections. At most `backlog` of them, but at least one, wait for
 * cdp_accept(); others are refused at once.
 * Errors: EINVAL: the socket is in use. Blocks: no. */
int cdp_listen(int s, int backlog);

/* Takes the next connection, and returns the number of its socket, which has the listener's sort
 * and no other option. If `addr` is not null, it gets the peer's address. Waits for a connection,
 * unless `nonblocking` is not 0.
 * Errors: EAGAIN: there is none; EINVAL: the socket does not listen. Blocks: yes. */
int cdp_accept(int s, cdp_addr *addr, int nonblocking);

/* Connects a socket. With CDP_NONBLOCKING it returns at once; the connection is open when the
 * socket is writable, and calls tell if it failed.
 * Errors: ECONNREFUSED: nobody listens there, the backlog is full, the listener has the other sort,
 *   or no process answers; ETIMEDOUT; EHOSTUNREACH: the address book lacks the node, or it cannot
 *   be reached; EACCES: its address book lacks this one; ENOBUFS; EADDRINUSE; EINPROGRESS; EISCONN:
 *   the socket is in use. Blocks: 15 seconds at most. */
int cdp_connect(int s, const cdp_addr *addr);

/* Sends a message of `len` bytes. Returns `len`; of a stream the number of bytes that were
 * accepted. Waits for room.
 * Errors: EAGAIN: it must not wait (longer); EPIPE: the peer closed; ECONNRESET; ETIMEDOUT;
 *   ENOTCONN. Blocks: yes. */
ssize_t cdp_send(int s, const void *buf, size_t len);

/* Receives a message, or of a stream what is there, `len` bytes at most. Returns the number of
 * bytes; 0 once the peer sends nothing more (and for an empty message). The rest of a message
 * longer than `len` comes with the next calls. Waits, unless `nonblocking` is not 0.
 * Errors: EAGAIN: nothing is there; EMSGSIZE: the message is longer than CDP_MAX_MESSAGE, and can
 *   be received once that is raised; ECONNRESET; ETIMEDOUT; ENOTCONN. Blocks: yes. */
ssize_t cdp_recv(int s, void *buf, size_t len, int nonblocking);

/* Returns 1 if the last message has bytes left that the next cdp_recv() gives, or 0. Blocks: no. */
int cdp_more(int s);

/* Ends the direction of a stream towards the peer, which reads all that was sent, then the end.
 * Errors: EOPNOTSUPP: the socket carries messages; ENOTCONN; ECONNRESET. Blocks: no. */
int cdp_shutdown(int s);

/* Closes a socket. Unread data is lost, data that was sent is delivered. Connections that wait at a
 * listener are reset. The number may be given to a new socket. Blocks: no. */
int cdp_close(int s);

/* Returns a descriptor that poll() and epoll show as readable when cdp_recv() or cdp_accept() would
 * not wait, and as writable when cdp_send() would not. It is also readable when the first part of a
 * message of more than 64 KiB came: cdp_recv() then waits for the rest, unless `nonblocking` is
 * set.
 * The descriptor belongs to the socket: do not read, write or close it.
 * Errors: ENOTCONN: the socket neither listens nor connects; EMFILE. Blocks: no. */
int cdp_fd(int s);

/* Sets an option of enum cdp_option.
 * Errors: ENOPROTOOPT: there is no such option; EINVAL. Blocks: no. */
int cdp_setopt(int s, int option, int64_t value);

/* Gives the address of this end; port 0 if it has none. Blocks: no. */
int cdp_getsockname(int s, cdp_addr *addr);

/* Gives the address of the other end.
 * Errors: ENOTCONN. Blocks: no. */
int cdp_getpeername(int s, cdp_addr *addr);

#ifdef __cplusplus
}
#endif

#endif
