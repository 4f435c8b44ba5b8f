/*
 * suci.h - reliable messages to every process of a cluster through one UDP socket.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     #include <stdio.h>
 *     #include <suci/suci.h>
 *
 *     int main(void)
 *     {
 *         suci_node_options options;
 *         suci_node node;
 *         suci_message message;
 *
 *         suci_node_options_init(&options);
 *         options.id = 1;
 *         options.listen = "127.0.0.1:7001";
 *         if (suci_node_open(&options, &node) != SUCI_OK ||
 *             suci_add_peer(node, 0, "127.0.0.1:7000") != SUCI_OK ||
 *             suci_send(node, 0, "hello", 5, SUCI_FOREVER) != SUCI_OK ||
 *             suci_recv(node, &message, SUCI_SECONDS(5)) != SUCI_OK) {
 *             fprintf(stderr, "%s\n", suci_last_error_message());
 *             return 1;
 *         }
 *         fwrite(message.payload, 1, message.length, stdout);
 *         suci_message_release(&message);
 *         suci_node_close(node, SUCI_SECONDS(5));
 *         return suci_node_free(node) != SUCI_OK;
 *     }
 *
 * Compile with: cc program.c $(pkg-config --cflags --libs suci)
 *
 * =================================================================================================
 *  CONVENTIONS, which hold for every function unless its text says otherwise
 * =================================================================================================
 *
 * NODES. A node is one process of the cluster. Other nodes are its peers. A node ID (uint32_t) is
 *   unique in the cluster. A caller-driven node (options.threads = 0) works only while the program
 *   calls it: lowest latency. A threaded node (options.threads >= 1) has I/O threads of its own.
 *   Both kinds have the same functions; differences stand at each function.
 *
 * SESSIONS. A session is the time for which two nodes know each other. It opens with the first
 *   message and outlives lost packets, silence and changes of address. It ends when a side closes
 *   it, starts anew, or is silent for give_up_after. A channel is a numbered sequence of messages
 *   from one node to another; both directions of a channel, and all channels, are independent.
 *
 * RESULTS. A function returns SUCI_OK (0) or an error: a value of `enum suci_error`, or
 *   SUCI_ERRNO_BIT with an errno value. Results come by pointers, which are written only on success
 *   unless a function says so. suci_last_error_message() says what is wrong and what to do about
 *   it. Functions that cannot fail return their value or nothing.
 *
 *   Every function that takes a handle may return SUCI_E_ARGUMENT, SUCI_E_HANDLE, SUCI_E_BUSY,
 *   SUCI_E_FORKED, SUCI_E_CLOSED, SUCI_E_INTERNAL or a system error. "Errors:" lists the others.
 *
 * HANDLES. suci_node, suci_book, suci_region, suci_context, suci_group and suci_pending are small
 *   structs; copy them freely. {0} is the null handle. A null handle, one that was freed, or one
 *   that this process did not make is SUCI_E_HANDLE.
 *
 * TRUST. The library checks handles, null pointers, sizes, flags, ranges and lengths. It trusts
 *   that a pointer that is not null points to memory of the stated length, and that a length up to
 *   SSIZE_MAX is right. A greater length is SUCI_E_ARGUMENT. A pointer with length 0 may be null.
 *   Strings end with a null byte and are UTF-8.
 *
 * STRUCTS THAT MAY GROW begin with `size`. suci_node_options, suci_send_options and
 *   suci_peer_options have an init function that sets `size` and all defaults. In structs that only
 *   the library fills (stats, counters), set `size` to sizeof first. A size of a version that
 *   the library does not know is SUCI_E_SIZE. An older, smaller struct always works. Fields named
 *   `reserved` must be 0 in structs that the program fills. The sizes of all other structs never
 *   change within one soname.
 *
 * TIME. All times are int64_t nanoseconds. A time limit (`timeout`, `patience`) of 0 does not wait.
 *   A negative one (SUCI_FOREVER) has no limit. SUCI_MILLISECONDS(n) and SUCI_SECONDS(n) convert.
 *   A limit bounds waiting. A call may work for up to about 1.5 ms beyond it.
 *
 * BLOCKING. "Blocks: no" means that the call never waits. "Blocks: timeout" means that it waits for
 *   at most `timeout`. "Blocks: I/O thread" means that on a threaded node the call waits until an
 *   I/O thread has done it (microseconds), and that on a caller-driven node it never waits.
 *
 * SIGNALS. A signal does not end a call: the call goes on until its time limit. A signal handler
 *   that wants to end it calls suci_wake(), which is async-signal-safe. No function returns EINTR.
 *
 * THREADS. "Threads: any" means that any thread may call at any time. "Threads: node" means:
 *   - on a threaded node any number of threads may call at the same time;
 *   - on a caller-driven node one thread at a time. A call that finds another one inside the node
 *     returns SUCI_E_BUSY at once and changes nothing. The node may move between threads.
 *   suci_wake() is allowed at any time. suci_node_free() returns SUCI_E_BUSY while another call is
 *   inside. Structs (options, messages, events) belong to one thread at a time.
 *
 * CALLBACKS. There is one kind, the functions of suci_combination_new(): they may run on a thread
 *   of the library. Messages, events and completions call nothing: they wait in queues, and one
 *   descriptor tells poll() and epoll of all.
 *
 * OWNERSHIP. Memory that the program passes is read during the call only, except with
 *   SUCI_SEND_BY_REFERENCE, suci_accept_into(), suci_match_post(), suci_match_receive_claimed() and
 *   suci_region_lend(). Such memory passes to the library only if the call succeeds. That of a
 *   region comes back by suci_region_free(), that of a receive by suci_match_wait(). Other memory
 *   comes back by exactly one SUCI_EVENT_RELEASED, which names the cookie that the program
 *   chose for it. Messages and events that the library fills own memory of the library: release
 *   each one once (suci_message_release, suci_event_release, suci_item_release). A copy of such a
 *   struct is the same object: release one of the two. Released structs may be released again,
 *   which does nothing. They may be released by any thread, and after the node is freed.
 *
 * FORK. In the child of a fork every handle of the parent gives SUCI_E_FORKED, except books, of
 *   which the child has copies; suci_node_free() there gives the handle back and closes the child's
 *   copies of the node's descriptors, without touching the parent's node. Call it in a child that
 *   lives on: until then the child keeps the port. The child may open nodes of its own. Messages
 *   and events that it inherited can be read and released.
 *
 * FAILURES of the library itself return SUCI_E_INTERNAL. The library never calls abort() or
 *   exit(), except where the system cannot give it memory.
 *
 * =================================================================================================
 */

#ifndef SUCI_SUCI_H
#define SUCI_SUCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 *  Version
 * --------------------------------------------------------------------------------------------- */

/* The version of this header. The soname is libsuci.so.0 while the major version is 0: a new minor
 * version may change the ABI then. */
#define SUCI_VERSION_MAJOR 0
#define SUCI_VERSION_MINOR 1
#define SUCI_VERSION_PATCH 0
#define SUCI_VERSION "0.1.0"

/* Major, minor and patch as one number, to be compared: 0xMMmmpp. */
#define SUCI_VERSION_NUMBER \
    ((uint32_t)((SUCI_VERSION_MAJOR << 16) | (SUCI_VERSION_MINOR << 8) | SUCI_VERSION_PATCH))

/* Returns the version of the library that runs, as "0.1.0". Static memory. Threads: any. */
const char *suci_version(void);

/* Returns the version of the library that runs, as SUCI_VERSION_NUMBER has it. Threads: any. */
uint32_t suci_version_number(void);

/* ------------------------------------------------------------------------------------------------
 *  Errors
 * --------------------------------------------------------------------------------------------- */

/* Why a call failed. New values may be added; treat unknown ones as failures. */
enum suci_error {
    SUCI_OK = 0,

    /* The program's mistakes. */
    SUCI_E_ARGUMENT = 1,          /* A null pointer, or a length, flag or value out of range. */
    SUCI_E_SIZE = 2,              /* `size` of a struct is not one that the library knows. */
    SUCI_E_HANDLE = 3,            /* The handle is null, freed, or not of this process. */
    SUCI_E_BUSY = 4,              /* Another call is inside the node. */
    SUCI_E_FORKED = 5,            /* The handle belongs to the parent of this process. */
    SUCI_E_NODE_KIND = 6,         /* Only the other kind of node does this. */
    SUCI_E_INTERNAL = 7,          /* A fault of the library. Please report it. */

    /* Waiting. */
    SUCI_E_TIMED_OUT = 16,        /* Nothing came within the time limit (which may be 0). */
    SUCI_E_WOKEN = 17,            /* suci_wake() ended the wait. */
    SUCI_E_QUEUE_FULL = 18,       /* The send queue to the peer was full until the limit. */
    SUCI_E_NOT_FLUSHED = 19,      /* Some messages are not acknowledged, or failed. */
    SUCI_E_NOT_ALL = 20,          /* A broadcast was not accepted for every peer. */

    /* Messages. */
    SUCI_E_TOO_LONG = 32,         /* The message is longer than any may be (2^48 - 1 bytes). */
    SUCI_E_HEADER_TOO_LONG = 33,  /* The user header is longer than 255 bytes. */
    SUCI_E_RESERVED_KIND = 34,    /* Kinds below 128 belong to the library. */
    SUCI_E_RESERVED_CHANNEL = 35, /* Channels above SUCI_LAST_CHANNEL belong to the library. */
    SUCI_E_RESERVED = 36,         /* A request or a reply sets an option that it cannot. */
    SUCI_E_NOT_A_REQUEST = 37,    /* No call waits for a reply to this message. */
    SUCI_E_BUFFER_TOO_SHORT = 38, /* The message is longer than the buffer. Nothing is lost. */
    SUCI_E_NEEDS_ANSWER = 39,     /* An announced message waits for suci_accept() or others. */
    SUCI_E_NOT_WAITING = 40,      /* No such announced message waits for an answer. */
    SUCI_E_NEEDS_BUFFER = 41,     /* The announced message needs suci_accept_into(). */
    SUCI_E_MEMORY_FULL = 42,      /* Messages of other channels fill the memory: take them. */

    /* One-sided operations. */
    SUCI_E_NO_REGION = 48,        /* The target has no such region, or freed it. */
    SUCI_E_NO_RIGHT = 49,         /* The key is wrong, or the region lacks the right. */
    SUCI_E_OUT_OF_REGION = 50,    /* Bytes beyond the region's end, or an unaligned integer. */
    SUCI_E_NOT_PERMITTED = 51,    /* The peer's file of public keys permits this node less. */

    /* Peers and sessions. */
    SUCI_E_UNKNOWN_PEER = 64,     /* The node knows no such peer. */
    SUCI_E_SUSPENDED = 65,        /* One side suspended the session. */
    SUCI_E_CLOSING = 66,          /* The session is being closed. */
    SUCI_E_UNREAD = 67,           /* Messages of four ended sessions with the peer are unread. */
    SUCI_E_CHANNELS = 68,         /* The peer lets no more channels be open. */
    SUCI_E_FINISHED_CHANNEL = 69, /* This side finished the channel. */
    SUCI_E_ENDED = 70,            /* The session ended before the awaited message came. */
    SUCI_E_PROCESS_DIED = 71,     /* The peer's process died before the call or during it. */
    SUCI_E_REFUSED = 72,          /* The peer's program refused the request. */
    SUCI_E_REPLY_TOO_LONG = 73,   /* The reply was longer than max_message of this node. */
    SUCI_E_CALL_TO_ITSELF = 74,   /* A caller-driven node called itself. */
    SUCI_E_TOO_MANY_PEERS = 75,   /* max_peers are known already. */
    SUCI_E_MEMBER = 76,           /* A member of the group failed. */
    SUCI_E_EXCLUDED = 77,         /* The group goes on without this member. */
    SUCI_E_DIFFERENT = 78,        /* The members called different operations. */

    /* Opening and settings. */
    SUCI_E_CLOSED = 96,           /* The node is closed. */
    SUCI_E_ADDRESS = 97,          /* The text is no address, or no host can have it. */
    SUCI_E_ADDRESS_IN_USE = 98,   /* Another socket has the local address. */
    SUCI_E_UNREACHABLE = 99,      /* Nothing sent from the local address can arrive there. */
    SUCI_E_INSECURE = 100,        /* An address beyond loopback, without a key or permission. */
    SUCI_E_BOOK = 101,            /* The address book has a fault; the message names the line. */
    SUCI_E_NOT_IN_BOOK = 102,     /* The named book does not say where this node is. */
    SUCI_E_CONFIG = 103,          /* A setting is out of its range. */
    SUCI_E_MISSING = 104,         /* A setting that has no default is missing. */
    SUCI_E_ENVIRONMENT = 105,     /* A SUCI_ variable of the environment makes no sense. */
    SUCI_E_NO_ROOM = 106,         /* The receive buffer has no room for a single peer. */
    SUCI_E_NOT_FOUND = 107,       /* There is no such entry. */
    SUCI_E_LOG_TAKEN = 108,       /* Another logger of the process was installed before. */
    SUCI_E_KEY = 109,             /* The key file has a fault, or others can read it. */

    /* An error of the system is this bit and the value of errno. */
    SUCI_ERRNO_BIT = 0x10000
};

/* Whether a result is a system error, and the errno value of one. */
#define SUCI_IS_ERRNO(result) (((result) & SUCI_ERRNO_BIT) != 0)
#define SUCI_ERRNO(result) ((result) & 0xffff)

/* Returns a short text for a result, as "the send queue to the peer is full". It knows system
 * errors, and has a text for unknown values. Static memory. Threads: any. */
const char *suci_strerror(int result);

/* Returns the text of the last failure of a call in this thread: it names the thing, its value and
 * the remedy. "" if no call failed yet. A call that succeeds leaves it. The memory is valid until
 * the next call of this thread that fails. Threads: any. */
const char *suci_last_error_message(void);

/* Details of the last failure of a call in this thread. Values that do not apply are 0. */
typedef struct suci_error_info {
    uint32_t size;       /* Set to sizeof before the call. */
    int32_t result;      /* The result of that call. */
    uint32_t node;       /* The peer. */
    uint32_t channel;    /* The channel. */
    uint64_t number;     /* The number of the announced message: SUCI_E_NEEDS_ANSWER, and errors of
                            suci_accept(), suci_accept_into() and suci_refuse(). */
    uint64_t length;     /* Bytes of the message that does not fit, or that waits. */
    uint64_t limit;      /* The limit that it exceeds: bytes, or open channels. */
    uint64_t reason;     /* SUCI_E_REFUSED: the peer's reason. SUCI_E_ENDED: enum suci_end. */
    uint64_t count;      /* SUCI_E_NOT_FLUSHED: how many suci_last_error_unflushed() lists. */
} suci_error_info;

/* Fills *info with what is known about the last failure in this thread. Does not count as a call
 * that fails. Errors: SUCI_E_SIZE, SUCI_E_ARGUMENT. Threads: any. */
int suci_last_error_info(suci_error_info *info);

/* A peer that did not acknowledge everything. */
typedef struct suci_unflushed {
    uint32_t node;       /* The peer. */
    uint32_t reserved;
    uint64_t messages;   /* Messages that it has not acknowledged, or will never get. */
} suci_unflushed;

