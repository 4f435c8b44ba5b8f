/*
 * stats.c - what is known about nodes and peers, as lists of Name-Value.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <stdlib.h>
#include <string.h>

#include "suci4pl.h"

/* One field of a struct of counters. */
struct column {
    const char *name;
    enum { FLAG, U32, U64, SECONDS, TEXT, NAME } type;
    size_t offset;
    const struct name *names;
};

#define PEER(name, type) { #name, type, offsetof(suci_peer_stats, name), NULL }
#define PEER_NAMED(name, names) { #name, NAME, offsetof(suci_peer_stats, name), names }
#define NODE(name, type) { #name, type, offsetof(suci_counters, name), NULL }
#define SOCKET(name, type) { #name, type, offsetof(suci_socket_counters, name), NULL }
#define COUNT(table) (sizeof table / sizeof table[0])

static const struct column PEER_COLUMNS[] = {
    PEER_NAMED(link, LINKS),
    PEER_NAMED(mode, MODES),
    PEER_NAMED(remote_mode, MODES),
    PEER(mtu, U32),
    PEER(suspended_here, FLAG),
    PEER(suspended_there, FLAG),
    PEER(marks_stopped, FLAG),
    PEER(address, TEXT),
    PEER(rtt, SECONDS),
    PEER(min_rtt, SECONDS),
    PEER(rtt_variance, SECONDS),
    PEER(congestion_window, U64),
    PEER(in_flight, U64),
    PEER(socket_credit, U64),
    PEER(queued_messages, U64),
    PEER(queued_bytes, U64),
    PEER(packets_sent, U64),
    PEER(bytes_sent, U64),
    PEER(packets_received, U64),
    PEER(bytes_received, U64),
    PEER(messages_sent, U64),
    PEER(message_bytes_sent, U64),
    PEER(messages_received, U64),
    PEER(message_bytes_received, U64),
    PEER(bytes_resent, U64),
    PEER(acks_sent, U64),
    PEER(packets_lost, U64),
    PEER(spurious_losses, U64),
    PEER(probes, U64),
    PEER(duplicates, U64),
};

static const struct column NODE_COLUMNS[] = {
    NODE(datagrams_in, U64),
    NODE(bytes_in, U64),
    NODE(packets_out, U64),
    NODE(bytes_out, U64),
    NODE(trains_out, U64),
    NODE(messages_sent, U64),
    NODE(messages_received, U64),
    NODE(malformed, U64),
    NODE(wrong_version, U64),
    NODE(bad_checksum, U64),
    NODE(unknown_connection, U64),
    NODE(duplicates, U64),
    NODE(handshake_rejected, U64),
    NODE(hello_unanswered, U64),
    NODE(unknown_sent, U64),
    NODE(protocol_errors, U64),
    NODE(packets_lost, U64),
    NODE(spurious_losses, U64),
    NODE(probes, U64),
    NODE(socket_full, U64),
    NODE(too_big, U64),
    NODE(unreachable, U64),
    NODE(payload_copied, U64),
    NODE(overcharged, U64),
    NODE(suspensions, U64),
    NODE(gaps, U64),
    NODE(misdirected, U64),
    NODE(misdirected_dropped, U64),
    NODE(late_replies, U64),
};

static const struct column SOCKET_COLUMNS[] = {
    SOCKET(send_calls, U64),
    SOCKET(recv_calls, U64),
    SOCKET(wait_calls, U64),
    SOCKET(datagrams_sent, U64),
    SOCKET(datagrams_received, U64),
    SOCKET(bytes_sent, U64),
    SOCKET(bytes_received, U64),
    SOCKET(trains_sent, U64),
    SOCKET(trains_received, U64),
    SOCKET(truncated, U64),
    SOCKET(recv_drops, U64),
    SOCKET(recv_charged, U64),
    SOCKET(recv_charged_max, U64),
    SOCKET(again, U64),
    SOCKET(too_big, U64),
    SOCKET(gso_refused, U64),
    SOCKET(unreachable, U64),
    SOCKET(recv_errors, U64),
    SOCKET(fault_packets, U64),
    SOCKET(fault_lost, U64),
    SOCKET(fault_doubled, U64),
    SOCKET(fault_reordered, U64),
    SOCKET(fault_corrupted, U64),
    SOCKET(fault_delayed, U64),
    SOCKET(fault_discarded, U64),
};

