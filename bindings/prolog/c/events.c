/*
 * events.c - events as terms.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include "suci4pl.h"

static const struct name LOST[] = {
    { "no_answer", SUCI_LOST_NO_ANSWER },
    { "port", SUCI_LOST_PORT },
    { "host", SUCI_LOST_HOST },
    { "network", SUCI_LOST_NETWORK },
    { "prohibited", SUCI_LOST_PROHIBITED },
    { "other", SUCI_LOST_OTHER },
    { "refused", SUCI_LOST_REFUSED },
    { "process_died", SUCI_LOST_PROCESS_DIED },
    { NULL, 0 }
};

static const struct name REFUSALS[] = {
    { "none", SUCI_REFUSAL_NONE },
    { "duplicate_node", SUCI_REFUSAL_DUPLICATE_NODE },
    { "not_allowed", SUCI_REFUSAL_NOT_ALLOWED },
    { "wrong_node", SUCI_REFUSAL_WRONG_NODE },
    { "mode", SUCI_REFUSAL_MODE },
    { "no_socket_credit", SUCI_REFUSAL_NO_SOCKET_CREDIT },
    { "no_memory", SUCI_REFUSAL_NO_MEMORY },
    { "too_many_peers", SUCI_REFUSAL_TOO_MANY_PEERS },
    { "unread", SUCI_REFUSAL_UNREAD },
    { "no_socket_credit_here", SUCI_REFUSAL_NO_SOCKET_CREDIT_HERE },
    { "no_memory_here", SUCI_REFUSAL_NO_MEMORY_HERE },
    { "stale", SUCI_REFUSAL_STALE },
    { "version", SUCI_REFUSAL_VERSION },
    { "narrow", SUCI_REFUSAL_NARROW },
    { "other", SUCI_REFUSAL_OTHER },
    { "key", SUCI_REFUSAL_KEY },
    { "no_keys_here", SUCI_REFUSAL_NO_KEYS_HERE },
    { "node_key", SUCI_REFUSAL_NODE_KEY },
    { "no_node_key_here", SUCI_REFUSAL_NO_NODE_KEY_HERE },
    { "layer", SUCI_REFUSAL_LAYER },
    { NULL, 0 }
};

static const struct name ENDS[] = {
    { "closed", SUCI_END_CLOSED },
    { "cut_short", SUCI_END_CUT_SHORT },
    { "closed_here", SUCI_END_CLOSED_HERE },
    { "restarted", SUCI_END_RESTARTED },
    { "reset", SUCI_END_RESET },
    { "peer_ended", SUCI_END_PEER_ENDED },
    { "silent", SUCI_END_SILENT },
    { "process_died", SUCI_END_PROCESS_DIED },
    { "protocol", SUCI_END_PROTOCOL },
    { "peer_protocol", SUCI_END_PEER_PROTOCOL },
    { "revoked", SUCI_END_REVOKED },
    { "revoked_there", SUCI_END_REVOKED_THERE },
    { NULL, 0 }
};

static const struct name FATES[] = {
    { "delivered", SUCI_FATE_DELIVERED },
    { "not_delivered", SUCI_FATE_NOT_DELIVERED },
    { "unknown", SUCI_FATE_UNKNOWN },
    { NULL, 0 }
};

/* Makes a term of an unsigned number, or of `name` where the number is `special`. */
static int put_u64(term_t t, uint64_t value, uint64_t special, const char *name)
{
    return value == special && name ? PL_put_atom_chars(t, name) : PL_put_uint64(t, value);
}

/* outcome(Channel, Number, Cookie, Fate) of each message that was under way. */
static int put_outcomes(term_t list, const suci_event_ended *ended)
{
    term_t head = PL_new_term_ref();
    term_t number = PL_new_term_ref();
    term_t cookie = PL_new_term_ref();

    if (!PL_put_nil(list))
        return FALSE;
    for (size_t i = ended->outcome_count; i-- > 0;) {
        const suci_outcome *outcome = &ended->outcomes[i];

        PL_put_variable(head);
        if (!PL_put_uint64(number, outcome->number)
            || !PL_put_uint64(cookie, outcome->cookie)
            || !PL_unify_term(head, PL_FUNCTOR_CHARS, "outcome", 4,
                              PL_INT64, (int64_t)outcome->channel, PL_TERM, number,
                              PL_TERM, cookie, PL_CHARS, name_of(FATES, outcome->fate))
            || !PL_cons_list(list, head, list))
            return FALSE;
    }
    return TRUE;
}

/* delivered(Channel, Number, Cookie), not_delivered(Channel, Number, Cookie, Reason) */
static int unify_delivery(term_t t, const suci_event_delivery *delivery, bool delivered)
{
    term_t number = PL_new_term_ref();
    term_t cookie = PL_new_term_ref();
    term_t reason = PL_new_term_ref();

    if (!put_u64(number, delivery->number, SUCI_UNNUMBERED, "unnumbered")
        || !PL_put_uint64(cookie, delivery->cookie))
        return FALSE;
    if (delivered)
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "delivered", 3,
                             PL_INT64, (int64_t)delivery->channel, PL_TERM, number,
                             PL_TERM, cookie);
    if (delivery->reason == SUCI_CANCELLED
            ? !PL_put_atom_chars(reason, "cancelled")
            : !put_u64(reason, delivery->reason, SUCI_EXPIRED, "expired"))
        return FALSE;
    return PL_unify_term(t, PL_FUNCTOR_CHARS, "not_delivered", 4,
                         PL_INT64, (int64_t)delivery->channel, PL_TERM, number,
                         PL_TERM, cookie, PL_TERM, reason);
}