/* Fills `peers` with the peers of the last SUCI_E_NOT_FLUSHED in this thread, at most `capacity`.
 * *count becomes the number of all, also of those that did not fit. `peers` may be null if
 * `capacity` is 0. Does not count as a call that fails. Errors: SUCI_E_ARGUMENT. Threads: any. */
int suci_last_error_unflushed(suci_unflushed *peers, size_t capacity, size_t *count);

/* ------------------------------------------------------------------------------------------------
 *  Constants
 * --------------------------------------------------------------------------------------------- */

#define SUCI_FOREVER ((int64_t)-1)
#define SUCI_MILLISECONDS(n) ((int64_t)(n) * 1000000)
#define SUCI_SECONDS(n) ((int64_t)(n) * 1000000000)

/* The last channel of programs. Those above belong to the library. */
#define SUCI_LAST_CHANNEL 0xffffffu
/* The kind of a message for which its sender set none, and the lowest that programs may use. */
#define SUCI_KIND_USER 128
/* The kind of a request: see suci_call(). */
#define SUCI_KIND_REQUEST 1
/* The longest user header, in bytes. */
#define SUCI_MAX_USER_HEADER 255
/* Stands for the number of a message that has none (yet): see suci_sendv(). */
#define SUCI_UNNUMBERED UINT64_MAX
/* Reasons in SUCI_EVENT_NOT_DELIVERED: the sending program took the message back
 * (suci_peer_cancel()); its deadline passed. */
#define SUCI_CANCELLED (UINT64_MAX - 1)
#define SUCI_EXPIRED (UINT64_MAX - 2)
/* The peer does not permit this node the message's layer, or so many channels. */
#define SUCI_NOT_PERMITTED (UINT64_MAX - 3)
#define SUCI_TOO_MANY_CHANNELS (UINT64_MAX - 4)
/* Stands for the absence of a limit in uint64_t fields. */
#define SUCI_NO_LIMIT UINT64_MAX
/* Room for any address as text, with the null byte: "[fe80::1%eth0]:7000". */
#define SUCI_ADDRESS_SIZE 64

/* ------------------------------------------------------------------------------------------------
 *  The address book
 *
 *  A book says where nodes are. As a file it has one node per line, "id address:port"; IPv6
 *  addresses stand in brackets; comments go from '#' to the end of the line. Names are resolved
 *  when the book is read, and again while their node is lost.
 *
 *  Functions that return a number of bytes: `text` receives at most `size` bytes with the null
 *  byte; *length becomes the full length without it, so that a caller can see whether all fit.
 *  `text` may be null if `size` is 0.
 * --------------------------------------------------------------------------------------------- */

typedef struct suci_book {
    uint64_t id;
} suci_book;

/* Makes an empty book. Give it back by suci_book_free(). Blocks: no. Threads: any. */
int suci_book_new(suci_book *book);

/* Makes a book from the file at `path`. Errors: SUCI_E_BOOK, with file and line; a system error if
 * the file cannot be read. Blocks: for the file and for resolving names. Threads: any. */
int suci_book_read(const char *path, suci_book *book);

/* Makes a book from `text`. Errors name `source` and the line: SUCI_E_BOOK. Blocks: for resolving
 * names. Threads: any. */
int suci_book_parse(const char *text, const char *source, suci_book *book);

/* Enters a node at a numeric "address:port". Errors: SUCI_E_ADDRESS; SUCI_E_BOOK if the node or the
 * address is there already. Blocks: no. Threads: any. */
int suci_book_add(suci_book book, uint32_t node, const char *address);

/* Sets *count to the number of nodes in the book. Blocks: no. Threads: any. */
int suci_book_count(suci_book book, size_t *count);

/* Gives the ID of the entry at `index`, by ascending ID from 0. Errors: SUCI_E_NOT_FOUND.
 * Blocks: no. Threads: any. */
int suci_book_entry(suci_book book, size_t index, uint32_t *node);

/* Gives an address of `node`: the one at `index`, from 0, of those that are tried in turn (a host
 * name may have up to 8). `address` has room for SUCI_ADDRESS_SIZE bytes. Errors: SUCI_E_NOT_FOUND.
 * Blocks: no. Threads: any. */
int suci_book_address(suci_book book, uint32_t node, size_t index, char *address);

/* Gives the book as the text that suci_book_parse() reads. Blocks: no. Threads: any. */
int suci_book_text(suci_book book, char *text, size_t size, size_t *length);

/* Gives the book back. Nodes that were opened with it keep a copy. Blocks: no. Threads: any. */
int suci_book_free(suci_book book);

/* ------------------------------------------------------------------------------------------------
 *  Opening and closing a node
 * --------------------------------------------------------------------------------------------- */

typedef struct suci_node {
    uint64_t id;
} suci_node;

/* The nodes that may open a session with a node. */
enum suci_accept {
    SUCI_ACCEPT_BOOK = 0,         /* Nodes of its book only. */
    SUCI_ACCEPT_ANYONE = 1        /* Any node that proves its address. */
};

/* The preference of one direction of traffic. */
enum suci_mode {
    SUCI_MODE_ADAPTIVE = 0,       /* The library decides from the traffic. */
    SUCI_MODE_THROUGHPUT = 1,     /* Bulk: few acknowledgements. */
    SUCI_MODE_RESPONSE = 2        /* Short waits: early acknowledgements, short trains. */
};

/* The congestion controller. */
enum suci_controller {
    SUCI_CONTROLLER_AUTO = 0,     /* LAN where the least round trip is below 5 ms, else WAN. */
    SUCI_CONTROLLER_LAN = 1,      /* Delay-based, after Swift. */
    SUCI_CONTROLLER_WAN = 2,      /* Model-based, after BBR. */
    SUCI_CONTROLLER_CUBIC = 3,    /* CUBIC (RFC 9438). */
    SUCI_CONTROLLER_FIXED = 4     /* A fixed window; only for networks that are not shared. */
};

/* How blocking calls wait. */
enum suci_wait_policy {
    SUCI_WAIT_ADAPTIVE = 0,       /* Polls for up to 50 us for answers if that paid; then sleeps. */
    SUCI_WAIT_SLEEP = 1,          /* Sleeps at once. */
    SUCI_WAIT_SPIN = 2            /* Polls for `spin`, then sleeps. Takes one processor. */
};

/* Settings of a node. suci_node_options_init() sets the defaults that are named here. Strings and
 * the book are read by suci_node_open() only. */
typedef struct suci_node_options {
    uint32_t size;                /* Set by suci_node_options_init(). */
    uint32_t threads;             /* 0: caller-driven. 1 to 256: I/O threads. Default 0. Each has a
                                     socket and serves the peers whose ID, modulo 256 and then
                                     modulo `threads`, is its index. */
    int64_t id;                   /* The node ID. Default -1: the variable SUCI_ID. */
    const char *listen;           /* The local "address:port"; port 0 lets the system choose.
                                     Default null: the book's entry; without one 127.0.0.1:0. */
    suci_book book;               /* The address book. Default {0}: book_file. */
    const char *book_file;        /* The book's file. Default null: SUCI_BOOK, else no book. */
    const char *metrics;          /* A TCP "address:port" where Prometheus finds /metrics; every
                                     host that reaches it can read them. Default null: nowhere. */
    const char *faults;           /* For tests: "loss=0.05,dup=0.05,reorder=0.1,corrupt=0.001,
                                     delay=1ms..5ms,seed=7". Default null: SUCI_FAULTS. */
    uint32_t accept;              /* enum suci_accept. Default SUCI_ACCEPT_BOOK. */
    uint32_t mode;                /* enum suci_mode for traffic to peers. Default ADAPTIVE. */
    uint32_t controller;          /* enum suci_controller. Default AUTO. */
    uint32_t wait;                /* enum suci_wait_policy. Default ADAPTIVE. */
    uint64_t controller_window;   /* Bytes in flight of SUCI_CONTROLLER_FIXED. Default 0. */
    int64_t spin;                 /* How long SUCI_WAIT_SPIN polls. Default 5 ms. */
    uint64_t rate_cap;            /* Bytes per second to each peer at most. Default
                                     SUCI_NO_LIMIT. */
    uint64_t memory;              /* Bytes of received data that wait for the program, over all
                                     peers. At least 1 MiB for each thread. Default 256 MiB. */
    uint64_t max_message;         /* Longest message that this node's library takes by itself, in
                                     bytes; the program answers for longer ones ("Announced
                                     messages" below). At most half of `memory` (of each thread's
                                     part). Default 64 MiB, or that half if it is less. */
    uint64_t send_queue;          /* Bytes queued to one peer for each priority class of channels
                                     (most programs use one class); at least 64 KiB. Default
                                     64 MiB. */
    uint64_t rts_threshold;       /* Longer messages that this node sends are announced; 1 KiB to
                                     1 MiB. Default 256 KiB. Messages that are longer than the
                                     receiver's max_message are announced in any case. */
    uint64_t max_peers;           /* The most peers at once, 1 to 1,048,576. Default 16,384. */
    int64_t silence_timeout;      /* Silence after which a peer is lost; at least 100 ms. Default
                                     10 s. */
    int64_t give_up_after;        /* Silence after which its session ends; at least
                                     silence_timeout. Default 5 min. */
    int64_t max_ack_delay;        /* Longest time that an acknowledgement waits for a packet to ride
                                     on; at most 1 s. Default 2 ms. */
    uint64_t max_datagram;        /* Largest UDP payload, 1,200 to 65,507. Default 8,180. */
    uint64_t recv_buffer;         /* The socket's receive buffer to ask the system for, in bytes.
                                     Default 8 MiB. */
    uint64_t send_buffer;         /* Its send buffer, likewise. Default 1 MiB. */
    uint64_t recv_slot;           /* Bytes of the buffer into which the library reads from the
                                     socket; at most 65,536, the default. Longer datagrams, and
                                     longer trains of them, are lost. */
    uint8_t allow_insecure_network; /* Allow addresses beyond loopback to a node without a key,
                                     although its messages are neither encrypted nor
                                     authenticated. Default 0. */
    uint8_t payload_checksum;     /* CRC32C covers payloads, too. Default 1. */
    uint8_t unattended;           /* No helper thread serves a caller-driven node while the program
                                     does not call it; its peers see it as quiet. Default 0. */
    uint8_t keep_alive;           /* Notice the silence of a peer also while nothing is sent to it.
                                     Default 0. */
    uint8_t statistics;           /* Show counters to `suci stat` and `suci top`. Default 1. */
    uint8_t ecn;                  /* Mark datagrams as ECN capable. Default 1. */
    uint8_t gso;                  /* Send trains with UDP_SEGMENT if the kernel can. Default 1. */
    uint8_t gro;                  /* Receive trains with UDP_GRO if the kernel can. Default 1. */
    uint8_t reuse_port;           /* Share the port with others that set it, too. Default 0. */
    uint8_t only_v6;              /* An IPv6 socket bound to :: refuses IPv4. Default 0. */
    uint8_t ignore_supervision;   /* The limits of silence hold for the processes of `suci run`,
                                     too. Otherwise one that starts late or is stopped is quiet, and
                                     its end alone is noticed. Default 0. */
    uint8_t reserved[5];
    const char *key_file;         /* A file of the cluster's keys, made by `suci keygen`: the node
                                     seals all packets, talks to nodes with one of these keys
                                     alone, and notices when the file changes. Default null:
                                     SUCI_KEY_FILE; without it the node is plain. */
    const char *cluster;          /* The name of the cluster to join, 1 to 64 bytes ("Membership"
                                     below). Default null: none. With one, a node without `id`
                                     and SUCI_ID has a random ID. */
    const char *node_key_file;    /* A file with the node's own key, made by `suci keygen --node`,
                                     instead of key_file: no node can pose as another. Default
                                     null: SUCI_NODE_KEY_FILE. */
    const char *public_keys_file; /* The public keys of all nodes, and what each may use; with
                                     node_key_file. Default null: SUCI_PUBLIC_KEYS_FILE. */
} suci_node_options;

/* Sets *options to the defaults of a program that knows `size` bytes of the struct. C and C++
 * programs call suci_node_options_init(). Errors: SUCI_E_SIZE. Blocks: no. Threads: any. */
int suci_node_options_init_sized(suci_node_options *options, size_t size);

static inline void suci_node_options_init(suci_node_options *options)
{
    (void)suci_node_options_init_sized(options, sizeof *options);
}

/* Opens a node and sets *node to its handle. Null options stand for the defaults: the node that the
 * environment of `suci run` or of another launcher describes (docs/launchers.md). Under one that
 * carries addresses the call waits for all processes, at most for 120 s. Give the node back by
 * suci_node_free().
 *
 * Errors: SUCI_E_ADDRESS, _ADDRESS_IN_USE, _INSECURE, _BOOK, _NOT_IN_BOOK, _CONFIG, _MISSING,
 *   _ENVIRONMENT, _NO_ROOM, _TOO_MANY_PEERS, _UNREACHABLE, _KEY. Each message names the setting and
 *   the remedy. SUCI_E_BUSY if the process has 4,096 nodes.
 * Blocks: for reading the book and resolving names. Threads: any. */
int suci_node_open(const suci_node_options *options, suci_node *node);

/* Closes a node: waits until every peer has everything and knows of the end, for at most `patience`
 * in all (here a negative value is as long as an hour). The handle stays valid: received messages
 * and events can be taken, until the calls return SUCI_E_CLOSED. On a threaded node the calls that
 * wait in other threads end so, too.
 *
 * Errors: SUCI_E_NOT_FLUSHED: some did not get everything; the node is closed all the same.
 *   SUCI_E_CLOSED: it was closed before.
 * Blocks: patience. suci_wake() does not end it. Threads: node. */
int suci_node_close(suci_node node, int64_t patience);

/* Gives the handle back: it is invalid afterwards. A node that was not closed is closed with a
 * patience of one second. Memory lent to the library is the program's again when this returns; no
 * SUCI_EVENT_RELEASED tells of it.
 *
 * Errors: SUCI_E_BUSY: another call is inside the node, and the handle stays valid. To end one,
 *   call suci_wake(), or close a threaded node first.
 *   SUCI_E_FORKED: the handle and the child's descriptors were given back, and the parent's node
 *   goes on.
 * Blocks: for at most about 1.5 s. Threads: node. */
int suci_node_free(suci_node node);

/* Gives this node's ID. Blocks: no. Threads: node. */
int suci_node_id(suci_node node, uint32_t *id);

/* Gives the local address, with the port that the system chose. `address` has room for
 * SUCI_ADDRESS_SIZE bytes. Blocks: no. Threads: node. */
int suci_node_address(suci_node node, char *address);

/* Gives the number of I/O threads; 0 for a caller-driven node. Blocks: no. Threads: node. */
int suci_node_threads(suci_node node, uint32_t *threads);

/* Gives the number of peers that the receive buffers serve at the same time (1,260 with 8 MiB).
 * More peers take turns. Blocks: no. Threads: node. */
int suci_node_peer_limit(suci_node node, uint64_t *peers);

/* Gives, as text, the setting of the system that keeps the node from working well, and the remedy;
 * "" if there is none. `size` and `length` are as for the book. Blocks: no. Threads: node. */
int suci_node_warning(suci_node node, char *text, size_t size, size_t *length);

/* ------------------------------------------------------------------------------------------------
 *  Waiting beside other things
 * --------------------------------------------------------------------------------------------- */

