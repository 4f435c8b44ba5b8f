/*
 * datagram.h - the classic Suci interface: one UDP socket to every process, polled by the program.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     #include <stdio.h>
 *     #include <suci/datagram.h>
 *
 *     int main(void)
 *     {
 *         char text[100];
 *         addressdb db = {{0}};
 *         FILE *file = fopen("nodes", "r");
 *         if (file == NULL || addressdb_lex(file, &db) != 0) {
 *             fprintf(stderr, "%s\n", datagram_error());
 *             return 1;
 *         }
 *         datagram_socket *sock = datagram(&db, NULL, 0, 1);
 *         if (sock == NULL || datagram_destination(0, sock) != 0 ||
 *             datagram_write(sock, "hello", 5) != 5 || datagram_ready(sock, 5, 0) != 1 ||
 *             datagram_read(sock, text, sizeof text) < 0) {
 *             fprintf(stderr, "%s\n", datagram_error());
 *             return 1;
 *         }
 *         return datagram_close(sock, 5, 0) != 0;
 *     }
 *
 * Compile with: cc program.c $(pkg-config --cflags --libs suci)
 *
 * Names, arguments and meaning of 18 functions are those of the Suci papers of the University of
 * the Ryukyus; their declarations are marked "papers". The others are additions. The protocol, and
 * everything below the interface, is that of suci.h: programs with either header talk to each
 * other. What the papers leave open is decided here.
 *
 * =================================================================================================
 *  CONVENTIONS, which hold for every function unless its text says otherwise
 * =================================================================================================
 *
 * INPUT AND OUTPUT happen in datagram_ready(). datagram_write() and datagram_packet_put() only
 *   queue messages. datagram_read() and datagram_packet_get() only take messages that
 *   datagram_ready() found. A program therefore calls datagram_ready() often. While it computes, a
 *   helper thread of the library acknowledges, retransmits and answers peers; messages that the
 *   program queued since the last datagram_ready() wait. Calls that act on a connection send what
 *   they are about at once: datagram_retransmission(), ack_sync(), datagram_disconnect(),
 *   datagram_reconnect() and datagram_close().
 *
 * MESSAGES arrive complete, unmodified, in order for each sender, and at most once. Sender and
 *   receiver each have a limit of their length: `max_message` of the options, by default 64 MiB,
 *   and at least 256 KiB. A receiver with a lower one refuses the message; the sender's next
 *   datagram_ready() then fails with EMSGSIZE. Up to 64 messages that datagram_ready() found count
 *   no longer in `memory` of the options.
 *
 * RETRANSMISSION is automatic. It is the program's on a socket that was opened with
 *   DATAGRAM_MANUAL: lost messages are sent again only by datagram_retransmission() and by
 *   datagram_close().
 *
 * RESULTS. Functions return -1 (those that return a pointer, a null pointer) and set errno on
 *   failure. datagram_error() then gives a text that names the thing, its value and the remedy, and
 *   suci_last_error_info() of suci.h the code. Every function may set:
 *
 *     EBADF      The socket was closed, is null, or is not of this process (after a fork).
 *     EBUSY      Another call is inside the socket.
 *     EINVAL     An argument is null or out of its range, or a packet was freed.
 *     EIO        A fault of the library. Please report it.
 *     others     An error of the system, as ENETDOWN.
 *
 *   Functions that take a node ID may set ENOENT: the socket knows no such node. "Errors:" lists
 *   others.
 *
 * HANDLES. A `datagram_socket *` is never dereferenced: one that was closed gives EBADF. Packets
 *   are real memory. One that was freed gives EINVAL until its memory becomes another packet. The
 *   library trusts that any other pointer points to memory of the stated length.
 *
 * THREADS. One thread at a time may call with the same socket. A call that finds another one
 *   inside the socket fails with EBUSY and changes nothing. Different threads may use different
 *   sockets at the same time. A packet belongs to one thread at a time. Sockets and packets may
 *   move between threads.
 *
 * FORK. In the child of a fork every socket of the parent gives EBADF. The child may open its own,
 *   also with a host table that it inherited.
 *
 * =================================================================================================
 */

