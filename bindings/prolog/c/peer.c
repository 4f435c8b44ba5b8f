/*
 * peer.c - peers: addresses, state, settings, flow control.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "suci4pl.h"

/* Reads the peer and enters the node. */
static struct node *enter_for(term_t t, term_t peer_term, uint32_t *peer)
{
    return get_u32(peer_term, peer) ? node_enter(t) : NULL;
}

/* Calls a function that needs a peer only. */
static foreign_t peer_do(term_t t, term_t peer_term, int (*act)(suci_node node, uint32_t peer))
{
    uint32_t peer;
    struct node *node = enter_for(t, peer_term, &peer);
    foreign_t ok;

    if (!node)
        return FALSE;
    ok = check(act(node->handle, peer), t, peer_term);
    node_leave(node);
    return ok;
}

static foreign_t peer_connect(term_t t, term_t peer)
{
    return peer_do(t, peer, suci_peer_connect);
}

static foreign_t peer_suspend(term_t t, term_t peer)
{
    return peer_do(t, peer, suci_peer_suspend);
}

static foreign_t peer_resume(term_t t, term_t peer)
{
    return peer_do(t, peer, suci_peer_resume);
}

static foreign_t peer_retransmit(term_t t, term_t peer)
{
    return peer_do(t, peer, suci_peer_retransmit);
}

static int remove_peer(suci_node node, uint32_t peer)
{
    return suci_remove_peer(node, peer, NULL);
}

static foreign_t peer_remove(term_t t, term_t peer)
{
    return peer_do(t, peer, remove_peer);
}

static int reset_peer(suci_node node, uint32_t peer)
{
    return suci_peer_reset(node, peer, NULL);
}

static foreign_t peer_reset(term_t t, term_t peer)
{
    return peer_do(t, peer, reset_peer);
}

/* peer_add(+Node, +Peer, +Address) */
static foreign_t peer_add(term_t t, term_t peer_term, term_t address_term)
{
    uint32_t peer;
    struct node *node;
    char *address;
    foreign_t ok = FALSE;

    if (!get_text(address_term, &address))
        return FALSE;
    node = enter_for(t, peer_term, &peer);
    if (node) {
        ok = check(suci_add_peer(node->handle, peer, address), t, address_term);
        node_leave(node);
    }
    PL_free(address);
    return ok;
}

/* peer_close(+Node, +Peer, +Patience) */
static foreign_t peer_close(term_t t, term_t peer_term, term_t seconds)
{
    uint32_t peer;
    int64_t patience;
    struct node *node;
    foreign_t ok;

    if (!get_seconds(seconds, &patience))
        return FALSE;
    node = enter_for(t, peer_term, &peer);
    if (!node)
        return FALSE;
    ok = check(suci_peer_close(node->handle, peer, patience, NULL), t, peer_term);
    node_leave(node);
    return ok;
}

/* peer_queue(+Node, +Peer, -Messages, -Bytes) */
static foreign_t peer_queue(term_t t, term_t peer_term, term_t messages, term_t bytes)
{
    uint64_t message_count, byte_count;
    uint32_t peer;
    struct node *node = enter_for(t, peer_term, &peer);
    foreign_t ok;

    if (!node)
        return FALSE;
    ok = check(suci_peer_queue(node->handle, peer, &message_count, &byte_count), t, peer_term)
        && PL_unify_uint64(messages, message_count) && PL_unify_uint64(bytes, byte_count);
    node_leave(node);
    return ok;
}

/* peer_window(+Node, +Peer, +Channel, -Bytes) */
static foreign_t peer_window(term_t t, term_t peer_term, term_t channel_term, term_t bytes)
{
    uint64_t byte_count;
    uint32_t peer, channel;
    struct node *node;
    foreign_t ok;

    if (!get_u32(channel_term, &channel))
        return FALSE;
    node = enter_for(t, peer_term, &peer);
    if (!node)
        return FALSE;
    ok = check(suci_peer_remote_window(node->handle, peer, channel, &byte_count), t, peer_term)
        && PL_unify_uint64(bytes, byte_count);
    node_leave(node);
    return ok;
}

/* peer_answer(+Node, +Peer, +Channel, +Number, +Answer): Answer is accept or refuse(Reason). */
static foreign_t peer_answer(term_t t, term_t peer_term, term_t channel_term, term_t number_term,
                             term_t answer)
{
    term_t reason_term = PL_new_term_ref();
    bool refuse = PL_is_compound(answer);
    uint64_t number, reason = 0;
    uint32_t peer, channel;
    struct node *node;
    foreign_t ok;

    if (!get_u32(channel_term, &channel) || !get_u64(number_term, &number)
        || (refuse && !(PL_get_arg(1, answer, reason_term) && get_u64(reason_term, &reason))))
        return FALSE;
    node = enter_for(t, peer_term, &peer);
    if (!node)
        return FALSE;
    ok = check(refuse ? suci_refuse(node->handle, peer, channel, number, reason)
                      : suci_accept(node->handle, peer, channel, number), t, peer_term);
    node_leave(node);
    return ok;
}

/* ---- Settings ------------------------------------------------------------------------------- */

