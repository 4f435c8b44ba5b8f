/*
 * receive.c - receiving: messages as terms.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <string.h>

#include "suci4pl.h"

/* Unifies `payload` with value(Bytes), value(String), value(Term) or text(String), of which the
 * Prolog side reads a term. `as` says what the program wants: bytes, string or term. */
static foreign_t unify_payload(term_t payload, const suci_message *message, const char *as,
                               const struct node *node)
{
    term_t value = PL_new_term_ref();
    const char *functor = "value";
    int ok;

    if (strcmp(as, "bytes") == 0) {
        ok = put_bytes(value, message->payload, message->length);
    } else if (strcmp(as, "term") == 0 && is_record(message->payload, message->length)) {
        if (!node->trust)
            return PL_unify_term(payload, PL_CHARS, "untrusted_fast_term");
        if (!record_fits(message->payload, message->length))
            return PL_unify_term(payload, PL_CHARS, "fast_term_of_another_version");
        ok = PL_recorded_external((const char *)message->payload + RECORD_HEADER, value);
    } else if (!is_utf8(message->payload, message->length)) {
        return PL_unify_term(payload, PL_CHARS, "illegal_utf8");
    } else {
        functor = strcmp(as, "term") == 0 ? "text" : "value";
        ok = PL_put_chars(value, PL_STRING | REP_UTF8, message->length,
                          message->length ? message->payload : "");
    }
    return ok && PL_unify_term(payload, PL_FUNCTOR_CHARS, functor, 1, PL_TERM, value);
}

/* The term is message(From, Payload, Bytes, Channel, Tag, Kind, Session, Number, UserHeader,
 * IsRequest). Bytes is [] unless the payload is none: then an error will hold it. */
foreign_t unify_message(term_t t, suci_message *message, atom_t as, const struct node *node)
{
    term_t payload = PL_new_term_ref();
    term_t bytes = PL_new_term_ref();
    term_t tag = PL_new_term_ref();
    term_t number = PL_new_term_ref();
    term_t header = PL_new_term_ref();
    int ok = unify_payload(payload, message, PL_atom_chars(as), node)
        && (PL_is_compound(payload) ? PL_unify_nil(bytes)
                                    : put_bytes(bytes, message->payload, message->length))
        && PL_put_uint64(tag, message->tag)
        && PL_put_uint64(number, message->number)
        && put_bytes(header, message->user_header, message->user_header_length)
        && PL_unify_term(t, PL_FUNCTOR_CHARS, "message", 10,
                         PL_INT64, (int64_t)message->from,
                         PL_TERM, payload,
                         PL_TERM, bytes,
                         PL_INT64, (int64_t)message->channel,
                         PL_TERM, tag,
                         PL_INT, (int)message->kind,
                         PL_INT64, (int64_t)message->session,
                         PL_TERM, number,
                         PL_TERM, header,
                         PL_BOOL, (int)message->is_request);

    suci_message_release(message);
    return ok;
}

/* Arguments and result of a call that receives. */
struct slice {
    const struct node *node;
    suci_filter filter;
    suci_message message;
    suci_item item;
};

static int recv_step(void *context, int64_t timeout)
{
    struct slice *slice = context;

    if (slice->filter.flags)
        return suci_recv_from(slice->node->handle, &slice->filter, &slice->message, timeout);
    return suci_recv(slice->node->handle, &slice->message, timeout);
}

static int next_step(void *context, int64_t timeout)
{
    struct slice *slice = context;

    return suci_next(slice->node->handle, &slice->item, timeout);
}

/* An integer chooses messages, a variable takes any. */
static int get_filter(term_t peer, term_t channel, suci_filter *filter)
{
    if (!PL_is_variable(peer)) {
        filter->flags |= SUCI_FROM_NODE;
        if (!get_u32(peer, &filter->node))
            return FALSE;
    }
    if (!PL_is_variable(channel)) {
        filter->flags |= SUCI_ON_CHANNEL;
        if (!get_u32(channel, &filter->channel))
            return FALSE;
    }
    return TRUE;
}