#ifndef SUCI_DATAGRAM_H
#define SUCI_DATAGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <suci/suci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 *  The host table
 * --------------------------------------------------------------------------------------------- */

/* The nodes of a program and their addresses: an address book of suci.h, whose functions
 * suci_book_add(), suci_book_count() and others work on `book`. */
typedef struct addressdb {
    suci_book book;
} addressdb;

/* Reads `fp` from its position to its end: one node per line, "id address:port"; comments go from
 * '#' to the end of the line. Sets *db to a new table. The program closes `fp`.
 * Errors: EINVAL: the text is faulty, and datagram_error() names file and line. Blocks: for the
 * file and for resolving names. Threads: any. */
int addressdb_lex(FILE *fp, addressdb *db); /* papers */

/* Gives the table back. Sockets that were opened with it keep a copy. Threads: any. */
int addressdb_free(addressdb *db);

/* ------------------------------------------------------------------------------------------------
 *  The socket
 * --------------------------------------------------------------------------------------------- */

/* The socket of a process to all others. */
typedef struct datagram_socket datagram_socket;

enum datagram_flag {
    /* Retransmission is the program's. */
    DATAGRAM_MANUAL = 1,
    /* Allow addresses beyond loopback. Messages are not encrypted: it keeps no attackers out. */
    DATAGRAM_ALLOW_INSECURE_NETWORK = 2
};

/* Opens the UDP socket of this process, as datagram_open() does without flags and options. */
datagram_socket *datagram(const addressdb *db, const char *myaddr, int myport,
                          uint32_t myid); /* papers */

/* Opens the UDP socket of this process. `db` names the other nodes. `myaddr` and `myport` are its
 * own numeric address, as "127.0.0.1" or "::1", and port; port 0 lets the system choose one. A null
 * `myaddr` stands for the entry of `myid` in the table; `myport` is then 0. `flags` is 0 or values
 * of enum datagram_flag. Null `options` stand for the defaults of suci.h. Otherwise `id`, `listen`
 * and `book` of the options are replaced, and `threads` has to be 0.
 *
 * Give the socket back by datagram_close(). A process may have several, with different IDs.
 * Errors: EINVAL: an argument or a setting makes no sense; EADDRINUSE; EADDRNOTAVAIL: no host can
 *   have the address; EACCES: the address is beyond loopback, which the flags do not allow.
 * Blocks: no. Threads: any. */
datagram_socket *datagram_open(const addressdb *db, const char *myaddr, int myport, uint32_t myid,
                               int flags, const suci_node_options *options);

/* Closes the socket: sends what was queued, and waits until every peer has everything and knows of
 * the end, for at most `sec` seconds and `msec` milliseconds (a negative `sec` is an hour). The
 * socket is invalid afterwards, also on failure, except with EBUSY and EINVAL. Packets stay valid.
 * Errors: ETIMEDOUT: some peers did not get everything. Blocks: sec, msec. */
int datagram_close(datagram_socket *sock, int sec, int msec);

/* Does input and output: sends what was queued, receives, acknowledges. Then waits for at most
 * `sec` seconds and `msec` milliseconds until a message can be read (a negative `sec` has no
 * limit). Returns 1 if a message can be read, else 0.
 *
 * Messages beyond what network and receiver take now stay queued, and the next calls send them.
 *
 * Errors: ECONNRESET: a session ended and not all messages were delivered, as when the peer's
 *   process died; the text names the peer and how many. EMSGSIZE: a receiver refused a message that
 *   is longer than it takes. Each is told once, and input and output went on. Blocks: sec, msec. */
int datagram_ready(datagram_socket *sock, int sec, int msec); /* papers */