/* Gives a descriptor for poll, select and epoll, the same at each call. It belongs to the node:
 * wait for it to be readable, and do nothing else with it. It is level-triggered. It is readable
 *  - while a message or an event waits, a wake is pending, or a threaded node is closed;
 *  - on a caller-driven node also while the node has other work to do.
 * When it is readable, take items with a time limit of 0 (suci_next, or suci_recv and
 * suci_next_event) until SUCI_E_TIMED_OUT. That also does the other work. It becomes unreadable by
 * a call that finds nothing. Blocks: no. Threads: node. */
int suci_node_fd(suci_node node, int *fd);

/* Does input and output, then waits until a message or an event is there. Takes nothing. *ready, if
 * not null, becomes whether one is there; without one within `timeout` the result is still SUCI_OK.
 * Errors: SUCI_E_WOKEN; SUCI_E_NODE_KIND on a threaded node, whose threads need no turns.
 * Blocks: timeout. Threads: node. */
int suci_poll(suci_node node, bool *ready, int64_t timeout);

/* Makes one call of the node return SUCI_E_WOKEN: a call that waits now; or else the next call that
 * would wait, or that has a time limit of 0 and finds nothing. The descriptor is readable until
 * then. Wakes do not add up: several before a call noticed are one. A call that finds what it waits
 * for leaves the wake to the next one. On a caller-driven node a sleeping call notices within about
 * 10 ms.
 *
 * Async-signal-safe. Errors: SUCI_E_HANDLE, SUCI_E_FORKED; it sets no error message. Blocks: no.
 * Threads: any, at any time, also during calls of a caller-driven node. */
int suci_wake(suci_node node);

/* ------------------------------------------------------------------------------------------------
 *  Peers
 * --------------------------------------------------------------------------------------------- */

/* Enters a peer at a numeric "address:port"; the address of a known peer is replaced for its next
 * connection. For host names use a book. Errors: SUCI_E_ADDRESS, _INSECURE, _UNREACHABLE,
 * _TOO_MANY_PEERS. Blocks: I/O thread. Threads: node. */
int suci_add_peer(suci_node node, uint32_t peer, const char *address);

/* Removes a peer: its session ends at once, and from then on it is unknown. *had_session, if not
 * null, becomes whether there was a session. If so, SUCI_EVENT_ENDED follows. Errors:
 * SUCI_E_UNKNOWN_PEER. Blocks: I/O thread. Threads: node. */
int suci_remove_peer(suci_node node, uint32_t peer, bool *had_session);

/* The state of the link to a peer. */
enum suci_link {
    SUCI_LINK_IDLE = 0,           /* Never needed yet, or over. */
    SUCI_LINK_CONNECTING = 1,     /* Being opened. */
    SUCI_LINK_UP = 2,             /* The peer answers. */
    SUCI_LINK_LOST = 3,           /* Silent for longer than the silence timeout. */
    SUCI_LINK_QUIET = 4           /* As long silent, but `unattended` or supervised by `suci run`:
                                     probably computing, starting or stopped. */
};

/* A peer, and the state of the link to it. */
typedef struct suci_peer_info {
    uint32_t node;                /* Its node ID. */
    uint32_t link;                /* enum suci_link. */
    uint8_t known;                /* The program or its book named it; others are forgotten some
                                     time after their session ended. */
    uint8_t reserved[7];
    char address[SUCI_ADDRESS_SIZE]; /* Its presumed address; "" if none is known. */
} suci_peer_info;

/* Fills `peers` with all peers by ascending ID, at most `capacity`. *count becomes the number of
 * all, also of those that did not fit. `peers` may be null if `capacity` is 0. Blocks: I/O thread.
 * Threads: node. */
int suci_peers(suci_node node, suci_peer_info *peers, size_t capacity, size_t *count);

/* ------------------------------------------------------------------------------------------------
 *  Sending
 *
 *  Messages on one channel arrive complete, unmodified, in order and at most once. Channels never
 *  block one another. Sending returns when the library has accepted the message. A message whose
 *  peer is not connected opens the connection. A node can send to itself, by its own ID.
 *
 *  While the send queue to the peer is full, sending waits for at most `timeout`. SUCI_E_QUEUE_FULL
 *  says that the message was not accepted; SUCI_EVENT_WRITABLE then says when there is room.
 *
 *  Errors of all functions that send: SUCI_E_QUEUE_FULL, _WOKEN, _UNKNOWN_PEER, _SUSPENDED,
 *  _CLOSING, _UNREAD, _CHANNELS, _FINISHED_CHANNEL, _TOO_LONG, _RESERVED_KIND, _RESERVED_CHANNEL.
 *  On a threaded node the call has returned before the library finds the last four: instead of
 *  _UNREAD the message waits until the program took the unread ones; instead of _CLOSING, _CHANNELS
 *  and _FINISHED_CHANNEL comes SUCI_EVENT_NOT_DELIVERED with the number SUCI_UNNUMBERED.
 * --------------------------------------------------------------------------------------------- */

enum suci_send_flag {
    /* SUCI_EVENT_DELIVERED or _NOT_DELIVERED tells of the message, with its cookie. */
    SUCI_SEND_NOTIFY = 1,
    /* The library reads the program's memory instead of a copy. Do not change or free it before
     * SUCI_EVENT_RELEASED with the message's cookie. That event comes exactly once if the call
     * succeeds, never if it fails. Up to 256 bytes, and payloads of more than one piece, are copied
     * all the same and released at once. */
    SUCI_SEND_BY_REFERENCE = 2,
    /* For a receive of the peer (suci_match_post()): `channel` and `tag` are those that a pattern
     * names. suci_recv() never returns such a message. */
    SUCI_SEND_MATCHED = 4
};

/* How to send a message. suci_send_options_init() sets the defaults that are named here. */
typedef struct suci_send_options {
    uint32_t size;                /* Set by suci_send_options_init(). */
    uint32_t flags;               /* enum suci_send_flag. Default 0. */
    uint32_t channel;             /* 0 to SUCI_LAST_CHANNEL. Default 0. */
    uint8_t kind;                 /* 128 to 255; free for the program. Default SUCI_KIND_USER. */
    uint8_t user_header_length;   /* Bytes of user_header. Default 0. */
    uint16_t reserved;
    const void *user_header;      /* Goes beside the payload; copied. Default null. */
    uint64_t tag;                 /* Free for the program; the receiver sees it. Default 0. */
    uint64_t cookie;              /* Free for the program, often a pointer: comes back in
                                     SUCI_EVENT_RELEASED, _DELIVERED, _NOT_DELIVERED and in
                                     outcomes, and names messages for suci_peer_cancel(). Default
                                     0. */
    int64_t deadline;             /* The message is dropped if none of it was sent within this time
                                     after it was accepted. Default SUCI_FOREVER. */
} suci_send_options;

/* Sets *options to the defaults of a program that knows `size` bytes of the struct. C and C++
 * programs call suci_send_options_init(). Errors: SUCI_E_SIZE. Blocks: no. Threads: any. */
int suci_send_options_init_sized(suci_send_options *options, size_t size);

static inline void suci_send_options_init(suci_send_options *options)
{
    (void)suci_send_options_init_sized(options, sizeof *options);
}

/* Sends a copy of `length` bytes at `data` to `to`, on channel 0. `data` may be null if `length` is
 * 0. Messages that a program sends in a row share packets. Blocks: timeout. Threads: node. */
int suci_send(suci_node node, uint32_t to, const void *data, size_t length, int64_t timeout);

/* Sends one message made of `count` pieces, at most 1,024. Null options stand for the defaults.
 * *number, if not null, becomes the message's number on its channel; on a threaded node, which
 * numbers messages later, SUCI_UNNUMBERED. Blocks: timeout. Threads: node. */
int suci_sendv(suci_node node, uint32_t to, const struct iovec *pieces, size_t count,
               const suci_send_options *options, int64_t timeout, uint64_t *number);

/* Sends `count` messages to one peer, each of one piece and all with the same options (null: the
 * defaults; not BY_REFERENCE). This is the fastest way to send many small messages: they leave
 * together. *accepted, if not null, becomes the number of messages that were accepted, counted from
 * the first, also on failure. The error is that of the first one that was not. `timeout` is for all
 * together.
 * Blocks: timeout. Threads: node. */
int suci_send_many(suci_node node, uint32_t to, const struct iovec *messages, size_t count,
                   const suci_send_options *options, int64_t timeout, size_t *accepted);

/* One message of a batch. */
typedef struct suci_outgoing {
    uint32_t to;                  /* The peer. */
    uint32_t reserved;
    const void *data;             /* The payload; null if `length` is 0. */
    size_t length;                /* Its bytes. */
    const suci_send_options *options; /* Null: the defaults. */
} suci_outgoing;

/* Sends `count` messages, to any peers and with any options, as one batch: nothing leaves before
 * all are accepted, unless a queue fills or a peer prefers SUCI_MODE_RESPONSE. *accepted, errors
 * and `timeout` are as in suci_send_many(). Blocks: timeout. Threads: node. */
int suci_send_batch(suci_node node, const suci_outgoing *messages, size_t count, int64_t timeout,
                    size_t *accepted);

/* Sends one message of `pieces` to each of the `peer_count` nodes of `to`, without waiting.
 * `results`, if not null, has room for `peer_count` values and receives the result of each. A
 * payload of more than 256 bytes is held once for all; BY_REFERENCE releases it once, if at least
 * one peer's message was accepted. Errors: SUCI_E_NOT_ALL: some were not accepted; `results` tells
 * which, and suci_last_error_message() why the first of them was not. Blocks: no. Threads: node. */
int suci_broadcast(suci_node node, const uint32_t *to, size_t peer_count,
                   const struct iovec *pieces, size_t count, const suci_send_options *options,
                   int *results);

/* Waits until every accepted message is acknowledged. Errors: SUCI_E_NOT_FLUSHED:
 * suci_last_error_unflushed() lists peers that have not acknowledged everything, or whose session
 * ended before; SUCI_E_WOKEN. Blocks: timeout. Threads: node. */
int suci_flush(suci_node node, int64_t timeout);

/* ------------------------------------------------------------------------------------------------
 *  Receiving
 *
 *  Three ways: borrow the library's memory and release it (suci_recv and others); copy into a
 *  buffer (suci_recv_copy); have a long message put into the program's memory as it comes
 *  (suci_accept_into).
 *
 *  Errors of all functions that receive: SUCI_E_TIMED_OUT: nothing came within `timeout`;
 *  SUCI_E_WOKEN; SUCI_E_CLOSED: the node is closed and everything was taken; SUCI_E_NEEDS_ANSWER,
 *  only if the call waits: no message is there, and an announced one waits for the program's answer
 *  (suci_accept() and others). suci_last_error_info() names it. Each announced message is told
 *  once, by this error or by its SUCI_EVENT_INCOMING: the next call goes on to wait for other
 *  messages.
 * --------------------------------------------------------------------------------------------- */

/* A message received completely. */
typedef struct suci_message {
    const void *payload;          /* Its bytes; valid until the message is released. */
    size_t length;                /* Their number. */
    const void *user_header;      /* The sender's header; valid as long. */
    uint64_t tag;                 /* The sender's tag. */
    uint64_t number;              /* Its number on its channel, from 0 in every session. */
    uint32_t from;                /* The node that sent it. */
    uint32_t session;             /* The session; a sender that started anew has a new one. */
    uint32_t channel;             /* The channel. */
    uint8_t kind;                 /* Its kind. Pass over kinds below 128 and channels above
                                     SUCI_LAST_CHANNEL that the program does not know. */
    uint8_t user_header_length;   /* Bytes of the user header, 0 to 255. */
    uint8_t is_request;           /* Its sender waits for suci_reply(). */
    uint8_t reserved;
    uint64_t opaque[2];           /* The library's. */
} suci_message;

/* Takes the next message. Events do not end the wait. Blocks: timeout. Threads: node. */
int suci_recv(suci_node node, suci_message *message, int64_t timeout);

/* Waits for a message, then takes all that are there, at most `capacity`, into `messages`. *count
 * becomes their number, 1 or more. Release all. For many small messages this costs less than
 * taking them one by one. Blocks: timeout. Threads: node. */
int suci_recv_many(suci_node node, suci_message *messages, size_t capacity, size_t *count,
                   int64_t timeout);

enum suci_filter_flag {
    SUCI_FROM_NODE = 1,           /* Only messages of `node`. */
    SUCI_ON_CHANNEL = 2           /* Only messages on `channel`. */
};

/* A choice of messages: of one peer, on one channel, or both. */
typedef struct suci_filter {
    uint32_t flags;               /* One or both of enum suci_filter_flag. */
    uint32_t node;
    uint32_t channel;
    uint32_t reserved;
} suci_filter;

/* Takes the next message that `filter` admits. Others keep their order and wait.
 * Errors: SUCI_E_ENDED: nothing of the peer is left and its session ended; once for each end that
 * the program has not heard of. SUCI_E_MEMORY_FULL, on a caller-driven node: other messages of the
 * peer must be taken first. Blocks: timeout. Threads: node. */
int suci_recv_from(suci_node node, const suci_filter *filter, suci_message *message,
                   int64_t timeout);

/* Takes the next message and copies its payload into `buffer` of `capacity` bytes. `message` tells
 * the rest: its payload points to `buffer`; release it as any other. On a
 * caller-driven node, an announced message for which `buffer` has room is accepted, unless its
 * event was taken. On a threaded node only suci_accept() and suci_accept_into() accept one.
 * Errors: SUCI_E_BUFFER_TOO_SHORT: suci_last_error_info() tells the length; the message stays, and
 * the next call that receives gets it. On a threaded node other waiting calls and the descriptor
 * do not notice it: call again at once. Blocks: timeout. Threads: node. */
int suci_recv_copy(suci_node node, void *buffer, size_t capacity, suci_message *message,
                   int64_t timeout);

/* Releases a message: its payload and user header are invalid afterwards, and *message is zeroed.
 * A small message that is not released keeps up to 16 KiB, shared with others, from being freed.
 * Null, and a released message, are allowed. Blocks: no. Threads: any. */
void suci_message_release(suci_message *message);

/* Releases `count` messages, as suci_message_release() does each. For those of one suci_recv_many()
 * it costs less. Null is allowed, and messages among them that are released. Blocks: no.
 * Threads: any. */
void suci_message_release_many(suci_message *messages, size_t count);

/* ------------------------------------------------------------------------------------------------
 *  Events
 *
 *  Events tell what happened to peers and messages. A program that only sends and receives need not
 *  take them: the library keeps few of those that are not taken. A program that lends memory or
 *  sends with SUCI_SEND_NOTIFY must take them: every SUCI_EVENT_RELEASED, _DELIVERED and
 *  _NOT_DELIVERED is kept until then.
 * --------------------------------------------------------------------------------------------- */