static int put_value(term_t t, const struct column *column, const void *record)
{
    const void *field = (const char *)record + column->offset;

    switch (column->type) {
    case FLAG:
        return PL_put_bool(t, *(const uint8_t *)field);
    case U32:
        return PL_put_uint64(t, *(const uint32_t *)field);
    case U64:
        return PL_put_uint64(t, *(const uint64_t *)field);
    case SECONDS:
        return PL_put_float(t, (double)*(const int64_t *)field / 1e9);
    case TEXT:
        return PL_put_atom_chars(t, field);
    case NAME:
        return PL_put_atom_chars(t, name_of(column->names, *(const uint32_t *)field));
    }
    return FALSE;
}

static int unify_pair(term_t tail, const char *name, term_t value)
{
    term_t head = PL_new_term_ref();
    int ok = PL_unify_list(tail, head, tail)
        && PL_unify_term(head, PL_FUNCTOR_CHARS, "-", 2, PL_CHARS, name, PL_TERM, value);

    PL_reset_term_refs(head);
    return ok;
}

/* Extends the open list `tail` by all columns. */
static int unify_columns(term_t tail, const struct column *columns, size_t count,
                         const void *record)
{
    term_t value = PL_new_term_ref();

    for (size_t i = 0; i < count; i++)
        if (!put_value(value, &columns[i], record) || !unify_pair(tail, columns[i].name, value))
            return FALSE;
    return TRUE;
}

/* Adds what messages wait for now, and for how long they waited: waits-[Reason-Seconds, ...]. */
static int unify_waits(term_t tail, const suci_peer_stats *stats)
{
    term_t value = PL_new_term_ref();
    term_t waits = PL_new_term_ref();
    term_t waits_tail = PL_copy_term_ref(waits);

    if (!PL_put_atom_chars(value, stats->waiting == SUCI_WAITS_FOR_NOTHING
                                      ? "nothing" : suci_wait_reason_name(stats->waiting))
        || !unify_pair(tail, "waiting", value))
        return FALSE;
    for (uint32_t reason = 0; reason < SUCI_WAIT_REASONS; reason++)
        if (stats->waits[reason].times > 0
            && !(PL_put_float(value, (double)stats->waits[reason].nanoseconds / 1e9)
                 && unify_pair(waits_tail, suci_wait_reason_name(reason), value)))
            return FALSE;
    return PL_unify_nil(waits_tail) && unify_pair(tail, "waits", waits);
}

/* peer_stats(+Node, +Peer, -Pairs) */
static foreign_t peer_stats(term_t t, term_t peer_term, term_t list)
{
    suci_peer_stats stats = { .size = sizeof stats };
    term_t tail = PL_copy_term_ref(list);
    struct node *node;
    uint32_t peer;
    foreign_t ok;

    if (!get_u32(peer_term, &peer))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    ok = check(suci_peer_get_stats(node->handle, peer, &stats), t, peer_term);
    node_leave(node);
    return ok && unify_columns(tail, PEER_COLUMNS, COUNT(PEER_COLUMNS), &stats)
        && unify_waits(tail, &stats) && PL_unify_nil(tail);
}