/* Returns the node of suci.h below the socket, for its counters, statistics and settings of peers.
 * {0} for an invalid socket. The node is closed with the socket: do not call suci_node_close() and
 * suci_node_free(). Messages that suci_recv() takes cannot be read here, and events that
 * suci_next_event() takes are not told by datagram_ready(). */
suci_node datagram_node(datagram_socket *sock);

/* Returns the text of the last failure of a call in this thread: suci_last_error_message() of
 * suci.h. Threads: any. */
const char *datagram_error(void);

/* ------------------------------------------------------------------------------------------------
 *  Messages by copy
 * --------------------------------------------------------------------------------------------- */

/* Chooses the node to which datagram_write() writes from now on. It may be the own one. */
int datagram_destination(uint32_t destid, datagram_socket *sock); /* papers */

/* Queues a copy of `len` bytes at `buf` as one message to the chosen destination. Does not send.
 * Returns `len`.
 * Errors: EDESTADDRREQ: no destination was chosen. ENOTCONN: the destination is disconnected, by
 *   this program or by its own. EAGAIN: the queue to it is full (`send_queue` of the options, by
 *   default 64 MiB); call datagram_ready(). EMSGSIZE: the message is longer than `max_message` of
 *   this socket's options. */
ssize_t datagram_write(datagram_socket *sock, const void *buf, size_t len); /* papers */

/* Takes the next message that datagram_ready() found, and copies it into `buf` of `len` bytes.
 * Returns its length; 0 is an empty message.
 * Errors: EAGAIN: there is none; call datagram_ready(). EMSGSIZE: it is longer than `len`; it stays
 *   the next message, and datagram_length() tells its length. */
ssize_t datagram_read(datagram_socket *sock, void *buf, size_t len); /* papers */

/* Returns the length of the next message that datagram_ready() found. Errors: EAGAIN: there is
 * none. */
ssize_t datagram_length(datagram_socket *sock);

/* Sets *id to the node that sent the message that was read last. Errors: EAGAIN: none was read. */
int datagram_source(datagram_socket *sock, uint32_t *id);

/* ------------------------------------------------------------------------------------------------
 *  Packets: messages without a copy
 *
 *  A packet is one message of any size, in memory of the library. Packets form lists by `next`. A
 *  list is as many messages as it has packets, which arrive in the order of the list.
 * --------------------------------------------------------------------------------------------- */

/* A packet: one that the program fills and puts, or one that it got. */
typedef struct datagram_packet {
    void *data;                   /* Its bytes. Do not change those of a packet that was got. */
    size_t length;                /* Their number: of a new packet the size that was asked for. A
                                     program that needs less lowers it before it puts the packet. */
    struct datagram_packet *next; /* The program's: the next packet of a list; null ends it. */
    uint32_t id;                  /* The node that sent the packet; of a new one the own node. */
    uint32_t reserved;
} datagram_packet;

/* Makes a packet of `size` bytes, which are 0, with `next` null. Give it back by
 * datagram_free_packet(). Errors: EINVAL: no memory can have that size; ENOMEM. */
datagram_packet *datagram_new_packet(datagram_socket *sock, size_t size); /* papers */

/* Queues all packets of `list` for the node `dest`, without a copy (but those of up to 256 bytes)
 * and without sending: datagram_ready() sends. The same list may be put to many destinations, and
 * to one several times. The library counts the references to its memory: the program may free the
 * list at once, and the memory goes when the last destination has acknowledged it. The bytes must
 * not change before that (datagram_packet_busy()). Packets that were got may be put, too.
 *
 * Queues all packets of the list or, on failure, none. Returns their number.
 * Errors: as datagram_write(); EINVAL: a packet was freed, its `length` exceeds its size, or the
 *   list has more than 1,048,576 packets. */
int datagram_packet_put(datagram_socket *sock, datagram_packet *list, uint32_t dest); /* papers */

