/*
 * datagram.c - what the classic interface keeps with a node: the destination of datagram_write/2,
 * and the packets that wait for datagram_ready/3 to do all I/O.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <stdlib.h>

#include "suci4pl.h"

/* Appends a packet. The mutex is held. */
static bool append(struct node *node, atom_t packet, uint32_t to)
{
    if (node->queued == node->queue_room) {
        size_t room = node->queue_room * 2 + 16;
        struct queued *larger = realloc(node->queue, room * sizeof *larger);

        if (!larger)
            return false;
        node->queue = larger;
        node->queue_room = room;
    }
    node->queue[node->queued++] = (struct queued){ .packet = packet, .to = to };
    return true;
}

/* packet_put(+Node, +Packet, +Peer): no copy is made, and nothing is sent. */
static foreign_t packet_put(term_t t, term_t packet_term, term_t peer)
{
    struct iovec piece;
    struct node *node;
    atom_t packet;
    uint32_t to;
    bool kept;

    if (!PL_get_atom(packet_term, &packet) || !packet_piece(packet, &piece))
        return PL_type_error("suci_packet", packet_term);
    if (!get_u32(peer, &to))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    PL_register_atom(packet);
    pthread_mutex_lock(&node->mutex);
    kept = append(node, packet, to);
    pthread_mutex_unlock(&node->mutex);
    node_leave(node);
    if (kept)
        return TRUE;
    PL_unregister_atom(packet);
    return PL_resource_error("memory");
}

/* Takes the whole queue; the node has an empty one then. */
static struct queued *take_queue(struct node *node, size_t *count)
{
    struct queued *queue;

    pthread_mutex_lock(&node->mutex);
    queue = node->queue;
    *count = node->queued;
    node->queue = NULL;
    node->queued = node->queue_room = 0;
    pthread_mutex_unlock(&node->mutex);
    return queue;
}

/* Puts packets that were not sent before those that were queued meanwhile. */
static bool put_back(struct node *node, const struct queued *queue, size_t count)
{
    size_t newer;
    struct queued *after = take_queue(node, &newer);
    bool kept = true;

    pthread_mutex_lock(&node->mutex);
    for (size_t i = 0; i < count; i++)
        kept = append(node, queue[i].packet, queue[i].to) && kept;
    for (size_t i = 0; i < newer; i++)
        kept = append(node, after[i].packet, after[i].to) && kept;
    pthread_mutex_unlock(&node->mutex);
    free(after);
    return kept;
}

/* Packets to a peer that takes none now wait, and those behind them, which keeps their order. */
struct waiting {
    struct queued *queue;
    size_t count;
};

static bool waits(const struct waiting *waiting, uint32_t to)
{
    for (size_t i = 0; i < waiting->count; i++)
        if (waiting->queue[i].to == to)
            return true;
    return false;
}

/* Moves to the front of `queue`, behind those that wait already, what has to wait because of them.
 * Fills `messages` with the others and returns their number. */
static size_t choose(struct queued *queue, size_t begin, size_t end, struct waiting *waiting,
                     suci_outgoing *messages, struct queued *chosen)
{
    struct iovec piece;
    size_t count = 0;

    for (size_t i = begin; i < end; i++) {
        if (waits(waiting, queue[i].to)) {
            waiting->queue[waiting->count++] = queue[i];
        } else {
            packet_piece(queue[i].packet, &piece);
            chosen[count] = queue[i];
            messages[count++] = (suci_outgoing){ .to = queue[i].to, .data = piece.iov_base,
                                                 .length = piece.iov_len };
        }
    }
    return count;
}

/* Sends what can be sent of `queue`. Returns the number of packets that have to wait, which are at
 * its front then. A packet whose peer is unknown is dropped; `failure` tells of the first one. */
static size_t send_queue(struct node *node, struct queued *queue, size_t count,
                         suci_outgoing *messages, struct queued *chosen, struct failure *failure,
                         uint32_t *culprit)
{
    struct waiting waiting = { .queue = queue };
    size_t total = choose(queue, 0, count, &waiting, messages, chosen);

    while (total > 0) {
        size_t accepted = 0;
        int result = suci_send_batch(node->handle, messages, total, 0, &accepted);

        for (size_t i = 0; i < accepted; i++)
            PL_unregister_atom(chosen[i].packet);
        if (result == SUCI_OK)
            break;
        if (result == SUCI_E_QUEUE_FULL || result == SUCI_E_SUSPENDED
            || result == SUCI_E_WOKEN) {
            waiting.queue[waiting.count++] = chosen[accepted];
        } else {
            if (failure->result == SUCI_OK) {
                failure_take(failure, result);
                *culprit = chosen[accepted].to;
            }
            PL_unregister_atom(chosen[accepted].packet);
        }
        /* The rest, but for packets that have to wait behind this one. */
        total = choose(chosen, accepted + 1, total, &waiting, messages, chosen);
    }
    return waiting.count;
}

/* packets_send(+Node): hands the queued packets to the library as one batch. */
static foreign_t packets_send(term_t t)
{
    struct node *node = node_enter(t);
    struct queued *queue, *chosen;
    suci_outgoing *messages;
    term_t peer = PL_new_term_ref();
    struct failure failure = { .result = SUCI_OK };
    size_t count, left;
    uint32_t culprit = 0;
    foreign_t ok = TRUE;

    if (!node)
        return FALSE;
    queue = take_queue(node, &count);
    if (count > 0) {
        messages = calloc(count, sizeof *messages);
        chosen = calloc(count, sizeof *chosen);
        if (messages && chosen) {
            left = send_queue(node, queue, count, messages, chosen, &failure, &culprit);
            if (failure.result != SUCI_OK)
                ok = PL_put_uint64(peer, culprit) && failure_raise(&failure, t, peer);
        } else {
            left = count;
            ok = PL_resource_error("memory");
        }
        if (left > 0 && !put_back(node, queue, left))
            ok = PL_resource_error("memory");
        free(messages);
        free(chosen);
    }
    free(queue);
    node_leave(node);
    return ok;
}

/* node_destination(+Node, ?Peer) is semidet: sets the destination, or gives it if there is one. */
static foreign_t node_destination(term_t t, term_t peer_term)
{
    bool wanted = PL_is_variable(peer_term), known;
    struct node *node;
    uint32_t peer = 0;

    if (!wanted && !get_u32(peer_term, &peer))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    pthread_mutex_lock(&node->mutex);
    if (!wanted) {
        node->destination = peer;
        node->has_destination = true;
    }
    peer = node->destination;
    known = node->has_destination;
    pthread_mutex_unlock(&node->mutex);
    node_leave(node);
    return known && PL_unify_uint64(peer_term, peer);
}

void install_datagram(void)
{
    PL_register_foreign("node_destination", 2, node_destination, 0);
    PL_register_foreign("packet_put", 3, packet_put, 0);
    PL_register_foreign("packets_send", 1, packets_send, 0);
}