enum suci_event_type {
    SUCI_EVENT_NONE = 0,          /* A released event. */
    SUCI_EVENT_UP = 1,            /* `up`: the peer answers: at first, or after LOST or QUIET. */
    SUCI_EVENT_LOST = 2,          /* `lost`: it is silent; completes nothing, undone by UP. */
    SUCI_EVENT_QUIET = 3,         /* As LOST, of an `unattended` peer, or of one that `suci run`
                                     supervises: its end would be reported. */
    SUCI_EVENT_SUSPENDED = 4,     /* `side`: a side suspended the session. */
    SUCI_EVENT_RESUMED = 5,       /* `side`: the side that had suspended it resumed it. */
    SUCI_EVENT_ENDED = 6,         /* `ended`: the session is over; comes after its last message. */
    SUCI_EVENT_DELIVERED = 7,     /* `delivery`: the peer's library holds the message. */
    SUCI_EVENT_NOT_DELIVERED = 8, /* `delivery`: refused, taken back, expired, or not sent. */
    SUCI_EVENT_WRITABLE = 9,      /* `writable`: the send queue has room again. */
    SUCI_EVENT_INCOMING = 10,     /* `incoming`: a long message waits for an answer. */
    SUCI_EVENT_CHANNEL_FINISHED = 11, /* `finished`: no more messages come on the channel. */
    SUCI_EVENT_REFUSED = 12,      /* `refused`: the peer, or the route, refuses the connection. */
    SUCI_EVENT_RELEASED = 13,     /* `released`: memory of the program is the program's again.
                                     `node` is 0. */
    SUCI_EVENT_MEMBER_JOINED = 14, /* The peer joined the cluster, */
    SUCI_EVENT_MEMBER_LEFT = 15,   /* left it, */
    SUCI_EVENT_MEMBER_FAILED = 16  /* or its process is dead, as the members agree. */
};

/* Why a peer is lost, as far as is known. */
enum suci_lost {
    SUCI_LOST_NO_ANSWER = 0,      /* No answer, and no report of a reason. */
    SUCI_LOST_PORT = 1,           /* Nobody has that port (ECONNREFUSED). */
    SUCI_LOST_HOST = 2,           /* The host does not answer its network (EHOSTUNREACH). */
    SUCI_LOST_NETWORK = 3,        /* No route to the network (ENETUNREACH). */
    SUCI_LOST_PROHIBITED = 4,     /* A firewall forbids it (EPERM, EACCES). */
    SUCI_LOST_OTHER = 5,          /* Another error of the system. */
    SUCI_LOST_REFUSED = 6,        /* The peer refused the connection: see `refusal`. */
    SUCI_LOST_PROCESS_DIED = 7    /* The peer's process has ended. */
};

/* Why a peer refused the connection, or the route to it the packets. */
enum suci_refusal {
    SUCI_REFUSAL_NONE = 0,
    SUCI_REFUSAL_DUPLICATE_NODE = 1,     /* Another live process has this node's ID. */
    SUCI_REFUSAL_NOT_ALLOWED = 2,        /* This node is not in the peer's book. */
    SUCI_REFUSAL_WRONG_NODE = 3,         /* The node at that address has another ID. */
    SUCI_REFUSAL_MODE = 4,               /* One side encrypts, or under other kinds of keys. */
    SUCI_REFUSAL_NO_SOCKET_CREDIT = 5,   /* Its receive buffer has no room for one more peer. */
    SUCI_REFUSAL_NO_MEMORY = 6,          /* The peer has no memory for a session. */
    SUCI_REFUSAL_TOO_MANY_PEERS = 7,     /* The peer knows as many nodes as it may. */
    SUCI_REFUSAL_UNREAD = 8,             /* Its program left four ended sessions unread. */
    SUCI_REFUSAL_NO_SOCKET_CREDIT_HERE = 9, /* This node's receive buffer has none. */
    SUCI_REFUSAL_NO_MEMORY_HERE = 10,    /* This node has no memory for a session. */
    SUCI_REFUSAL_STALE = 11,             /* The session was ended there; a new one follows. */
    SUCI_REFUSAL_VERSION = 12,           /* No common protocol version. */
    SUCI_REFUSAL_NARROW = 13,            /* The path carries no packets of 1,200 bytes. */
    SUCI_REFUSAL_OTHER = 14,             /* A reason of a later version: see `code`. */
    SUCI_REFUSAL_KEY = 15,               /* The nodes have different cluster keys. */
    SUCI_REFUSAL_NO_KEYS_HERE = 16,      /* This node cannot make keys now. */
    SUCI_REFUSAL_NODE_KEY = 17,          /* Its public keys lack this node, or name another key. */
    SUCI_REFUSAL_NO_NODE_KEY_HERE = 18,  /* This node's public keys lack the peer. */
    SUCI_REFUSAL_LAYER = 19              /* Its public keys deny this node a layer: see `code`. */
};

/* Why a session ended. */
enum suci_end {
    SUCI_END_NONE = 0,
    SUCI_END_CLOSED = 1,          /* The peer closed; everything that it sent was received. */
    SUCI_END_CUT_SHORT = 2,       /* The peer closed; `missing` of its messages did not come. */
    SUCI_END_CLOSED_HERE = 3,     /* This side closed. */
    SUCI_END_RESTARTED = 4,       /* The peer's process started anew. */
    SUCI_END_RESET = 5,           /* This program called suci_peer_reset(). */
    SUCI_END_PEER_ENDED = 6,      /* The peer ended the session earlier. */
    SUCI_END_SILENT = 7,          /* Nothing was heard for give_up_after. */
    SUCI_END_PROCESS_DIED = 8,    /* Its process has ended, and no other takes its place. */
    SUCI_END_PROTOCOL = 9,        /* The peer broke the protocol; `code`: which rule. */
    SUCI_END_PEER_PROTOCOL = 10,  /* The peer says that this side did; `code` is its code. */
    SUCI_END_REVOKED = 11,        /* This node's public keys lack the peer now, or permit less. */
    SUCI_END_REVOKED_THERE = 12   /* The same of the peer's public keys and this node. */
};

/* The fate of a message that was outstanding when its session ended. */
enum suci_fate {
    SUCI_FATE_DELIVERED = 0,      /* The peer's library holds all of it. */
    SUCI_FATE_NOT_DELIVERED = 1,  /* The peer cannot have all of it. */
    SUCI_FATE_UNKNOWN = 2         /* Sent, but not fully acknowledged. */
};

/* One message that was outstanding when its session ended. */
typedef struct suci_outcome {
    uint64_t number;              /* Its number. */
    uint64_t cookie;              /* The program's cookie. */
    uint32_t channel;             /* Its channel. */
    uint8_t fate;                 /* enum suci_fate. */
    uint8_t notify;               /* It was sent with SUCI_SEND_NOTIFY. */
    uint8_t reserved[2];
} suci_outcome;

typedef struct suci_event_up {
    uint32_t session;             /* The present session with the peer. */
} suci_event_up;

typedef struct suci_event_lost {
    uint64_t code;                /* SUCI_REFUSAL_OTHER: the peer's code. */
    uint32_t cause;               /* enum suci_lost. */
    uint32_t refusal;             /* enum suci_refusal, if cause is SUCI_LOST_REFUSED. */
} suci_event_lost;

typedef struct suci_event_side {
    uint8_t here;                 /* This side did it; else the peer. */
} suci_event_side;

typedef struct suci_event_ended {
    uint32_t session;             /* The session that ended. If several ended before the program
                                     took this event, it stands for all: this is the newest. */
    uint32_t sessions;            /* How many ended. */
    uint32_t reason;              /* enum suci_end, of the newest. */
    uint32_t reserved;
    uint64_t missing;             /* SUCI_END_CUT_SHORT: how many messages did not come. */
    uint64_t code;                /* SUCI_END_PROTOCOL and SUCI_END_PEER_PROTOCOL. */
    const suci_outcome *outcomes; /* One for each outstanding message; valid until the event is
                                     released. Of several sessions, it has all of the first, and
                                     of the others only messages sent with SUCI_SEND_NOTIFY. */
    size_t outcome_count;
} suci_event_ended;

typedef struct suci_event_delivery {
    uint64_t number;              /* The message's number, or SUCI_UNNUMBERED. */
    uint64_t cookie;              /* The program's cookie. */
    uint64_t reason;              /* NOT_DELIVERED: the receiver's reason (see suci_refuse()),
                                     SUCI_CANCELLED, SUCI_EXPIRED, SUCI_NOT_PERMITTED or
                                     SUCI_TOO_MANY_CHANNELS; 0 if the session was closing. */
    uint32_t channel;
} suci_event_delivery;

typedef struct suci_event_writable {
    uint8_t priority_class;       /* The class of channels that has room, 0 to 7. */
} suci_event_writable;

typedef struct suci_event_incoming {
    uint64_t number;              /* The message's number on its channel. */
    uint64_t length;              /* Its bytes. */
    uint64_t tag;                 /* Its tag. */
    const void *user_header;      /* Valid until the event is released. */
    uint32_t channel;
    uint8_t kind;
    uint8_t user_header_length;
    uint8_t reserved[2];
} suci_event_incoming;

typedef struct suci_event_finished {
    uint32_t channel;
} suci_event_finished;

typedef struct suci_event_refused {
    uint64_t code;                /* SUCI_REFUSAL_OTHER: the peer's code; SUCI_REFUSAL_LAYER:
                                     6 membership, 8 routes. */
    uint32_t reason;              /* enum suci_refusal. Tried again until give_up_after. */
} suci_event_refused;

typedef struct suci_event_released {
    uint64_t cookie;              /* The cookie with which the memory was lent. */
} suci_event_released;

/* Something that happened. `type` says which member of the union holds the rest. */
typedef struct suci_event {
    uint32_t type;                /* enum suci_event_type; pass over unknown values. */
    uint32_t node;                /* The peer. */
    __extension__ union {
        suci_event_up up;
        suci_event_lost lost;
        suci_event_side side;
        suci_event_ended ended;
        suci_event_delivery delivery;
        suci_event_writable writable;
        suci_event_incoming incoming;
        suci_event_finished finished;
        suci_event_refused refused;
        suci_event_released released;
        uint64_t reserved[8];
    };
    uint64_t opaque;              /* The library's. */
} suci_event;

/* Takes the next event. Messages do not end the wait; SUCI_EVENT_ENDED comes after the last message
 * of its session was taken. Errors: SUCI_E_TIMED_OUT, SUCI_E_WOKEN, SUCI_E_CLOSED: closed and all
 * were taken. Blocks: timeout. Threads: node. */
int suci_next_event(suci_node node, suci_event *event, int64_t timeout);

/* Releases an event: pointers in it are invalid afterwards, and its type is SUCI_EVENT_NONE. Null,
 * and a released event, are allowed. Blocks: no. Threads: any. */
void suci_event_release(suci_event *event);

enum suci_item_type {
    SUCI_ITEM_NONE = 0,           /* A released item. */
    SUCI_ITEM_MESSAGE = 1,
    SUCI_ITEM_EVENT = 2
};

/* A message or an event. */
typedef struct suci_item {
    uint32_t type;                /* enum suci_item_type. */
    uint32_t reserved;
    __extension__ union {
        suci_message message;
        suci_event event;
    };
} suci_item;

/* Takes the next message or event. Their order is exact: of each peer, first the events and
 * messages of one session, then its SUCI_EVENT_ENDED, then those of the next session. An event
 * comes before a message that waits with it, and SUCI_EVENT_RELEASED before all others. Errors: as
 * suci_next_event(). Blocks: timeout. Threads: node. */
int suci_next(suci_node node, suci_item *item, int64_t timeout);

/* Releases the message or event of an item. Null, and a released item, are allowed. Blocks: no.
 * Threads: any. */
void suci_item_release(suci_item *item);

/* ------------------------------------------------------------------------------------------------
 *  Announced messages (SUCI_EVENT_INCOMING, SUCI_E_NEEDS_ANSWER)
 *
 *  A long message is announced: its bytes are sent after the receiving node has agreed. Two
 *  settings act together.
 *   - The sender's rts_threshold says which messages are announced although the receiver's library
 *     takes them by itself: longer ones. It agrees to each when it has memory for it, and neither
 *     program notices. (Over a path with a long round trip the threshold is what 8 Gbit/s carry in
 *     one round trip, at most 4 MiB.)
 *   - The receiver's max_message says for which messages its program answers: longer ones. They are
 *     announced even if they are shorter than the sender's rts_threshold. SUCI_EVENT_INCOMING or
 *     SUCI_E_NEEDS_ANSWER tells the receiving program of each, and one of these functions answers.
 *     Until then the later messages of its channel wait; other channels go on.
 *
 *  `from`, `channel` and `number` name the message. Errors of all three: SUCI_E_NOT_WAITING: it was
 *  answered or withdrawn before; SUCI_E_UNKNOWN_PEER. suci_last_error_info() names the message.
 * --------------------------------------------------------------------------------------------- */

/* Takes an announced message into memory of the library; it arrives as any other. Errors:
 * SUCI_E_NEEDS_BUFFER: it is too long for that. Blocks: I/O thread. Threads: node. */
int suci_accept(suci_node node, uint32_t from, uint32_t channel, uint64_t number);

/* Takes an announced message into the program's memory: `capacity` bytes at `buffer`. They pass to
 * the library if the call succeeds: neither read, change nor free them. The message arrives as any
 * other, and its payload points to `buffer`: read it until the message is released. When it was
 * released, or its session ended before it came, SUCI_EVENT_RELEASED with `cookie` comes once, and
 * the memory is the program's again. Errors: SUCI_E_BUFFER_TOO_SHORT: suci_last_error_info() tells
 * the length. Blocks: I/O thread. Threads: node. */
int suci_accept_into(suci_node node, uint32_t from, uint32_t channel, uint64_t number,
                     void *buffer, size_t capacity, uint64_t cookie);

/* Refuses an announced message; its sender learns `reason`. Blocks: I/O thread. Threads: node. */
int suci_refuse(suci_node node, uint32_t from, uint32_t channel, uint64_t number, uint64_t reason);

/* ------------------------------------------------------------------------------------------------
 *  Requests
 * --------------------------------------------------------------------------------------------- */

/* Sends a request of `count` pieces and waits for its reply. The peer's program receives a message
 * with is_request and answers it by suci_reply(). Of the options only channel and user header may
 * be set. Messages that arrive meanwhile wait for the calls that receive. A call to a process that
 * is known to have died fails at once with SUCI_E_PROCESS_DIED; a peer that is lost by its silence
 * alone may answer again, and the call waits.
 *
 * Errors: as sending, and SUCI_E_TIMED_OUT (a reply that comes later is dropped and counted),
 *   SUCI_E_WOKEN (likewise), _ENDED, _PROCESS_DIED, _REFUSED, _REPLY_TOO_LONG, _RESERVED,
 *   _CALL_TO_ITSELF (caller-driven nodes).
 * Blocks: timeout. Threads: node; on a threaded node any number of calls at the same time. */
int suci_call(suci_node node, uint32_t to, const struct iovec *pieces, size_t count,
              const suci_send_options *options, int64_t timeout, suci_message *reply);

/* Sends the reply to a request. It goes beside the messages of the channel and waits for none of
 * them. Of the options the channel is not used, and a tag other than 0 is SUCI_E_RESERVED. Of
 * *request only from, channel, tag and kind are read: to reply after it was released, keep a copy
 * of the struct. The first reply to a request counts, others are dropped. Errors: as sending, and
 * SUCI_E_NOT_A_REQUEST. Blocks: timeout. Threads: node. */
int suci_reply(suci_node node, const suci_message *request, const struct iovec *pieces,
               size_t count, const suci_send_options *options, int64_t timeout);