/* node_recv(+Node, ?Peer, ?Channel, +Timeout, +As, -Message) is semidet: fails at the limit. */
static foreign_t node_recv(term_t t, term_t peer, term_t channel, term_t seconds, term_t as_term,
                           term_t message)
{
    struct slice slice = { .filter = { .flags = 0 } };
    struct node *node;
    int64_t timeout;
    atom_t as;
    foreign_t ok;
    int result;

    if (!get_filter(peer, channel, &slice.filter) || !get_seconds(seconds, &timeout)
        || !PL_get_atom_ex(as_term, &as))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    slice.node = node;
    result = wait_in_slices(recv_step, &slice, timeout);
    if (result == SUCI_OK)
        ok = unify_message(message, &slice.message, as, node);
    else
        ok = result != SUCI_E_TIMED_OUT && check(result, t, peer);
    node_leave(node);
    return ok;
}

/* node_next(+Node, +Timeout, +As, -Item) is semidet: a message, or event(Peer, Event). */
static foreign_t node_next(term_t t, term_t seconds, term_t as_term, term_t item)
{
    struct slice slice = { .filter = { .flags = 0 } };
    struct node *node;
    int64_t timeout;
    atom_t as;
    foreign_t ok;
    int result;

    if (!get_seconds(seconds, &timeout) || !PL_get_atom_ex(as_term, &as))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    slice.node = node;
    result = wait_in_slices(next_step, &slice, timeout);
    if (result != SUCI_OK) {
        ok = result != SUCI_E_TIMED_OUT && check(result, t, 0);
    } else if (slice.item.type == SUCI_ITEM_MESSAGE) {
        ok = unify_message(item, &slice.item.message, as, node);
    } else {
        ok = unify_event(item, &slice.item.event);
        suci_item_release(&slice.item);
    }
    node_leave(node);
    return ok;
}

/* An announced message that nobody asks for would never come: takes it, or refuses it if it is too
 * long for the library's memory. */
static void answer_incoming(suci_node handle, const suci_event *event)
{
    uint32_t channel = event->incoming.channel;
    uint64_t number = event->incoming.number;

    if (suci_accept(handle, event->node, channel, number) == SUCI_E_NEEDS_BUFFER)
        suci_refuse(handle, event->node, channel, number, 0);
}

/* Takes an event away, if one is there: events are not part of the classic interface. */
static int drop_event(suci_node handle)
{
    suci_event event;
    int result = suci_next_event(handle, &event, 0);

    if (result == SUCI_OK) {
        if (event.type == SUCI_EVENT_INCOMING)
            answer_incoming(handle, &event);
        suci_event_release(&event);
    }
    return result;
}

/* One slice of node_ready(): waits until something is there. What is no event is a message. */
static int ready_step(void *context, int64_t timeout)
{
    struct slice *slice = context;
    suci_node handle = slice->node->handle;
    bool ready = false;
    int result;

    do {
        result = drop_event(handle);
    } while (result == SUCI_OK);
    if (result != SUCI_E_TIMED_OUT)
        return result;
    result = suci_poll(handle, &ready, timeout);
    if (result != SUCI_OK)
        return result;
    if (!ready)
        return SUCI_E_TIMED_OUT;
    result = drop_event(handle);
    /* After an event nothing is known yet: the next slice looks again, at once. */
    return result == SUCI_OK ? SUCI_E_WOKEN : result == SUCI_E_TIMED_OUT ? SUCI_OK : result;
}

/* node_ready(+Node, +Timeout) is semidet: input and output, until a message can be taken. */
static foreign_t node_ready(term_t t, term_t seconds)
{
    struct slice slice = { .filter = { .flags = 0 } };
    struct node *node;
    int64_t timeout;
    foreign_t ok;
    int result;

    if (!get_seconds(seconds, &timeout))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    slice.node = node;
    result = wait_in_slices(ready_step, &slice, timeout);
    ok = result != SUCI_E_TIMED_OUT && check(result, t, 0);
    node_leave(node);
    return ok;
}

/* node_turn(+Node): input and output without waiting; acknowledgements leave. */
static foreign_t node_turn(term_t t)
{
    struct node *node = node_enter(t);
    foreign_t ok;
    int result;

    if (!node)
        return FALSE;
    do {
        result = suci_poll(node->handle, NULL, 0);
    } while (result == SUCI_E_WOKEN);
    ok = check(result, t, 0);
    node_leave(node);
    return ok;
}

void install_receive(void)
{
    PL_register_foreign("node_recv", 6, node_recv, 0);
    PL_register_foreign("node_next", 4, node_next, 0);
    PL_register_foreign("node_ready", 2, node_ready, 0);
    PL_register_foreign("node_turn", 1, node_turn, 0);
}