/* incoming(Channel, Number, Length, Tag, Kind, UserHeader) */
static int unify_incoming(term_t t, const suci_event_incoming *incoming)
{
    term_t number = PL_new_term_ref();
    term_t length = PL_new_term_ref();
    term_t tag = PL_new_term_ref();
    term_t header = PL_new_term_ref();

    return PL_put_uint64(number, incoming->number)
        && PL_put_uint64(length, incoming->length)
        && PL_put_uint64(tag, incoming->tag)
        && put_bytes(header, incoming->user_header, incoming->user_header_length)
        && PL_unify_term(t, PL_FUNCTOR_CHARS, "incoming", 6,
                         PL_INT64, (int64_t)incoming->channel, PL_TERM, number,
                         PL_TERM, length, PL_TERM, tag, PL_INT, (int)incoming->kind,
                         PL_TERM, header);
}

/* refused(Reason), lost(Cause): a refusal that has a code of its own is other(Code). */
static int unify_refusal(term_t t, const char *functor, uint32_t reason, uint64_t code)
{
    term_t number = PL_new_term_ref();

    if (reason != SUCI_REFUSAL_OTHER)
        return PL_unify_term(t, PL_FUNCTOR_CHARS, functor, 1,
                             PL_CHARS, name_of(REFUSALS, reason));
    return PL_put_uint64(number, code)
        && PL_unify_term(t, PL_FUNCTOR_CHARS, functor, 1,
                         PL_FUNCTOR_CHARS, "other", 1, PL_TERM, number);
}

static int unify_lost(term_t t, const suci_event_lost *lost)
{
    term_t refusal = PL_new_term_ref();

    if (lost->cause != SUCI_LOST_REFUSED)
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "lost", 1, PL_CHARS, name_of(LOST, lost->cause));
    return unify_refusal(refusal, "refused", lost->refusal, lost->code)
        && PL_unify_term(t, PL_FUNCTOR_CHARS, "lost", 1, PL_TERM, refusal);
}

/* ended(Reason, Session, Outcomes), where Reason may be cut_short(Missing), protocol(Code) or
 * peer_protocol(Code). */
static int unify_ended(term_t t, const suci_event_ended *ended)
{
    term_t reason = PL_new_term_ref();
    term_t number = PL_new_term_ref();
    term_t outcomes = PL_new_term_ref();
    const char *name = name_of(ENDS, ended->reason);
    int ok;

    if (ended->reason == SUCI_END_CUT_SHORT)
        ok = PL_put_uint64(number, ended->missing)
            && PL_unify_term(reason, PL_FUNCTOR_CHARS, name, 1, PL_TERM, number);
    else if (ended->reason == SUCI_END_PROTOCOL || ended->reason == SUCI_END_PEER_PROTOCOL)
        ok = PL_put_uint64(number, ended->code)
            && PL_unify_term(reason, PL_FUNCTOR_CHARS, name, 1, PL_TERM, number);
    else
        ok = PL_unify_atom_chars(reason, name);
    return ok && put_outcomes(outcomes, ended)
        && PL_unify_term(t, PL_FUNCTOR_CHARS, "ended", 3,
                         PL_TERM, reason, PL_INT64, (int64_t)ended->session, PL_TERM, outcomes);
}

/* Unifies `t` with the part that depends on the type. */
static int unify_detail(term_t t, const suci_event *event)
{
    switch (event->type) {
    case SUCI_EVENT_UP:
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "up", 1, PL_INT64, (int64_t)event->up.session);
    case SUCI_EVENT_LOST:
        return unify_lost(t, &event->lost);
    case SUCI_EVENT_QUIET:
        return PL_unify_atom_chars(t, "quiet");
    case SUCI_EVENT_SUSPENDED:
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "suspended", 1,
                             PL_CHARS, event->side.here ? "here" : "there");
    case SUCI_EVENT_RESUMED:
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "resumed", 1,
                             PL_CHARS, event->side.here ? "here" : "there");
    case SUCI_EVENT_ENDED:
        return unify_ended(t, &event->ended);
    case SUCI_EVENT_DELIVERED:
        return unify_delivery(t, &event->delivery, true);
    case SUCI_EVENT_NOT_DELIVERED:
        return unify_delivery(t, &event->delivery, false);
    case SUCI_EVENT_WRITABLE:
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "writable", 1,
                             PL_INT, (int)event->writable.priority_class);
    case SUCI_EVENT_INCOMING:
        return unify_incoming(t, &event->incoming);
    case SUCI_EVENT_CHANNEL_FINISHED:
        return PL_unify_term(t, PL_FUNCTOR_CHARS, "channel_finished", 1,
                             PL_INT64, (int64_t)event->finished.channel);
    case SUCI_EVENT_REFUSED:
        return unify_refusal(t, "refused", event->refused.reason, event->refused.code);
    }
    return PL_unify_term(t, PL_FUNCTOR_CHARS, "unknown", 1, PL_INT64, (int64_t)event->type);
}

foreign_t unify_event(term_t t, const suci_event *event)
{
    term_t detail = PL_new_term_ref();

    return unify_detail(detail, event)
        && PL_unify_term(t, PL_FUNCTOR_CHARS, "event", 2,
                         PL_INT64, (int64_t)event->node, PL_TERM, detail);
}