/* ------------------------------------------------------------------------------------------------
 *  Receives that take messages by tag and source
 *
 *  A program posts receives, each with a pattern and memory. A message that was sent with
 *  SUCI_SEND_MATCHED goes to the oldest receive that admits it, and a receive takes the oldest
 *  message that it admits: the order of MPI. If a receive was posted before a long message comes,
 *  its bytes go from the packets straight to the memory. Messages that no receive admits are kept:
 *  128 MiB for all nodes. Then their senders wait, until the program receives or discards some.
 * --------------------------------------------------------------------------------------------- */

/* The pattern has no node: messages of all nodes. */
#define SUCI_MATCH_ANY_NODE 1u

/* Any receive, for suci_match_wait(). */
#define SUCI_MATCH_ANY_RECEIVE UINT64_MAX

/* The messages that a receive admits. */
typedef struct suci_match_pattern {
    uint64_t tag;        /* Their tag. */
    uint64_t ignore;     /* Bits of the tag that do not count. UINT64_MAX admits all tags. */
    uint32_t from;       /* The node that sends them. */
    uint32_t channel;    /* Their channel, 0 to 16,777,215. */
    uint32_t flags;      /* 0 or SUCI_MATCH_ANY_NODE. */
    uint32_t reserved;   /* 0 */
} suci_match_pattern;

/* A message, of a receive or without one. */
typedef struct suci_match {
    uint64_t receive;    /* The receive. */
    uint64_t message;    /* Of suci_match_claim(): names the message. */
    uint64_t tag;
    uint64_t number;     /* The message's number on its channel. */
    uint64_t offset;     /* Where it begins in the memory of the receive. */
    uint64_t length;     /* Its bytes there. */
    uint64_t total;      /* The bytes that it had. More than `length`: the rest was discarded. */
    uint32_t from;       /* The node that sent it. */
    uint32_t session;
    uint32_t channel;
    uint8_t kind;
    uint8_t released;    /* 1: the memory of the receive is the program's again. */
    uint8_t reserved;
    uint8_t user_header_length;
    uint8_t user_header[256];
} suci_match;

/* Posts a receive into `count` parts of memory, which are filled one after the other. With `least`
 * other than 0 it takes several messages, until fewer than `least` bytes are free. The memory
 * passes to the library if the call succeeds: neither read, change nor free it until
 * suci_match_wait() gave a result of the receive with `released`, suci_match_cancel() set
 * *cancelled, or the node was closed. Sets *receive to the number of the receive. Errors:
 * SUCI_E_ARGUMENT if `least` is more than the memory has. Blocks: no. Threads: node. */
int suci_match_post(suci_node node, const suci_match_pattern *pattern, const struct iovec *parts,
                    size_t count, uint64_t least, uint64_t *receive);

/* Waits until a receive, or any with SUCI_MATCH_ANY_RECEIVE, has a message, and takes that result.
 * Errors: SUCI_E_ENDED: the session with result->from ended, and the receive gets no message;
 * `receive` and `released` of *result are set then. SUCI_E_TIMED_OUT; SUCI_E_WOKEN. Blocks:
 * timeout. Threads: node. */
int suci_match_wait(suci_node node, uint64_t receive, suci_match *result, int64_t timeout);

/* Withdraws a receive. Sets *cancelled if nothing more is heard of it; otherwise a message came to
 * it, or is on its way to it, and suci_match_wait() tells. Blocks: no. Threads: node. */
int suci_match_cancel(suci_node node, uint64_t receive, bool *cancelled);

/* Waits for a message that the pattern admits and no receive has taken, and describes it:
 * `message`, `tag`, `total`, `from`, `session`, `channel`, `kind` and the header. It stays where it
 * is. Errors: SUCI_E_TIMED_OUT; SUCI_E_WOKEN. Blocks: timeout. Threads: node. */
int suci_match_peek(suci_node node, const suci_match_pattern *pattern, suci_match *result,
                    int64_t timeout);

/* As suci_match_peek(), and keeps the message from all receives but that of
 * suci_match_receive_claimed(). Errors: as suci_match_peek(). Blocks: timeout. Threads: node. */
int suci_match_claim(suci_node node, const suci_match_pattern *pattern, suci_match *result,
                     int64_t timeout);

/* Receives a message that was claimed, as suci_match_post() does. Errors: SUCI_E_NOT_WAITING: it
 * was received, or its session ended before it was complete. Blocks: no. Threads: node. */
int suci_match_receive_claimed(suci_node node, uint64_t message, const struct iovec *parts,
                               size_t count, uint64_t *receive);

/* Discards a message that was claimed. Errors: SUCI_E_NOT_WAITING. Blocks: no. Threads: node. */
int suci_match_discard(suci_node node, uint64_t message);

/* Tells how many messages no receive has taken, and the bytes that they count. Each result may be
 * null. Blocks: no. Threads: node. */
int suci_match_unexpected(suci_node node, uint64_t *messages, uint64_t *bytes);

/* ------------------------------------------------------------------------------------------------
 *  One-sided operations
 *
 *  A node opens regions of memory. Nodes that were told a region's name put bytes into it, get
 *  bytes from it, and change integers of it, without the program of the node. A threaded node
 *  serves them at once. A caller-driven node serves them in each of its calls, and by its helper
 *  if it made none for 100 ms.
 *
 *  Operations at one target take effect in the order of the calls, with one exception: bytes of a
 *  long put may become visible before those of an earlier one; suci_fence() prevents it. Those at
 *  several targets have no order. suci_put(), suci_put_signal() and suci_atomic() return before
 *  they took effect: suci_quiet() waits until all of the node did, and reports the first failure.
 *
 *  Numbers in regions have the byte order of the machine. An integer that is changed atomically
 *  begins at a multiple of its width.
 * --------------------------------------------------------------------------------------------- */

/* A region of a node of this process. */
typedef struct suci_region {
    uint64_t id;
} suci_region;

/* Names a region to other nodes, which can use it then. Send it as the 16 bytes that it has. */
typedef struct suci_remote_region {
    uint64_t key;        /* Random. */
    uint32_t node;       /* The node that has the region. */
    uint32_t region;     /* The region's number there. */
} suci_remote_region;

/* What others may do with a region; one at least. */
#define SUCI_REGION_READ 1u          /* suci_get() */
#define SUCI_REGION_WRITE 2u         /* suci_put() */
#define SUCI_REGION_ATOMIC 4u        /* suci_atomic(), suci_fetch_atomic(), signals */
/* Allocate on huge pages (2 MiB), as far as the system gives some. */
#define SUCI_REGION_HUGE_PAGES 8u

/* Allocates a region of `length` zero bytes. `flags` are SUCI_REGION_ bits. On huge pages all of
 * the memory is in use at once. Give it back by suci_region_free(). Errors: a system error if there
 * is no memory; SUCI_E_BUSY if the node has 65,536 regions. Blocks: no. Threads: node. */
int suci_region_allocate(suci_node node, size_t length, uint32_t flags, suci_region *region);

/* Opens `length` bytes of the program at `memory`, which must stay until suci_region_free()
 * returned. For atomic operations `memory` is a multiple of 8. Others change the bytes at any time:
 * meanwhile the program uses those that they use by atomic operations only, or at times that are
 * ordered with theirs by messages, signals or barriers. Errors: SUCI_E_BUSY if the node has 65,536
 * regions. Blocks: no. Threads: node. */
int suci_region_lend(suci_node node, void *memory, size_t length, uint32_t flags,
                     suci_region *region);

/* Gives the name of a region. Blocks: no. Threads: any. */
int suci_region_name(suci_region region, suci_remote_region *name);

/* Returns the memory of a region, or null if there is no such region. The memory of an allocated
 * one begins at a multiple of 16; use it as suci_region_lend() says. Blocks: no. Threads: any. */
void *suci_region_memory(suci_region region);

/* Sets *bytes to how many bytes of the region lie on huge pages now; 0 if the system does not tell.
 * Reads a list of the system that has all memory of the process, which may take milliseconds.
 * Blocks: no. Threads: any. */
int suci_region_huge_bytes(suci_region region, uint64_t *bytes);

/* Withdraws a region. When it returns, no operation touches the memory any more, and the memory of
 * an allocated region is gone. A region that is withdrawn during a long put may hold a part of it.
 * Regions are withdrawn before or after their node is freed. Blocks: microseconds, until an access
 * that goes on has ended. Threads: any. */
int suci_region_free(suci_region region);

/* How suci_region_wait() compares an integer with the value. */
enum suci_comparison {
    SUCI_COMPARE_EQUAL = 0,
    SUCI_COMPARE_NOT_EQUAL = 1,
    SUCI_COMPARE_GREATER = 2,
    SUCI_COMPARE_GREATER_OR_EQUAL = 3,
    SUCI_COMPARE_LESS = 4,
    SUCI_COMPARE_LESS_OR_EQUAL = 5
};

/* Waits until the integer of `width` bytes (4 or 8) at `offset` of a region of this node is equal
 * to `value`, or another comparison (enum suci_comparison) holds, both unsigned. Looks at once, and
 * again when operations of other nodes were applied, so the program's own changes end no wait.
 * suci_region_free() is SUCI_E_BUSY meanwhile. Errors: SUCI_E_TIMED_OUT, SUCI_E_WOKEN;
 * SUCI_E_OUT_OF_REGION. Blocks: timeout. Threads: node. */
int suci_region_wait(suci_node node, suci_region region, uint64_t offset, uint32_t width,
                     uint32_t comparison, uint64_t value, int64_t timeout);

/* Copies `length` bytes to `offset` of a region. Reads `data` during the call. Errors: SUCI_E_
 * QUEUE_FULL, _UNKNOWN_PEER, _SUSPENDED, _WOKEN; those of the target come from suci_quiet().
 * Blocks: timeout, while the queue to the target is full. Threads: node. */
int suci_put(suci_node node, const suci_remote_region *to, uint64_t offset, const void *data,
             size_t length, int64_t timeout);

/* Ways in which a signal changes its integer. */
enum suci_signal_update {
    SUCI_SIGNAL_SET = 0,          /* It becomes the value. */
    SUCI_SIGNAL_ADD = 1           /* The value is added. */
};

/* A 64-bit integer of a region that tells of a put. */
typedef struct suci_signal {
    uint64_t offset;     /* Its place in the region. */
    uint64_t value;      /* The value. */
    uint32_t update;     /* enum suci_signal_update. */
    uint32_t reserved;
} suci_signal;

/* As suci_put(), and changes an integer of the region once all bytes are there: a program that
 * waits for it finds them. Errors: as suci_put(). Blocks: timeout. Threads: node. */
int suci_put_signal(suci_node node, const suci_remote_region *to, uint64_t offset,
                    const void *data, size_t length, const suci_signal *signal, int64_t timeout);

/* Copies `length` bytes from `offset` of a region to `data`, whose content is unspecified if the
 * call fails. Errors: SUCI_E_TIMED_OUT, _UNKNOWN_PEER, _SUSPENDED, _WOKEN; SUCI_E_NO_REGION,
 * _NO_RIGHT, _OUT_OF_REGION; SUCI_E_ENDED if the session with the target ended. Blocks: timeout.
 * Threads: node. */
int suci_get(suci_node node, const suci_remote_region *from, uint64_t offset, void *data,
             size_t length, int64_t timeout);

/* Atomic operations on an integer, which becomes: */
enum suci_atomic_op {
    SUCI_ATOMIC_FETCH = 0,        /* what it was */
    SUCI_ATOMIC_SET = 1,          /* the operand */
    SUCI_ATOMIC_ADD = 2,          /* the sum, modulo 2^32 or 2^64 */
    SUCI_ATOMIC_AND = 3,
    SUCI_ATOMIC_OR = 4,
    SUCI_ATOMIC_XOR = 5,
    SUCI_ATOMIC_SWAP = 6,         /* the operand */
    SUCI_ATOMIC_COMPARE_SWAP = 7  /* the operand, if it was `expected` */
};

/* Applies an operation (enum suci_atomic_op, but COMPARE_SWAP) to the integer of `width` bytes (4
 * or 8) at `offset`. Errors: as suci_put(). Blocks: timeout, while the queue to the target is full.
 * Threads: node. */
int suci_atomic(suci_node node, const suci_remote_region *at, uint64_t offset, uint32_t width,
                uint32_t op, uint64_t operand, int64_t timeout);

/* As suci_atomic(), of all operations, and sets *before to the integer as it was. `expected` is
 * used by COMPARE_SWAP only. Errors: as suci_get(). Blocks: timeout. Threads: node. */
int suci_fetch_atomic(suci_node node, const suci_remote_region *at, uint64_t offset,
                      uint32_t width, uint32_t op, uint64_t operand, uint64_t expected,
                      uint64_t *before, int64_t timeout);

/* Orders operations at `target`: nothing of a later one becomes visible before all earlier ones
 * took effect. Sends nothing. Blocks: no. Threads: node. */
int suci_fence(suci_node node, uint32_t target);

/* Waits until all operations of the node took effect, also those of other threads that began
 * before. Errors: the first failure of an operation since the last call, as of suci_get();
 * SUCI_E_TIMED_OUT, SUCI_E_WOKEN. Blocks: timeout. Threads: node. */
int suci_quiet(suci_node node, int64_t timeout);

/* Consecutive bytes of a region. */
typedef struct suci_extent {
    uint64_t offset;
    uint64_t length;
} suci_extent;

/* Places of a region, whose bytes an operation takes in this order. Begin with {0}. */
typedef struct suci_layout {
    uint64_t offset;              /* Strided: the first byte of the first element, */
    uint64_t element;             /* bytes of each, */
    uint64_t stride;              /* bytes from the beginning of one to that of the next. */
    const suci_extent *extents;   /* Gathered: the places, and the three above do not matter. */
    uint32_t count;               /* Elements, 1 to 65,536; or extents, 1 to 12. */
    uint32_t reserved;
} suci_layout;

/* An independent user of a node's one-sided operations. Where a function takes a context, the null
 * handle stands for the node's own, which all functions without one use. */
typedef struct suci_context {
    uint64_t id;
} suci_context;

/* Opens a context, whose fence and quiet cover its operations alone and report their failures. A
 * node has up to 255. Errors: SUCI_E_BUSY: all are in use. Blocks: no. Threads: node. */
int suci_context_open(suci_node node, suci_context *context);

/* Closes a context. Operations that were begun and not waited for are given up; those without a
 * result are still applied. Returns SUCI_OK also if the node was freed before. Blocks: no. Threads:
 * node. */
int suci_context_free(suci_context context);

/* As suci_fence(), of the operations of a context. Blocks: no. Threads: node. */
int suci_context_fence(suci_node node, suci_context context, uint32_t target);

/* As suci_quiet(), of the operations of a context. Errors: as there. Blocks: timeout. Threads:
 * node. */
int suci_context_quiet(suci_node node, suci_context context, int64_t timeout);

/* As suci_put() or, if `signal` is not null, suci_put_signal(), to the places of a layout, which
 * have `length` bytes in all. Errors: as suci_put(). Blocks: timeout, while the queue to the target
 * is full. Threads: node. */
int suci_put_layout(suci_node node, suci_context context, const suci_remote_region *to,
                    const suci_layout *places, const void *data, size_t length,
                    const suci_signal *signal, int64_t timeout);

/* As suci_get(), from the places of a layout, which have `length` bytes in all. Errors: as
 * suci_get(). Blocks: timeout. Threads: node. */