/* node_counters(+Node, -Pairs, -SocketPairs) */
static foreign_t node_counters(term_t t, term_t list, term_t socket_list)
{
    suci_counters counters = { .size = sizeof counters };
    suci_socket_counters sockets = { .size = sizeof sockets };
    term_t tail = PL_copy_term_ref(list);
    term_t socket_tail = PL_copy_term_ref(socket_list);
    struct node *node = node_enter(t);
    foreign_t ok;

    if (!node)
        return FALSE;
    ok = check(suci_node_counters(node->handle, &counters), t, 0)
        && check(suci_node_socket_counters(node->handle, &sockets), t, 0);
    node_leave(node);
    return ok && unify_columns(tail, NODE_COLUMNS, COUNT(NODE_COLUMNS), &counters)
        && PL_unify_nil(tail)
        && unify_columns(socket_tail, SOCKET_COLUMNS, COUNT(SOCKET_COLUMNS), &sockets)
        && PL_unify_nil(socket_tail);
}

/* node_info(+Node, -ID, -Address, -Threads, -PeerLimit, -Warning) */
static foreign_t node_info(term_t t, term_t id, term_t address, term_t threads, term_t limit,
                           term_t warning)
{
    char address_text[SUCI_ADDRESS_SIZE], warning_text[1024];
    uint32_t thread_count;
    uint64_t peers;
    size_t length;
    struct node *node = node_enter(t);
    foreign_t ok;

    if (!node)
        return FALSE;
    ok = check(suci_node_address(node->handle, address_text), t, 0)
        && check(suci_node_threads(node->handle, &thread_count), t, 0)
        && check(suci_node_peer_limit(node->handle, &peers), t, 0)
        && check(suci_node_warning(node->handle, warning_text, sizeof warning_text, &length), t, 0)
        && PL_unify_uint64(id, node->id)
        && PL_unify_atom_chars(address, address_text)
        && PL_unify_uint64(threads, thread_count)
        && PL_unify_uint64(limit, peers)
        && PL_unify_chars(warning, PL_STRING | REP_UTF8, (size_t)-1, warning_text);
    node_leave(node);
    return ok;
}

/* book_text(+File, -Text): the address book in a file, in the form that suci_book_parse() reads. */
static foreign_t book_text(term_t file_term, term_t text)
{
    suci_book book;
    char *file, *buffer = NULL;
    size_t length;
    foreign_t ok;

    if (!PL_get_file_name(file_term, &file, PL_FILE_OSPATH))
        return FALSE;
    if (!check(suci_book_read(file, &book), 0, 0))
        return FALSE;
    ok = check(suci_book_text(book, NULL, 0, &length), 0, 0);
    if (ok) {
        buffer = malloc(length + 1);
        ok = buffer ? check(suci_book_text(book, buffer, length + 1, &length), 0, 0)
                    : (foreign_t)PL_resource_error("memory");
    }
    ok = ok && PL_unify_chars(text, PL_STRING | REP_UTF8, length, buffer);
    free(buffer);
    suci_book_free(book);
    return ok;
}

/* env_id(-ID) and env_size(-Count) are semidet: what `suci run` says. */
static foreign_t env_id(term_t id)
{
    uint32_t value;
    int result = suci_env_id(&value);

    return result != SUCI_E_NOT_FOUND && check(result, 0, 0) && PL_unify_uint64(id, value);
}

static foreign_t env_size(term_t count)
{
    uint32_t value;
    int result = suci_env_size(&value);

    return result != SUCI_E_NOT_FOUND && check(result, 0, 0) && PL_unify_uint64(count, value);
}

/* library_version(-Version) */
static foreign_t library_version(term_t version)
{
    return PL_unify_atom_chars(version, suci_version());
}

void install_stats(void)
{
    PL_register_foreign("peer_stats", 3, peer_stats, 0);
    PL_register_foreign("node_counters", 3, node_counters, 0);
    PL_register_foreign("node_info", 6, node_info, 0);
    PL_register_foreign("book_text", 2, book_text, 0);
    PL_register_foreign("env_id", 1, env_id, 0);
    PL_register_foreign("env_size", 1, env_size, 0);
    PL_register_foreign("library_version", 1, library_version, 0);
}