/* Takes the next message that datagram_ready() found as a packet, without a copy. Give it back by
 * datagram_free_packet(): it holds the memory in which the library put the message together.
 * Errors: EAGAIN: there is none; call datagram_ready(). */
datagram_packet *datagram_packet_get(datagram_socket *sock); /* papers */

/* Returns 1 while the library still reads the packet's bytes for a destination that did not
 * acknowledge them, else 0: then they may be changed, and the packet be put anew. Threads: any. */
int datagram_packet_busy(const datagram_packet *packet);

/* Gives all packets of `list` back. Null is allowed. May be called after the socket was closed.
 * Errors: EINVAL: a packet was freed before; those before it in the list are freed. Threads:
 * any. */
int datagram_free_packet(datagram_packet *list);

/* Acknowledges to the node `id` now everything that was received from it. Without this call the
 * acknowledgement rides on the next packet to it, or the next datagram_ready() sends it. */
int ack_sync(datagram_socket *sock, uint32_t id); /* papers */

/* ------------------------------------------------------------------------------------------------
 *  The queue, and retransmission by the program
 * --------------------------------------------------------------------------------------------- */

/* Returns the number of messages to the node `id` that were queued and are not acknowledged. */
long datagram_queue_length(datagram_socket *sock, uint32_t id); /* papers */

/* Sends everything again that the node `destid` did not acknowledge, as far as the flow control
 * lets it: on sockets that were opened with DATAGRAM_MANUAL. Elsewhere the library knows better
 * when, and the call does nothing. */
int datagram_retransmission(datagram_socket *sock, uint32_t destid); /* papers */

/* ------------------------------------------------------------------------------------------------
 *  Flow control by the program
 * --------------------------------------------------------------------------------------------- */

/* Sets *size to the bytes that the node `id` would take now as one message, if nothing were queued
 * before it; 0 while it is not connected. More can be queued; it waits here then. */
int datagram_getdestbuf(datagram_socket *sock, uint32_t id, size_t *size); /* papers */

/* Messages to the node `id` prefer throughput from now on: it grants its largest window and
 * acknowledges rarely. Without this call and datagram_rapid() the library adapts to the traffic. */
int datagram_through(datagram_socket *sock, uint32_t id); /* papers */

/* Messages to the node `id` prefer response from now on: a small window and early
 * acknowledgements. */
int datagram_rapid(datagram_socket *sock, uint32_t id); /* papers */

/* ------------------------------------------------------------------------------------------------
 *  Connections
 * --------------------------------------------------------------------------------------------- */

/* The state of a connection. An explicit disconnection hides the others. */
enum datagram_connection {
    DATAGRAM_IDLE = 0,            /* Not needed yet, or over. */
    DATAGRAM_CONNECTING = 1,      /* Being opened: by the first message, or datagram_reconnect(). */
    DATAGRAM_CONNECTED = 2,       /* The peer answers. */
    DATAGRAM_SILENT = 3,          /* The library noticed that the peer is silent: an implicit
                                     disconnection. It recovers by itself. */
    DATAGRAM_DISCONNECTED = 4,    /* By this program. Only datagram_reconnect() ends it. */
    DATAGRAM_DISCONNECTED_THERE = 5 /* By the peer's program, which alone can end it. */
};

/* Disconnects the node `id`: no messages flow in either direction, and writes to it fail with
 * ENOTCONN on both sides. What was queued is kept on both sides; what was on its way can still be
 * read. If the peer's process starts anew, its new connection is disconnected, too. */
int datagram_disconnect(datagram_socket *sock, uint32_t id); /* papers */

/* Undoes datagram_disconnect(): what was queued flows. Opens a connection if there is none. */
int datagram_reconnect(datagram_socket *sock, uint32_t id); /* papers */

/* Returns the state of the connection to the node `id`: a value of enum datagram_connection. */
int datagram_state(datagram_socket *sock, uint32_t id); /* papers */

#ifdef __cplusplus
}
#endif

#endif /* SUCI_DATAGRAM_H */