int suci_get_layout(suci_node node, suci_context context, const suci_remote_region *from,
                    const suci_layout *places, void *data, size_t length, int64_t timeout);

/* An operation that was begun. */
typedef struct suci_operation {
    uint64_t id;
    uint32_t layer;
    uint32_t reserved;
} suci_operation;

/* Begins to copy the bytes at `places` of a region to the places `at` of the region `into` of this
 * process. They are there when suci_operation_wait() says so, or after a quiet; the result is to be
 * waited for also then. A node keeps up to 65,536 results. Errors: as suci_put(). Blocks: timeout,
 * while the queue to the target is full. Threads: node. */
int suci_begin_get(suci_node node, suci_context context, const suci_remote_region *from,
                   const suci_layout *places, suci_region into, const suci_layout *at,
                   suci_operation *operation, int64_t timeout);

/* Begins what suci_fetch_atomic() does: suci_operation_wait() gives the integer as it was. With a
 * null `operation` it does what suci_atomic() does, which needs no wait. Errors: as suci_put().
 * Blocks: timeout, while the queue to the target is full. Threads: node. */
int suci_begin_atomic(suci_node node, suci_context context, const suci_remote_region *at,
                      uint64_t offset, uint32_t width, uint32_t op, uint64_t operand,
                      uint64_t expected, suci_operation *operation, int64_t timeout);

/* Waits until an operation of this node that was begun is complete, once for each. *value, if not
 * null, becomes the integer as it was, or 0. A timeout of 0 tests. Errors: SUCI_E_TIMED_OUT,
 * SUCI_E_WOKEN: it goes on, wait again; SUCI_E_ARGUMENT: it was waited for before; as suci_get().
 * Blocks: timeout. Threads: node. */
int suci_operation_wait(suci_node node, const suci_operation *operation, uint64_t *value,
                        int64_t timeout);

/* ------------------------------------------------------------------------------------------------
 *  Groups
 *
 *  Collective operations of some nodes, the members of a group. Each member makes the group for
 *  itself, with the same number and the same list, and calls the same operations in the same order;
 *  other work may come in between. A member is named by its rank, its place in the list. A group
 *  has one operation at a time. Events and messages for the program wait meanwhile.
 *
 *  Each operation takes a `pending`. If it is null, the call waits for the end. Else the call only
 *  begins, and *pending becomes the operation: it goes on by itself, as suci_pending_test() and
 *  suci_pending_wait() tell. Memory for the result belongs to the operation until
 *  suci_pending_wait(), which fills it, or suci_pending_free() returned; other memory is copied.
 *  `timeout` is the time that the operation may take from its beginning on. An operation that takes
 *  longer fails at all members.
 *
 *  Errors of operations: SUCI_E_MEMBER: a member died, closed its node, or gave up, or this one is
 *   no member any more; SUCI_E_DIFFERENT: the calls of the members differ; suci_error_info.node is
 *   the member, and suci_last_error_message() says why. SUCI_E_TIMED_OUT, SUCI_E_WOKEN: this member
 *   gave up. After each of these only suci_group_agree() and suci_group_shrink() are of use.
 *   SUCI_E_EXCLUDED: the others go on without this member, or it was cut off from too many.
 *   SUCI_E_SUSPENDED, SUCI_E_BUSY: another call uses the group.
 * --------------------------------------------------------------------------------------------- */

/* A group, as this member has it. */
typedef struct suci_group {
    uint64_t id;
} suci_group;

/* An operation of a group that was begun. */
typedef struct suci_pending {
    uint64_t id;
} suci_pending;

/* Types of elements. They have the byte order of the machine, and go little-endian, so that members
 * may be of different kinds. */
enum suci_element {
    SUCI_I8 = 0,
    SUCI_I16 = 1,
    SUCI_I32 = 2,
    SUCI_I64 = 3,
    SUCI_U8 = 4,
    SUCI_U16 = 5,
    SUCI_U32 = 6,
    SUCI_U64 = 7,
    SUCI_F32 = 8, /* float */
    SUCI_F64 = 9  /* double */
};

/* How elements are combined. */
enum suci_combination {
    SUCI_SUM = 0,     /* Integers wrap around. */
    SUCI_PRODUCT = 1, /* Integers wrap around. */
    SUCI_MIN = 2,     /* The number, if the other is a NaN. */
    SUCI_MAX = 3,     /* The number, if the other is a NaN. */
    SUCI_AND = 4,     /* Bits of integers. */
    SUCI_OR = 5,
    SUCI_XOR = 6
};

/* A function of the program that combines two elements. `element` is their type, a value of enum
 * suci_element. `lower` comes from a member of lower rank, or from several, `higher` from those of
 * higher rank. The function writes *result and nothing else. It must be associative, and need not
 * be commutative. It runs inside the node, also on its I/O threads: it must call no function of
 * this library, and it must return. */
typedef void (*suci_combine)(const void *lower, const void *higher, void *result,
                             uint32_t element);

/* Sets *combination to a number that stands for `function` wherever a value of enum
 * suci_combination does. It holds as long as the process, as the function must; all calls with one
 * function get the same. Members cannot check that their functions do the same. Errors:
 * SUCI_E_BUSY: the process has 256 functions. Blocks: no. Threads: any. */
int suci_combination_new(suci_combine function, uint32_t *combination);

/* Makes a group of `count` nodes, of which `node` is one. `number`, below 2,097,152, tells groups
 * apart that have members in common. It may be used again after a group whose last operation
 * succeeded at all members, and never after one that failed. Errors: SUCI_E_UNKNOWN_PEER: a member
 * is not in the book. Blocks: I/O thread. Threads: node. */
int suci_group_new(suci_node node, uint32_t number, const uint32_t *members, size_t count,
                   suci_group *group);

/* Forgets a group; an operation under way still ends by itself. Nothing is sent for that. Blocks:
 * no. Threads: any. */
int suci_group_free(suci_group group);

/* Fills `members` with the members, at most `capacity`. *count becomes the number of all and *rank,
 * if not null, the rank of this one. `members` may be null if `capacity` is 0. Blocks: no. Threads:
 * any. */
int suci_group_members(suci_group group, uint32_t *members, size_t capacity, size_t *count,
                       uint32_t *rank);

/* From the next agreement on, silence counts as death, so that each part of a network that fell
 * apart goes on by itself. All members must say so. Blocks: no. Threads: any. */
int suci_group_let_parts_go_on(suci_group group, bool go_on);

/* Sets *over to whether an operation is over, well or not: suci_pending_wait() then returns at
 * once, with the result. Carries it on, on a caller-driven node. Blocks: no. Threads: node. */
int suci_pending_test(suci_node node, suci_pending pending, bool *over);

/* Waits until an operation is over, and returns its result; the handle is freed then. Errors: as
 * above. Blocks: the rest of the operation's timeout. Threads: node. */
int suci_pending_wait(suci_node node, suci_pending pending);

/* Drops the result of an operation. It still ends by itself, since other members need this one's
 * part. Blocks: no. Threads: any. */
int suci_pending_free(suci_pending pending);

/* Waits until all members have begun it. Errors: as above. Blocks: timeout. Threads: node. */
int suci_group_barrier(suci_node node, suci_group group, suci_pending *pending, int64_t timeout);

/* Copies the `count` elements of the member `root` to all others. All name the same root and count.
 * Errors: as above. Blocks: timeout. Threads: node. */
int suci_group_broadcast(suci_node node, suci_group group, uint32_t root, void *data, size_t count,
                         uint32_t element, suci_pending *pending, int64_t timeout);

/* Combines the elements at equal places of all members' data. The member `root` gets the result in
 * its data; those of others stay. All have the same count. Errors: as above. Blocks: timeout.
 * Threads: node. */
int suci_group_reduce(suci_node node, suci_group group, uint32_t root, void *data, size_t count,
                      uint32_t element, uint32_t combination, suci_pending *pending,
                      int64_t timeout);

/* As suci_group_reduce(), and all get the same result, to the last bit. Errors: as above. Blocks:
 * timeout. Threads: node. */
int suci_group_allreduce(suci_node node, suci_group group, void *data, size_t count,
                         uint32_t element, uint32_t combination, suci_pending *pending,
                         int64_t timeout);

/* Gives each member the combination of the data of all members up to itself. Errors: as above.
 * Blocks: timeout. Threads: node. */
int suci_group_scan(suci_node node, suci_group group, void *data, size_t count, uint32_t element,
                    uint32_t combination, suci_pending *pending, int64_t timeout);

/* Gives each member the combination of the data of all members before it. Those of member 0 stay.
 * Errors: as above. Blocks: timeout. Threads: node. */
int suci_group_exclusive_scan(suci_node node, suci_group group, void *data, size_t count,
                              uint32_t element, uint32_t combination, suci_pending *pending,
                              int64_t timeout);

/* Collects the `count` elements of each member in `into` at the member `root`, in the order of the
 * ranks; `room` is how many come there, and `into` does not matter at the others. `counts`, if not
 * null, names the count of each member; else all have the same. Errors: as above. Blocks: timeout.
 * Threads: node. */
int suci_group_gather(suci_node node, suci_group group, uint32_t root, const void *data,
                      size_t count, const size_t *counts, void *into, size_t room,
                      uint32_t element, suci_pending *pending, int64_t timeout);

/* Gives each member, in `into`, its `room` elements of the `count` ones of the member `root`, in
 * the order of the ranks; `data` does not matter at the others. `counts`, if not null, names the
 * room of each member; else all have the same. Errors: as above. Blocks: timeout. Threads: node. */
int suci_group_scatter(suci_node node, suci_group group, uint32_t root, const void *data,
                       size_t count, const size_t *counts, void *into, size_t room,
                       uint32_t element, suci_pending *pending, int64_t timeout);

/* As suci_group_gather(), at each member. Errors: as above. Blocks: timeout. Threads: node. */
int suci_group_allgather(suci_node node, suci_group group, const void *data, size_t count,
                         const size_t *counts, void *into, size_t room, uint32_t element,
                         suci_pending *pending, int64_t timeout);

/* Sends the i-th part of the `count` elements to member i, and puts the parts from the others in
 * `into`, `room` elements in the order of the ranks. `sent` and `received`, if not null, name the
 * lengths of the parts for and from each member; else all parts have the same. Errors: as above.
 * Blocks: timeout. Threads: node. */
int suci_group_all_to_all(suci_node node, suci_group group, const void *data, size_t count,
                          const size_t *sent, void *into, size_t room, const size_t *received,
                          uint32_t element, suci_pending *pending, int64_t timeout);

/* Agrees with the members that are left, also after a failure: *value becomes the bits that all of
 * their values have in common, `failed` takes the IDs of those that failed, at most `capacity`, and
 * *count, if not null, becomes the number of all of these. Errors: as above. Blocks: timeout.
 * Threads: node. */
int suci_group_agree(suci_node node, suci_group group, uint64_t *value, uint32_t *failed,
                     size_t capacity, size_t *count, suci_pending *pending, int64_t timeout);

/* Makes the group of the members that are left, which all of them get. The old one is over: free
 * it. Errors: as above. Blocks: timeout. Threads: node. */
int suci_group_shrink(suci_node node, suci_group group, suci_group *left, int64_t timeout);

/* ------------------------------------------------------------------------------------------------
 *  Membership
 *
 *  A node whose options name a `cluster` joins it through the nodes of its address book, its seeds,
 *  and learns of all other members, which then are peers. Without a seed it begins the cluster.
 *  Closing the node leaves it. SUCI_EVENT_MEMBER_JOINED and others tell of changes.
 * --------------------------------------------------------------------------------------------- */

/* A member of the cluster. */
typedef struct suci_member {
    uint32_t node;                /* Its ID. */
    uint8_t suspect;              /* Another member does not hear it: it counts as failed soon. */
    uint8_t reserved[3];
    uint64_t incarnation[2];      /* Its process: the upper and the lower half of a number. */
    char address[SUCI_ADDRESS_SIZE]; /* Where it listens. */
} suci_member;

/* Fills `members` with all members by ascending ID, this node among them, at most `capacity`.
 * *count becomes the number of all, also of those that did not fit. `members` may be null if
 * `capacity` is 0. Errors: SUCI_E_MISSING: the options named no cluster. Blocks: no. Threads:
 * node. */
int suci_members(suci_node node, suci_member *members, size_t capacity, size_t *count);

/* Waits until a seed told the members; returns at once without another seed. The node goes on
 * trying also after an error. Errors: SUCI_E_MISSING: the options named no cluster;
 * SUCI_E_TIMED_OUT: suci_last_error_message() says what is wrong with each seed; SUCI_E_WOKEN.
 * Blocks: timeout. Threads: node. */
int suci_wait_joined(suci_node node, int64_t timeout);

/* ------------------------------------------------------------------------------------------------
 *  One peer
 *
 *  No call waits for the peer. Each may return SUCI_E_UNKNOWN_PEER.
 * --------------------------------------------------------------------------------------------- */

/* Settings of one peer, for all its sessions and connections. */
typedef struct suci_peer_options {
    uint32_t size;                /* Set by suci_peer_options_init(). */
    uint32_t mode;                /* enum suci_mode of traffic to the peer. */
    uint32_t controller;          /* enum suci_controller. A changed one learns the path anew. */
    uint8_t priority_class;       /* 0 (lowest) to 7: packets of a higher class go first. */
    uint8_t priority_weight;      /* 1 to 255: the share within the class. */
    uint8_t keep_alive;           /* Notice its silence also while nothing waits for it. */
    uint8_t manual_retransmission; /* Lost messages go again only by suci_peer_retransmit(). */
    uint64_t controller_window;   /* Bytes in flight of SUCI_CONTROLLER_FIXED. */
    uint64_t rate_cap;            /* Bytes per second at most, or SUCI_NO_LIMIT. */
    int64_t silence_timeout;      /* Silence after which it is lost; at least 100 ms. */
    int64_t give_up_after;        /* Silence after which the session ends. */
} suci_peer_options;

/* Sets *options to the settings with which peers of a node with default options begin, for a
 * program that knows `size` bytes of the struct. C and C++ programs call suci_peer_options_init().
 * Errors: SUCI_E_SIZE. Blocks: no. Threads: any. */
int suci_peer_options_init_sized(suci_peer_options *options, size_t size);

static inline void suci_peer_options_init(suci_peer_options *options)
{
    (void)suci_peer_options_init_sized(options, sizeof *options);
}

/* Gives the peer's settings. Set options->size first, or init it. Errors: SUCI_E_SIZE. Blocks: I/O
 * thread. Threads: node. */
int suci_peer_get_options(suci_node node, uint32_t peer, suci_peer_options *options);

/* Sets the peer's settings. Begin with suci_peer_get_options() and change what should be different.
 * Errors: SUCI_E_SIZE, SUCI_E_CONFIG; nothing changes then. Blocks: I/O thread. Threads: node. */
int suci_peer_set_options(suci_node node, uint32_t peer, const suci_peer_options *options);

/* Sets how urgent a channel is beside others of the peer, in both directions: class 0 to 7, weight
 * 1 to 255. The priority of other channels is class 3, weight 16. Errors: SUCI_E_CHANNELS,
 * SUCI_E_RESERVED_CHANNEL. Blocks: I/O thread. Threads: node. */
int suci_peer_set_channel_priority(suci_node node, uint32_t peer, uint32_t channel,
                                   uint8_t priority_class, uint8_t priority_weight);