/* Sets the field that a term Name(Value) names. */
static int apply_option(term_t option, suci_peer_options *options)
{
    term_t value = PL_new_term_ref();
    const char *name;
    atom_t atom;
    size_t arity;
    int flag;

    if (!PL_get_name_arity(option, &atom, &arity) || arity != 1)
        return PL_type_error("option", option);
    if (!PL_get_arg(1, option, value))
        return FALSE;
    name = PL_atom_chars(atom);
    if (strcmp(name, "mode") == 0)
        return get_name(value, MODES, "suci_mode", &options->mode);
    if (strcmp(name, "controller") == 0)
        return get_name(value, CONTROLLERS, "suci_controller", &options->controller);
    if (strcmp(name, "controller_window") == 0)
        return get_u64(value, &options->controller_window);
    if (strcmp(name, "rate_cap") == 0)
        return get_u64(value, &options->rate_cap);
    if (strcmp(name, "priority_class") == 0)
        return get_u8(value, &options->priority_class);
    if (strcmp(name, "priority_weight") == 0)
        return get_u8(value, &options->priority_weight);
    if (strcmp(name, "silence_timeout") == 0)
        return get_seconds(value, &options->silence_timeout);
    if (strcmp(name, "give_up_after") == 0)
        return get_seconds(value, &options->give_up_after);
    if (strcmp(name, "keep_alive") == 0) {
        if (!PL_get_bool_ex(value, &flag))
            return FALSE;
        options->keep_alive = (uint8_t)flag;
        return TRUE;
    }
    if (strcmp(name, "manual_retransmission") == 0) {
        if (!PL_get_bool_ex(value, &flag))
            return FALSE;
        options->manual_retransmission = (uint8_t)flag;
        return TRUE;
    }
    return PL_domain_error("suci_peer_option", option);
}

static int apply_options(term_t list, suci_peer_options *options)
{
    term_t tail = PL_copy_term_ref(list);
    term_t head = PL_new_term_ref();

    while (PL_get_list_ex(tail, head, tail))
        if (!apply_option(head, options))
            return FALSE;
    return PL_exception(0) == 0 && PL_get_nil_ex(tail);
}

/* peer_set(+Node, +Peer, +Options) */
static foreign_t peer_set(term_t t, term_t peer_term, term_t list)
{
    suci_peer_options options;
    uint32_t peer;
    struct node *node = enter_for(t, peer_term, &peer);
    foreign_t ok;

    if (!node)
        return FALSE;
    suci_peer_options_init(&options);
    ok = check(suci_peer_get_options(node->handle, peer, &options), t, peer_term)
        && apply_options(list, &options)
        && check(suci_peer_set_options(node->handle, peer, &options), t, peer_term);
    node_leave(node);
    return ok;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

/* Gets all peers into memory that the caller frees: they may become more meanwhile. */
static int get_peers(suci_node handle, suci_peer_info **peers, size_t *count)
{
    size_t capacity = 0;
    int result;

    *peers = NULL;
    while ((result = suci_peers(handle, *peers, capacity, count)) == SUCI_OK) {
        void *larger;

        if (*count <= capacity)
            return SUCI_OK;
        capacity = *count + 8;
        larger = realloc(*peers, capacity * sizeof **peers);
        if (!larger)
            return SUCI_ERRNO_BIT | ENOMEM;
        *peers = larger;
    }
    return result;
}

/* node_peers(+Node, -Peers): peer(ID, Link, Address) of each. */
static foreign_t node_peers(term_t t, term_t list)
{
    term_t tail = PL_copy_term_ref(list);
    term_t head = PL_new_term_ref();
    struct node *node = node_enter(t);
    suci_peer_info *peers;
    size_t count = 0;
    foreign_t ok;

    if (!node)
        return FALSE;
    ok = check(get_peers(node->handle, &peers, &count), t, 0);
    node_leave(node);
    for (size_t i = 0; ok && i < count; i++)
        ok = PL_unify_list(tail, head, tail)
            && PL_unify_term(head, PL_FUNCTOR_CHARS, "peer", 3,
                             PL_INT64, (int64_t)peers[i].node,
                             PL_CHARS, name_of(LINKS, peers[i].link),
                             PL_CHARS, peers[i].address);
    free(peers);
    return ok && PL_unify_nil(tail);
}

void install_peer(void)
{
    PL_register_foreign("peer_connect", 2, peer_connect, 0);
    PL_register_foreign("peer_suspend", 2, peer_suspend, 0);
    PL_register_foreign("peer_resume", 2, peer_resume, 0);
    PL_register_foreign("peer_retransmit", 2, peer_retransmit, 0);
    PL_register_foreign("peer_remove", 2, peer_remove, 0);
    PL_register_foreign("peer_reset", 2, peer_reset, 0);
    PL_register_foreign("peer_add", 3, peer_add, 0);
    PL_register_foreign("peer_close", 3, peer_close, 0);
    PL_register_foreign("peer_queue", 4, peer_queue, 0);
    PL_register_foreign("peer_window", 4, peer_window, 0);
    PL_register_foreign("peer_answer", 5, peer_answer, 0);
    PL_register_foreign("peer_set", 3, peer_set, 0);
    PL_register_foreign("node_peers", 2, node_peers, 0);
}
