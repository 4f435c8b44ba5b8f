/*
 * errors.c - results of the library as ISO error terms.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <stdlib.h>
#include <string.h>

#include "suci4pl.h"

static const struct name RESULTS[] = {
    { "argument", SUCI_E_ARGUMENT },
    { "size", SUCI_E_SIZE },
    { "handle", SUCI_E_HANDLE },
    { "busy", SUCI_E_BUSY },
    { "forked", SUCI_E_FORKED },
    { "node_kind", SUCI_E_NODE_KIND },
    { "internal", SUCI_E_INTERNAL },
    { "timed_out", SUCI_E_TIMED_OUT },
    { "woken", SUCI_E_WOKEN },
    { "queue_full", SUCI_E_QUEUE_FULL },
    { "not_flushed", SUCI_E_NOT_FLUSHED },
    { "not_all", SUCI_E_NOT_ALL },
    { "too_long", SUCI_E_TOO_LONG },
    { "header_too_long", SUCI_E_HEADER_TOO_LONG },
    { "reserved_kind", SUCI_E_RESERVED_KIND },
    { "reserved_channel", SUCI_E_RESERVED_CHANNEL },
    { "reserved", SUCI_E_RESERVED },
    { "not_a_request", SUCI_E_NOT_A_REQUEST },
    { "buffer_too_short", SUCI_E_BUFFER_TOO_SHORT },
    { "needs_answer", SUCI_E_NEEDS_ANSWER },
    { "not_waiting", SUCI_E_NOT_WAITING },
    { "needs_buffer", SUCI_E_NEEDS_BUFFER },
    { "memory_full", SUCI_E_MEMORY_FULL },
    { "not_permitted", SUCI_E_NOT_PERMITTED },
    { "unknown_peer", SUCI_E_UNKNOWN_PEER },
    { "suspended", SUCI_E_SUSPENDED },
    { "closing", SUCI_E_CLOSING },
    { "unread", SUCI_E_UNREAD },
    { "channels", SUCI_E_CHANNELS },
    { "finished_channel", SUCI_E_FINISHED_CHANNEL },
    { "ended", SUCI_E_ENDED },
    { "process_died", SUCI_E_PROCESS_DIED },
    { "refused", SUCI_E_REFUSED },
    { "reply_too_long", SUCI_E_REPLY_TOO_LONG },
    { "call_to_itself", SUCI_E_CALL_TO_ITSELF },
    { "too_many_peers", SUCI_E_TOO_MANY_PEERS },
    { "closed", SUCI_E_CLOSED },
    { "address", SUCI_E_ADDRESS },
    { "address_in_use", SUCI_E_ADDRESS_IN_USE },
    { "unreachable", SUCI_E_UNREACHABLE },
    { "insecure", SUCI_E_INSECURE },
    { "book", SUCI_E_BOOK },
    { "not_in_book", SUCI_E_NOT_IN_BOOK },
    { "config", SUCI_E_CONFIG },
    { "missing", SUCI_E_MISSING },
    { "environment", SUCI_E_ENVIRONMENT },
    { "no_room", SUCI_E_NO_ROOM },
    { "not_found", SUCI_E_NOT_FOUND },
    { "log_taken", SUCI_E_LOG_TAKEN },
    { NULL, 0 }
};

const char *result_name(int result)
{
    return name_of(RESULTS, (uint32_t)result);
}

void failure_take(struct failure *failure, int result)
{
    failure->result = result;
    failure->message = strdup(suci_last_error_message());
}

/* Raises error(Formal, Context). Context holds the message unless Formal does. */
static foreign_t raise_formal(term_t formal, const char *message)
{
    term_t error = PL_new_term_ref();
    term_t context = PL_new_term_ref();

    if (!PL_is_functor(formal, PL_new_functor(PL_new_atom("suci_error"), 2))
        && !PL_unify_term(context, PL_FUNCTOR_CHARS, "context", 2,
                          PL_VARIABLE, PL_UTF8_STRING, message))
        return FALSE;
    return PL_unify_term(error, PL_FUNCTOR_CHARS, "error", 2, PL_TERM, formal, PL_TERM, context)
        && PL_raise_exception(error);
}

/* Unifies `formal` with the ISO term for a failure. Where ISO has none it is
 * suci_error(Code, Message). */
static int unify_formal(term_t formal, const struct failure *failure, term_t node, term_t subject)
{
    const char *resource = NULL;

    switch (failure->result) {
    case SUCI_E_HANDLE:
    case SUCI_E_CLOSED:
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "existence_error", 2,
                             PL_CHARS, "suci_node", PL_TERM, node);
    case SUCI_E_UNKNOWN_PEER:
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "existence_error", 2,
                             PL_CHARS, "suci_peer", PL_TERM, subject);
    case SUCI_E_SUSPENDED:
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "permission_error", 3,
                             PL_CHARS, "send", PL_CHARS, "suci_peer", PL_TERM, subject);
    case SUCI_E_TIMED_OUT:
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "timeout_error", 2,
                             PL_CHARS, "suci", PL_TERM, subject);
    case SUCI_E_ADDRESS:
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "domain_error", 2,
                             PL_CHARS, "suci_address", PL_TERM, subject);
    case SUCI_E_QUEUE_FULL:
        resource = "suci_send_queue";
        break;
    case SUCI_E_MEMORY_FULL:
        resource = "suci_memory";
        break;
    case SUCI_E_NO_ROOM:
        resource = "suci_receive_buffer";
        break;
    case SUCI_E_TOO_MANY_PEERS:
        resource = "suci_peers";
        break;
    case SUCI_E_CHANNELS:
        resource = "suci_channels";
        break;
    }
    if (resource)
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "resource_error", 1, PL_CHARS, resource);
    if (SUCI_IS_ERRNO(failure->result))
        return PL_unify_term(formal, PL_FUNCTOR_CHARS, "suci_error", 2,
                             PL_FUNCTOR_CHARS, "errno", 1, PL_INT, SUCI_ERRNO(failure->result),
                             PL_UTF8_STRING, failure->message);
    return PL_unify_term(formal, PL_FUNCTOR_CHARS, "suci_error", 2,
                         PL_CHARS, result_name(failure->result),
                         PL_UTF8_STRING, failure->message);
}

foreign_t failure_raise(struct failure *failure, term_t node, term_t subject)
{
    term_t formal = PL_new_term_ref();

    if (!failure->message)
        failure->message = strdup(suci_strerror(failure->result));
    if (!failure->message)
        return PL_resource_error("memory");
    if (node == 0)
        node = PL_new_term_ref();
    if (subject == 0)
        subject = PL_new_term_ref();
    if (unify_formal(formal, failure, node, subject))
        raise_formal(formal, failure->message);
    free(failure->message);
    failure->message = NULL;
    return FALSE;
}

foreign_t check(int result, term_t node, term_t subject)
{
    struct failure failure;

    if (result == SUCI_OK)
        return TRUE;
    if (result == INTERRUPTED)
        return FALSE;
    failure_take(&failure, result);
    return failure_raise(&failure, node, subject);
}