/* The program's own limits on the traffic to a peer, beside those of network and receiver. */
typedef struct suci_limits {
    uint64_t window;              /* Bytes in flight at most; 0 pauses messages; SUCI_NO_LIMIT. */
    uint64_t pace;                /* Bytes per second at most, or SUCI_NO_LIMIT. */
    int64_t ack_interval;         /* Longest time that acknowledgements to the peer wait; negative:
                                     as the library decides. */
} suci_limits;

/* Sets the limits that the program decided, in place of those before. A thread or a timer of the
 * program reads suci_peer_get_stats(), decides, and calls this. Null removes the limits. They
 * survive connections. Blocks: I/O thread. Threads: node. */
int suci_peer_steer(suci_node node, uint32_t peer, const suci_limits *limits);

/* Opens a connection before there is anything to send. Blocks: I/O thread. Threads: node. */
int suci_peer_connect(suci_node node, uint32_t peer);

/* Holds back all messages to and from the peer until suci_peer_resume(). What was accepted is kept
 * and flows afterwards; meanwhile sending fails on both sides with SUCI_E_SUSPENDED. The peer's
 * program gets SUCI_EVENT_SUSPENDED. The suspension ends with the session, too. Blocks: I/O thread.
 * Threads: node. */
int suci_peer_suspend(suci_node node, uint32_t peer);

/* Undoes suci_peer_suspend(). Messages flow unless the peer suspended, too. Blocks: I/O thread.
 * Threads: node. */
int suci_peer_resume(suci_node node, uint32_t peer);

/* Finishes `channel`: nothing more is sent on it. When all its messages are acknowledged the peer's
 * program gets SUCI_EVENT_CHANNEL_FINISHED, and both sides forget the channel; its number cannot be
 * used again in this session. *finished, if not null, becomes true, or false if the channel was
 * finished before or the session is closing. Errors: SUCI_E_CHANNELS, SUCI_E_RESERVED_CHANNEL.
 * Blocks: I/O thread. Threads: node. */
int suci_peer_finish_channel(suci_node node, uint32_t peer, uint32_t channel, bool *finished);

/* Takes back those messages on `channel` that have this cookie and of which nothing was sent yet.
 * *count, if not null, becomes their number. For each that has SUCI_SEND_NOTIFY,
 * SUCI_EVENT_NOT_DELIVERED comes with the reason SUCI_CANCELLED. Blocks: I/O thread. Threads:
 * node. */
int suci_peer_cancel(suci_node node, uint32_t peer, uint32_t channel, uint64_t cookie,
                     uint64_t *count);

/* Sends everything again that is not acknowledged: for peers with manual_retransmission. Blocks:
 * I/O thread. Threads: node. */
int suci_peer_retransmit(suci_node node, uint32_t peer);

/* Closes the session: waits in the background until the peer has everything, for at most
 * `patience`, then tells it. *had_session, if not null, becomes whether there is a session. If so,
 * SUCI_EVENT_ENDED follows. Blocks: I/O thread. Threads: node. */
int suci_peer_close(suci_node node, uint32_t peer, int64_t patience, bool *had_session);

/* Ends the session at once, whatever was not delivered. *had_session is as in suci_peer_close().
 * Blocks: I/O thread. Threads: node. */
int suci_peer_reset(suci_node node, uint32_t peer, bool *had_session);

/* Gives the number of messages accepted and not yet acknowledged, and their bytes of payload and
 * header. Either pointer may be null. Blocks: no. Threads: node. */
int suci_peer_queue(suci_node node, uint32_t peer, uint64_t *messages, uint64_t *bytes);

/* Gives how many messages of `channel`, counted without a gap from the first of this session, are
 * done: the peer's library holds them, its program refused them, or this one took them back. 0 for
 * an unknown peer. Blocks: I/O thread. Threads: node. */
int suci_peer_delivered(suci_node node, uint32_t peer, uint32_t channel, uint64_t *messages);

/* Gives the bytes that the peer would take now as one message on `channel`, if nothing were queued
 * before it. 0 while it is not up, and for an unknown peer. Blocks: I/O thread. Threads: node. */
int suci_peer_remote_window(suci_node node, uint32_t peer, uint32_t channel, uint64_t *bytes);

/* Gives the name of the congestion controller that decides now, as "lan"; "" without a connection
 * and for an unknown peer. `size` and `length` are as for the book. Blocks: I/O thread. Threads:
 * node. */
int suci_peer_controller(suci_node node, uint32_t peer, char *text, size_t size, size_t *length);

/* Why messages wait. */
enum suci_wait_reason {
    SUCI_WAITS_FOR_LINK = 0,          /* No connection yet, or the peer is silent. */
    SUCI_WAITS_FOR_RESUME = 1,        /* One side suspended the session. */
    SUCI_WAITS_FOR_CONGESTION = 2,    /* The congestion window is full. */
    SUCI_WAITS_FOR_PACING = 3,        /* The pacer spreads packets over time. */
    SUCI_WAITS_FOR_SOCKET_CREDIT = 4, /* The receiver's socket buffer has no more room. */
    SUCI_WAITS_FOR_SESSION_MEMORY = 5, /* The receiver's program left too many messages untaken. */
    SUCI_WAITS_FOR_CHANNEL_MEMORY = 6, /* The same on one channel. */
    SUCI_WAITS_FOR_ANSWER = 7,        /* A large message asked first. */
    SUCI_WAITS_FOR_STEERING = 8,      /* suci_peer_steer() holds messages back. */
    SUCI_WAITS_FOR_CAP = 9,           /* The rate cap. */
    SUCI_WAITS_FOR_SOCKET = 10,       /* The socket of this node took no more. */
    SUCI_WAITS_FOR_NOTHING = 255
};
#define SUCI_WAIT_REASONS 11

/* Returns the name of a reason, as "socket_credit"; "" for others. Static memory. Threads: any. */
const char *suci_wait_reason_name(uint32_t reason);

/* How long and how often messages waited for one reason. */
typedef struct suci_waited {
    uint64_t nanoseconds;
    uint64_t times;
} suci_waited;

/* State and counters of a peer. Counters only rise. */
typedef struct suci_peer_stats {
    uint32_t size;                /* Set to sizeof before the call. */
    uint32_t node;
    uint32_t link;                /* enum suci_link. */
    uint32_t mode;                /* enum suci_mode of traffic to the peer, chosen or derived. */
    uint32_t remote_mode;         /* enum suci_mode of the peer's traffic, as announced. */
    uint32_t mtu;                 /* UDP payload per packet on the path. */
    uint32_t waiting;             /* enum suci_wait_reason for which messages wait now. */
    uint8_t suspended_here;       /* This side suspended the session. */
    uint8_t suspended_there;      /* The peer did, as far as is known. */
    uint8_t marks_stopped;        /* ECN is not used because the path seems to break it. */
    uint8_t reserved;
    char address[SUCI_ADDRESS_SIZE]; /* "" if none is known. */
    int64_t rtt;                  /* Smoothed round-trip time of the path. */
    int64_t min_rtt;              /* The smallest seen; 0 before any was. */
    int64_t rtt_variance;         /* Mean deviation from the smoothed one. */
    uint64_t congestion_window;   /* Bytes. */
    uint64_t in_flight;           /* Bytes. */
    uint64_t socket_credit;       /* Packets that the peer still lets this node send. */
    uint64_t queued_messages;     /* Messages accepted and not yet acknowledged, */
    uint64_t queued_bytes;        /* and their bytes. */
    uint64_t packets_sent;        /* Without handshake packets. */
    uint64_t bytes_sent;          /* UDP payload of them. */
    uint64_t packets_received;    /* Without duplicates and handshake packets. */
    uint64_t bytes_received;      /* UDP payload of them. */
    uint64_t messages_sent;       /* Messages accepted from the program, */
    uint64_t message_bytes_sent;  /* and their payload in bytes. */
    uint64_t messages_received;   /* Messages handed to the program, */
    uint64_t message_bytes_received; /* and their payload in bytes. */
    uint64_t bytes_resent;        /* Payload bytes sent again. */
    uint64_t acks_sent;           /* Packets that carried an acknowledgement. */
    uint64_t packets_lost;        /* Packets declared lost. */
    uint64_t spurious_losses;     /* Of them, those that arrived after all. */
    uint64_t probes;              /* Probes because no acknowledgement came in time. */
    uint64_t duplicates;          /* Packets dropped because they were received before. */
    suci_waited waits[SUCI_WAIT_REASONS]; /* By enum suci_wait_reason. */
} suci_peer_stats;

/* Gives what is known about the peer now. Set stats->size first. Errors: SUCI_E_SIZE. Blocks: I/O
 * thread. Threads: node. */
int suci_peer_get_stats(suci_node node, uint32_t peer, suci_peer_stats *stats);

/* ------------------------------------------------------------------------------------------------
 *  Numbers of the node
 * --------------------------------------------------------------------------------------------- */

/* Counters of a node since it was opened. */
typedef struct suci_counters {
    uint32_t size;                /* Set to sizeof before the call. */
    uint32_t reserved;
    uint64_t datagrams_in;        /* Datagrams received, */
    uint64_t bytes_in;            /* and their bytes. */
    uint64_t packets_out;         /* Packets handed to the network, */
    uint64_t bytes_out;           /* and their bytes. */
    uint64_t trains_out;          /* Gathered sends handed to the network. */
    uint64_t messages_sent;       /* Messages accepted from the program. */
    uint64_t messages_received;   /* Messages handed to the program. */
    uint64_t malformed;           /* Dropped: too short, or of unknown type, flags or path. */
    uint64_t wrong_version;       /* Dropped: another protocol version. */
    uint64_t bad_checksum;        /* Dropped: CRC32C or AEAD tag did not match. */
    uint64_t unknown_connection;  /* Dropped: no such connection, or the wrong tag. */
    uint64_t duplicates;          /* Dropped: seen before, or too old to tell. */
    uint64_t handshake_rejected;  /* Handshake packets that did not fit state, cookie or cap. */
    uint64_t hello_unanswered;    /* HELLOs that found no room when they came. */
    uint64_t unknown_sent;        /* UNKNOWN hints sent. */
    uint64_t protocol_errors;     /* Peers closed because they broke the protocol. */
    uint64_t packets_lost;        /* Packets declared lost. */
    uint64_t spurious_losses;     /* Of them, those that arrived after all. */
    uint64_t probes;              /* Probes because no acknowledgement came in time. */
    uint64_t socket_full;         /* Trains that the socket did not take at once. */
    uint64_t too_big;             /* Sends refused because the datagram was too big. */
    uint64_t unreachable;         /* Reports that a destination was unreachable. */
    uint64_t payload_copied;      /* Payload bytes copied on the sending side. */
    uint64_t overcharged;         /* Times that the socket held more than its grants explain. */
    uint64_t suspensions;         /* Suspensions that began or ended, by either side. */
    uint64_t gaps;                /* Times that the node was served late (program busy). */
    uint64_t misdirected;         /* Datagrams forwarded to another thread. */
    uint64_t misdirected_dropped; /* Of them, those dropped there. */
    uint64_t late_replies;        /* Replies dropped because no call waited for them. */
} suci_counters;

/* Counters of a node's sockets since it was opened. */
typedef struct suci_socket_counters {
    uint32_t size;                /* Set to sizeof before the call. */
    uint32_t reserved;
    uint64_t send_calls;          /* System calls that tried to send, */
    uint64_t recv_calls;          /* to receive, */
    uint64_t wait_calls;          /* and that waited. */
    uint64_t datagrams_sent;      /* Each segment of a train counts. */
    uint64_t datagrams_received;
    uint64_t bytes_sent;          /* UDP payload. */
    uint64_t bytes_received;
    uint64_t trains_sent;         /* Sends of more than one segment. */
    uint64_t trains_received;     /* Receives of more than one datagram. */
    uint64_t truncated;           /* Datagrams longer than recv_slot. */
    uint64_t recv_drops;          /* Datagrams that the kernel dropped; 32 bits, which wrap. */
    uint64_t recv_charged;        /* Bytes charged to the receive buffer when last asked, */
    uint64_t recv_charged_max;    /* and the most ever. */
    uint64_t again;               /* Sends that found the socket full, */
    uint64_t too_big;             /* too small a route, */
    uint64_t gso_refused;         /* no segmentation offload, */
    uint64_t unreachable;         /* no way to the destination. */
    uint64_t recv_errors;         /* Errors that the network reported to receives. */
    uint64_t fault_packets;       /* Packets that the `faults` of the options saw, */
    uint64_t fault_lost;          /* dropped, */
    uint64_t fault_doubled;       /* doubled, */
    uint64_t fault_reordered;     /* held back, */
    uint64_t fault_corrupted;     /* damaged, */
    uint64_t fault_delayed;       /* delayed, */
    uint64_t fault_discarded;     /* and lost because they held too many. */
} suci_socket_counters;

/* Gives the node's counters. Set counters->size first. Errors: SUCI_E_SIZE. Blocks: I/O thread.
 * Threads: node. */
int suci_node_counters(suci_node node, suci_counters *counters);

/* Gives the counters of the node's sockets. Set counters->size first. Errors: SUCI_E_SIZE. Blocks:
 * I/O thread. Threads: node. */
int suci_node_socket_counters(suci_node node, suci_socket_counters *counters);

/* Gives the counters of the I/O thread with the index `thread`, from 0, and of its socket; either
 * may be null. Errors: SUCI_E_SIZE; SUCI_E_NOT_FOUND: there is no such thread; SUCI_E_NODE_KIND on
 * a caller-driven node. Blocks: I/O thread. Threads: node. */
int suci_node_thread_counters(suci_node node, uint32_t thread, suci_counters *counters,
                              suci_socket_counters *socket);

/* How the receive buffer of one socket is shared out. */
typedef struct suci_share_stats {
    uint32_t size;                /* Set to sizeof before the call. */
    uint32_t reserved;
    uint64_t peers;               /* Peers that hold a grant. */
    uint64_t unsatisfied;         /* Peers that use up their share. */
    uint64_t dormant;             /* Peers that have to ask before they send data. */
    uint64_t waiting;             /* Peers that asked and wait. */
    uint64_t granted;             /* Bytes granted, as the kernel charges them. */
    uint64_t beyond;              /* Bytes granted beyond the buffer, which long paths hold. */
    uint64_t free_bytes;          /* Bytes for data that are granted to nobody. */
    double jain;                  /* How evenly the unsatisfied peers share (Jain's index): 1, or
                                     1/n if one of n has all. */
} suci_share_stats;

/* Gives how the receive buffer of the socket of I/O thread `thread` is shared out (0 on a
 * caller-driven node). Set stats->size first. Errors: SUCI_E_SIZE; SUCI_E_NOT_FOUND. Blocks: I/O
 * thread. Threads: node. */
int suci_node_share_stats(suci_node node, uint32_t thread, suci_share_stats *stats);

/* ------------------------------------------------------------------------------------------------
 *  Log and environment
 * --------------------------------------------------------------------------------------------- */

/* Writes the log of all nodes to the descriptor `fd` from now on: how connections come up and end,
 * refusals and dropped packets with the reason; one line of text each, as
 * "suci DEBUG peer lost node=1 peer=0 ...". -1 ends the log. At most 1,000 lines per second and
 * node. The descriptor stays the program's: end the log before closing it. Where it would block, as
 * a full pipe, or has no reader any more, lines are left out. Errors: SUCI_E_LOG_TAKEN. Blocks: no.
 * Threads: any. */
