/*
 * suci4pl.h - what the parts of the foreign module of library(suci) share.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The module knows the library by suci.h alone. Every predicate that may wait does so in slices,
 * between which it lets Prolog handle signals: see wait.c.
 */

#ifndef SUCI4PL_H
#define SUCI4PL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <SWI-Stream.h>
#include <SWI-Prolog.h>

#include <suci/suci.h>

/* Other modules of the process may have functions of the same names. */
#pragma GCC visibility push(hidden)

/* ---- Nodes (node.c) ------------------------------------------------------------------------- */

/* A packet of datagram_packet_put/3 that waits for datagram_ready/3. */
struct queued {
    atom_t packet;           /* The blob, registered. */
    uint32_t to;
};

/* A node as Prolog holds it: the content of a blob. */
struct node {
    suci_node handle;
    pthread_mutex_t mutex;   /* Guards the fields below. */
    pthread_cond_t left;     /* A call has left the node. */
    unsigned users;          /* Calls inside. */
    bool closed;             /* No call may enter. */
    bool freed;              /* The handle was given back. */
    bool orphan;             /* Prolog holds the blob no more: the last user frees this struct. */
    struct node *next;       /* In the list of all nodes. */
    /* Set once, before Prolog sees the node. */
    uint32_t id;
    bool trust;              /* Peers may send terms in the format of fast_write/2. */
    /* Of the classic interface; guarded by `mutex`, too. */
    bool has_destination;
    uint32_t destination;
    struct queued *queue;
    size_t queued, queue_room;
};

/* Gives the node of the blob `t` and counts a call inside; end it by node_leave(). On failure it
 * raises type_error or existence_error and returns NULL. */
struct node *node_enter(term_t t);
void node_leave(struct node *node);
/* As node_enter(), for a second call that begins before the first has left. */
void node_enter_again(struct node *node);
/* Drops the packets that were not sent. */
void node_drop_queue(struct node *node);

/* ---- Errors (errors.c) ---------------------------------------------------------------------- */

/* A failure of the library, with what the thread that met it knows about it. */
struct failure {
    int result;
    char *message;           /* Allocated by strdup(). */
};

/* Takes what this thread knows about its last failure. */
void failure_take(struct failure *failure, int result);
/* Raises the failure as an ISO error term and frees the message. `subject` is the peer, or the
 * value that was wrong; 0 if there is none. Always returns FALSE. */
foreign_t failure_raise(struct failure *failure, term_t node, term_t subject);
/* Both in one: TRUE for SUCI_OK. */
foreign_t check(int result, term_t node, term_t subject);
/* Returns the name of a result, as "queue_full". */
const char *result_name(int result);

/* ---- Values (values.c) ---------------------------------------------------------------------- */

struct name {
    const char *name;
    uint32_t value;
};

/* These raise type_error or domain_error and return FALSE if the term is not such a value. */
int get_u32(term_t t, uint32_t *value);
int get_u64(term_t t, uint64_t *value);
int get_u8(term_t t, uint8_t *value);
/* Seconds as a number, or `infinite`. */
int get_seconds(term_t t, int64_t *nanoseconds);
/* One of the names; `domain` is what an error calls them. */
int get_name(term_t t, const struct name *names, const char *domain, uint32_t *value);
/* Text as UTF-8 with a null byte; give it back by PL_free(). */
int get_text(term_t t, char **text);
/* Returns the name of a value, or "unknown". */
const char *name_of(const struct name *names, uint32_t value);
/* Makes a string of bytes, each of them one character. */
int put_bytes(term_t t, const void *bytes, size_t length);
/* Whether the bytes are UTF-8 (RFC 3629). Prolog's own decoder reads beyond their end if not. */
bool is_utf8(const void *bytes, size_t length);

extern const struct name MODES[], CONTROLLERS[], WAITS[], ACCEPTS[], LINKS[];

/* ---- Payloads (payload.c) ------------------------------------------------------------------- */

/* The header of a record: "SWIrec", the version of the format, and the size of a word. Neither
 * text in canonical form nor the format itself begins so. */
#define RECORD_HEADER 8
#define RECORD_MAGIC 6

/* The payload of a message, and the memory that holds it. */
struct payload {
    struct iovec pieces[2];
    size_t count;
    char *text;              /* PL_malloc'd, or NULL. */
    char *record;            /* Of PL_record_external(), or NULL. */
};

/* Reads text(S), bytes(S), record(T) or a packet. The packet's memory is borrowed from its blob. */
int payload_get(term_t t, struct payload *payload);
void payload_free(struct payload *payload);
/* Gives the content of a packet's blob: one piece. */
bool packet_piece(atom_t packet, struct iovec *piece);
/* Whether the bytes claim to be a record, and whether this Prolog can read such a record. */
bool is_record(const void *bytes, size_t length);
bool record_fits(const void *bytes, size_t length);

/* ---- Waiting (wait.c) ----------------------------------------------------------------------- */

/* A signal handler raised an exception, which is pending. */
#define INTERRUPTED (-1)

/* The monotonic clock. */
int64_t clock_now(void);
struct timespec timespec_at(int64_t time);
/* Initialises a condition that timed waits measure by the monotonic clock. */
void init_condition(pthread_cond_t *condition);
/* Calls `step` for slices of `timeout` until it returns something else than SUCI_E_TIMED_OUT or
 * SUCI_E_QUEUE_FULL. Between slices Prolog handles its signals. Returns the last result, or
 * INTERRUPTED. */
int wait_in_slices(int (*step)(void *context, int64_t slice), void *context, int64_t timeout);

/* A call that cannot be cut into slices. It runs in another thread. */
struct job {
    /* Set by the caller of job_run(). */
    int (*work)(struct job *job);
    struct node *node;
    bool wakeable;           /* suci_wake() ends it. */
    uint32_t to;
    struct payload payload;
    suci_send_options options;
    int64_t timeout;
    char *user_header;
    /* Set by the job. */
    struct failure failure;
    suci_message message;
    /* Internal to wait.c. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    bool abandoned;          /* Nobody waits for it: it frees itself. */
};

struct job *job_new(struct node *node, int (*work)(struct job *job));
/* Runs the job and waits for it. Returns its result, or INTERRUPTED; then the job may go on and
 * belongs to itself. */
int job_run(struct job *job);
void job_free(struct job *job);

/* ---- Sending and receiving ------------------------------------------------------------------ */

/* Options of the predicates that send, from their Prolog list. */
struct sending {
    suci_send_options options;
    char *user_header;       /* PL_malloc'd, or NULL. */
    int64_t timeout;
};

int sending_get(term_t list, struct sending *sending);
void sending_free(struct sending *sending);
/* Unifies `t` with the term of a message and releases the message. `as` is the form that the
 * program asked for: see receive.c. */
foreign_t unify_message(term_t t, suci_message *message, atom_t as, const struct node *node);
/* Unifies `t` with event(Peer, Event). */
foreign_t unify_event(term_t t, const suci_event *event);

/* Each registers the predicates of one file. */
void install_node(void);
void install_payload(void);
void install_send(void);
void install_receive(void);
void install_peer(void);
void install_stats(void);
void install_datagram(void);
void install_wait(void);

#pragma GCC visibility pop

#endif