int suci_log_to(int fd);

/* Gives the node ID that `suci run` gave to this process (SUCI_ID), or its rank under another
 * launcher. Errors: SUCI_E_NOT_FOUND: there is none; SUCI_E_ENVIRONMENT. Blocks: until the launcher
 * answers, if it must be asked. Threads: any. */
int suci_env_id(uint32_t *id);

/* Gives the number of processes that `suci run` (SUCI_SIZE) or another launcher started. Errors and
 * blocks: as suci_env_id(). Threads: any. */
int suci_env_size(uint32_t *count);

/* ------------------------------------------------------------------------------------------------
 *  Which function does what a method of the Rust interface does
 *
 *  `Node::x` stands for `SharedNode::x`, too. A word after "options." is a field. A test compares
 *  this table with both interfaces.
 *
 *  Rust                               C
 *  --------------------------------   ------------------------------------------------------------
 *  AddressBook::new                   suci_book_new
 *  AddressBook::read                  suci_book_read
 *  AddressBook::parse                 suci_book_parse
 *  AddressBook::add                   suci_book_add
 *  AddressBook::add_route             suci_book_parse, with a line "7 via 3"
 *  AddressBook::get                   suci_book_address, index 0
 *  AddressBook::route                 suci_book_text
 *  AddressBook::addresses             suci_book_address
 *  AddressBook::iter                  suci_book_entry
 *  AddressBook::len                   suci_book_count
 *  AddressBook::is_empty              suci_book_count
 *  AddressBook::fmt                   suci_book_text
 *  drop(AddressBook)                  suci_book_free
 *
 *  Node::builder                      suci_node_options_init, suci_node_options_init_sized
 *  Node::from_env                     suci_node_open with null options
 *  NodeBuilder::open                  suci_node_open, options.threads = 0
 *  NodeBuilder::open_threads          suci_node_open, options.threads
 *  NodeBuilder::id                    options.id
 *  NodeBuilder::listen                options.listen
 *  NodeBuilder::book                  options.book
 *  NodeBuilder::book_file             options.book_file
 *  NodeBuilder::accept                options.accept
 *  NodeBuilder::allow_insecure_network  options.allow_insecure_network
 *  NodeBuilder::cluster_key           options.key_file
 *  NodeBuilder::key_file              options.key_file
 *  NodeBuilder::node_keys             options.node_key_file, options.public_keys_file
 *  NodeBuilder::node_key_files        options.node_key_file, options.public_keys_file
 *  NodeBuilder::memory                options.memory
 *  NodeBuilder::max_message           options.max_message
 *  NodeBuilder::send_queue            options.send_queue
 *  NodeBuilder::rts_threshold         options.rts_threshold
 *  NodeBuilder::max_peers             options.max_peers
 *  NodeBuilder::silence_timeout       options.silence_timeout
 *  NodeBuilder::give_up_after         options.give_up_after
 *  NodeBuilder::payload_checksum      options.payload_checksum
 *  NodeBuilder::unattended            options.unattended
 *  NodeBuilder::ignore_supervision    options.ignore_supervision
 *  NodeBuilder::mode                  options.mode
 *  NodeBuilder::keep_alive            options.keep_alive
 *  NodeBuilder::controller            options.controller
 *  NodeBuilder::rate_cap              options.rate_cap
 *  NodeBuilder::faults                options.faults
 *  NodeBuilder::backend               the variable SUCI_BACKEND
 *  NodeBuilder::wait                  options.wait
 *  NodeBuilder::statistics            options.statistics
 *  NodeBuilder::metrics               options.metrics
 *  NodeBuilder::shared_memory         the variable SUCI_SHARED_MEMORY
 *  NodeBuilder::membership            options.cluster
 *  NodeBuilder::forward               none yet: forwarders are in Rust
 *  NodeBuilder::config                options.max_ack_delay, options.max_datagram, options.ecn
 *  NodeBuilder::udp                   options.recv_buffer, options.send_buffer, options.recv_slot,
 *                                     options.gso, options.gro, options.reuse_port,
 *                                     options.only_v6
 *  Node::close                        suci_node_close
 *  drop(Node)                         suci_node_free
 *  Node::abandon                      suci_node_free in the child of a fork
 *  Node::id                           suci_node_id
 *  Node::local_addr                   suci_node_address
 *  SharedNode::threads                suci_node_threads
 *  Node::peer_limit                   suci_node_peer_limit
 *  Node::warning                      suci_node_warning
 *  Node::as_raw_fd                    suci_node_fd
 *  Node::as_fd                        suci_node_fd
 *  Node::poll                         suci_poll
 *  Node::waker                        suci_wake
 *  Waker::wake                        suci_wake
 *  Waker::take                        suci_recv and others, with a time limit of 0
 *  SharedNode::woken_async            suci_wake, which ends any call that waits
 *
 *  Node::add_peer                     suci_add_peer
 *  Node::remove_peer                  suci_remove_peer
 *  Node::peers                        suci_peers
 *  Node::set_keys                     none: the node notices that options.key_file changed
 *  Node::set_node_keys                none: the node notices that its files changed
 *
 *  Node::send                         suci_sendv
 *  Node::send_copy                    suci_send
 *  Node::send_timeout                 suci_sendv, timeout
 *  Node::batch                        suci_send_batch, suci_send_many
 *  Batch::send                        suci_send_batch
 *  Batch::send_copy                   suci_send_many
 *  Node::broadcast                    suci_broadcast
 *  Node::flush                        suci_flush
 *  OutgoingMessage::new               suci_send_options_init, suci_send_options_init_sized
 *  OutgoingMessage::channel           options.channel
 *  OutgoingMessage::tag               options.tag
 *  OutgoingMessage::matched           options.flags, SUCI_SEND_MATCHED, and options.channel
 *  OutgoingMessage::kind              options.kind
 *  OutgoingMessage::user_header       options.user_header
 *  OutgoingMessage::notify            options.flags, SUCI_SEND_NOTIFY
 *  OutgoingMessage::token             options.cookie
 *  OutgoingMessage::deadline          options.deadline
 *  OutgoingMessage::into_payload      none: a payload that was not accepted stays the program's
 *
 *  Node::recv                         suci_recv
 *  Node::recv_timeout                 suci_recv, timeout
 *  Node::try_recv                     suci_recv, timeout 0
 *  Node::recv_many                    suci_recv_many
 *  Node::recv_into                    suci_recv_copy
 *  Node::recv_from                    suci_recv_from
 *  Node::recv_from_timeout            suci_recv_from, timeout
 *  Node::try_recv_from                suci_recv_from, timeout 0
 *  drop(Message)                      suci_message_release, suci_message_release_many
 *  Message::is_request                message.is_request
 *  Message::reply                     suci_reply
 *  Node::call                         suci_call
 *  Node::accept                       suci_accept
 *  Node::accept_into                  suci_accept_into
 *  ReceiveBuffer::from_owner          suci_accept_into
 *  Node::refuse                       suci_refuse
 *
 *  Node::next                         suci_next
 *  Node::next_timeout                 suci_next, timeout
 *  Node::try_next                     suci_next, timeout 0
 *  Next::into_message                 item.message
 *  drop(Next)                         suci_item_release
 *  Node::next_event                   suci_next_event, timeout 0
 *  Node::event_timeout                suci_next_event, timeout
 *  Node::events                       suci_next_event until SUCI_E_TIMED_OUT
 *  drop(Event)                        suci_event_release
 *
 *  SharedNode::send_async             suci_sendv, timeout 0, SUCI_EVENT_WRITABLE, suci_node_fd
 *  SharedNode::call_async             none: suci_call in a thread, or messages with tags
 *  SharedNode::recv_async             suci_recv, timeout 0, suci_node_fd
 *  SharedNode::recv_from_async        suci_recv_from, timeout 0, suci_node_fd
 *  SharedNode::next_async             suci_next, timeout 0, suci_node_fd
 *  SharedNode::event_async            suci_next_event, timeout 0, suci_node_fd
 *  SharedNode::flush_async            suci_flush in a thread, or SUCI_SEND_NOTIFY
 *  SharedNode::close_async            suci_node_close in a thread
 *  SharedNode::wait_until_async       suci_region_wait in a thread
 *
 *  Node::allocate_region              suci_region_allocate
 *  Node::allocate_region_on_huge_pages  suci_region_allocate, SUCI_REGION_HUGE_PAGES
 *  Node::lend_region                  suci_region_lend
 *  Region::handle                     suci_region_name
 *  Region::as_ptr                     suci_region_memory
 *  Region::bytes_on_huge_pages        suci_region_huge_bytes
 *  Region::is_shared                  none
 *  drop(Region)                       suci_region_free
 *  Node::remote                       the functions below
 *  Node::wait_until                   suci_region_wait
 *  Node::matching                     the functions below
 *  Matching::send                     suci_sendv with SUCI_SEND_MATCHED
 *  Matching::receive                  suci_match_post, suci_match_wait
 *  Matching::scope                    none: the program keeps the memory
 *  Matching::post_raw                 suci_match_post
 *  Matching::completion_of            suci_match_wait
 *  Matching::next_completion          suci_match_wait with SUCI_MATCH_ANY_RECEIVE
 *  Matching::cancel                   suci_match_cancel
 *  Matching::peek                     suci_match_peek
 *  Matching::claim                    suci_match_claim
 *  Matching::receive_claimed_raw      suci_match_receive_claimed
 *  Matching::discard                  suci_match_discard
 *  Matching::unexpected               suci_match_unexpected
 *  Remote::put                        suci_put
 *  Remote::put_signal                 suci_put_signal
 *  Remote::get                        suci_get
 *  Remote::atomic                     suci_atomic
 *  Remote::fetch_atomic               suci_fetch_atomic
 *  Remote::fence                      suci_fence
 *  Remote::quiet                      suci_quiet
 *  Remote::put_slice                  suci_put, suci_put_signal
 *  Remote::map                        none yet
 *  Remote::put_async                  suci_put, timeout 0
 *  Remote::get_async                  suci_begin_get, suci_operation_wait, timeout 0
 *  Remote::atomic_async               suci_atomic, timeout 0
 *  Remote::fetch_atomic_async         suci_begin_atomic, suci_operation_wait, timeout 0
 *  Remote::wait_async                 suci_operation_wait, timeout 0
 *  Remote::quiet_async                suci_quiet in a thread
 *  Layout::strided                    the argument `places`
 *  Layout::extents                    the argument `places`, extents
 *  Remote::put_layout                 suci_put_layout
 *  Remote::get_layout                 suci_get_layout
 *  Remote::begin_get                  suci_begin_get
 *  Remote::begin_fetch_atomic         suci_begin_atomic
 *  Remote::wait                       suci_operation_wait
 *  Remote::test                       suci_operation_wait, timeout 0
 *  Remote::context                    suci_context_open
 *  drop(RemoteContext)                suci_context_free
 *  RemoteContext::fence               suci_context_fence
 *  RemoteContext::quiet               suci_context_quiet
 *
 *  Group::new                         suci_group_new
 *  drop(Group)                        suci_group_free
 *  Group::members                     suci_group_members
 *  Group::rank                        suci_group_members
 *  Group::size                        suci_group_members
 *  Group::set_limit                   the argument `timeout`
 *  Group::barrier                     suci_group_barrier
 *  Group::broadcast                   suci_group_broadcast
 *  Group::reduce                      suci_group_reduce
 *  Group::allreduce                   suci_group_allreduce
 *  Group::scan                        suci_group_scan
 *  Group::exclusive_scan              suci_group_exclusive_scan
 *  Group::gather                      suci_group_gather
 *  Group::gatherv                     suci_group_gather, with counts
 *  Group::scatter                     suci_group_scatter
 *  Group::scatterv                    suci_group_scatter, with counts
 *  Group::allgather                   suci_group_allgather
 *  Group::allgatherv                  suci_group_allgather, with counts
 *  Group::all_to_all                  suci_group_all_to_all
 *  Group::all_to_allv                 suci_group_all_to_all, with counts
 *  Group::begin_barrier               the argument `pending`, as for all other operations
 *  Group::agree                       suci_group_agree
 *  Group::shrink                      suci_group_shrink
 *  Group::let_parts_go_on             suci_group_let_parts_go_on
 *  Pending::test                      suci_pending_test
 *  Pending::wait                      suci_pending_wait
 *  Pending::wait_async                suci_pending_test
 *  drop(Pending)                      suci_pending_free
 *  Custom                             suci_combination_new
 *
 *  Node::members                      suci_members
 *  Node::wait_joined                  suci_wait_joined
 *  Node::membership_counters          none: for Rust
 *  Membership::suspicion              none: for Rust, as other settings of Membership
 *
 *  SharedNode::sockets                cdp.h
 *
 *  Node::peer                         the argument `peer`
 *  Peer::id                           the argument `peer`
 *  PeerOptions::new                   suci_peer_options_init, suci_peer_options_init_sized
 *  Peer::options                      suci_peer_get_options
 *  Peer::set_options                  suci_peer_set_options
 *  Peer::configure                    suci_peer_get_options, suci_peer_set_options
 *  Peer::set_channel_priority         suci_peer_set_channel_priority
 *  Peer::steer                        suci_peer_steer: decisions as plain data, no callback
 *  Peer::unsteer                      suci_peer_steer with null limits
 *  Peer::connect                      suci_peer_connect
 *  Peer::suspend                      suci_peer_suspend
 *  Peer::resume                       suci_peer_resume
 *  Peer::finish_channel               suci_peer_finish_channel
 *  Peer::cancel                       suci_peer_cancel
 *  Peer::retransmit                   suci_peer_retransmit
 *  Peer::stats                        suci_peer_get_stats
 *  Peer::controller                   suci_peer_controller
 *  Peer::queue_len                    suci_peer_queue
 *  Peer::delivered                    suci_peer_delivered
 *  Peer::remote_window                suci_peer_remote_window
 *  Peer::close                        suci_peer_close
 *  Peer::reset                        suci_peer_reset
 *
 *  Node::counters                     suci_node_counters
 *  Node::socket_counters              suci_node_socket_counters
 *  SharedNode::thread_counters        suci_node_thread_counters
 *  Node::share_stats                  suci_node_share_stats
 *  WaitReason::name                   suci_wait_reason_name
 *  tracing::subscriber                suci_log_to
 *  env::id                            suci_env_id
 *  env::size                          suci_env_size
 *  env::notice                        none: only a launcher writes notices
 *  env::supervision                   none: likewise
 *  env::launchers                     none: `suci env` prints it
 *  statistics::find                   none: docs/statistics.md describes the files of other
 *                                     processes for programs in any language; also Found::open,
 *                                     StatFile::open, StatFile::pid, StatFile::node,
 *                                     StatFile::may_live, StatFile::prefer, StatFile::read
 *  Error::fmt                         suci_last_error_message, suci_last_error_info,
 *                                     suci_last_error_unflushed, suci_strerror
 *  Error::is_would_block              SUCI_E_QUEUE_FULL
 *  suci::VERSION                      suci_version, suci_version_number
 * --------------------------------------------------------------------------------------------- */

#ifdef __cplusplus
}
#endif

#endif /* SUCI_SUCI_H */
