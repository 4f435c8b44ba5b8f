/*
 * send.c - sending: messages, broadcasts, requests and replies.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <stdlib.h>
#include <string.h>

#include "suci4pl.h"

/* The header is bytes, in a string, an atom or a list of codes. */
static int apply_user_header(term_t value, struct sending *sending)
{
    char *header;
    size_t length;

    if (!PL_get_nchars(value, &length, &header, CVT_STRING | CVT_ATOM | CVT_LIST | BUF_MALLOC
                                                | REP_ISO_LATIN_1 | CVT_EXCEPTION))
        return FALSE;
    PL_free(sending->user_header);
    sending->user_header = header;
    if (length > SUCI_MAX_USER_HEADER)
        return PL_domain_error("user_header_of_at_most_255_bytes", value);
    sending->options.user_header = header;
    sending->options.user_header_length = (uint8_t)length;
    return TRUE;
}

/* Applies one option. Others are for the Prolog side. */
static int apply_option(term_t option, struct sending *sending)
{
    term_t value = PL_new_term_ref();
    suci_send_options *to = &sending->options;
    atom_t atom;
    size_t arity;
    const char *name;
    int flag;

    if (!PL_get_name_arity(option, &atom, &arity) || arity != 1)
        return PL_type_error("option", option);
    if (!PL_get_arg(1, option, value))
        return FALSE;
    name = PL_atom_chars(atom);
    if (strcmp(name, "timeout") == 0)
        return get_seconds(value, &sending->timeout);
    if (strcmp(name, "channel") == 0)
        return get_u32(value, &to->channel);
    if (strcmp(name, "tag") == 0)
        return get_u64(value, &to->tag);
    if (strcmp(name, "cookie") == 0)
        return get_u64(value, &to->cookie);
    if (strcmp(name, "deadline") == 0)
        return get_seconds(value, &to->deadline);
    if (strcmp(name, "kind") == 0)
        return get_u8(value, &to->kind);
    if (strcmp(name, "notify") == 0) {
        if (!PL_get_bool_ex(value, &flag))
            return FALSE;
        to->flags = flag ? to->flags | SUCI_SEND_NOTIFY : to->flags & ~(uint32_t)SUCI_SEND_NOTIFY;
        return TRUE;
    }
    if (strcmp(name, "user_header") == 0)
        return apply_user_header(value, sending);
    if (strcmp(name, "as") == 0 || strcmp(name, "failed") == 0)
        return TRUE;
    return PL_domain_error("suci_send_option", option);
}

int sending_get(term_t list, struct sending *sending)
{
    term_t tail = PL_copy_term_ref(list);
    term_t head = PL_new_term_ref();

    *sending = (struct sending){ .timeout = SUCI_FOREVER };
    suci_send_options_init(&sending->options);
    while (PL_get_list_ex(tail, head, tail)) {
        if (!apply_option(head, sending)) {
            sending_free(sending);
            return FALSE;
        }
    }
    if (PL_exception(0) == 0 && PL_get_nil_ex(tail))
        return TRUE;
    sending_free(sending);
    return FALSE;
}

void sending_free(struct sending *sending)
{
    PL_free(sending->user_header);
    sending->user_header = NULL;
}

/* Arguments of a send. */
struct slice {
    const struct node *node;
    uint32_t to;
    const struct payload *payload;
    const suci_send_options *options;
    const suci_message *request;
};

static int send_step(void *context, int64_t timeout)
{
    const struct slice *slice = context;

    return suci_sendv(slice->node->handle, slice->to, slice->payload->pieces,
                      slice->payload->count, slice->options, timeout, NULL);
}

static int reply_step(void *context, int64_t timeout)
{
    const struct slice *slice = context;

    return suci_reply(slice->node->handle, slice->request, slice->payload->pieces,
                      slice->payload->count, slice->options, timeout);
}

/* node_send(+Node, +Peer, +Payload, +Options) */
static foreign_t node_send(term_t t, term_t peer, term_t content, term_t list)
{
    struct payload payload;
    struct sending sending;
    struct slice slice = { .payload = &payload, .options = &sending.options };
    struct node *node;
    foreign_t ok = FALSE;

    if (!get_u32(peer, &slice.to) || !payload_get(content, &payload))
        return FALSE;
    if (sending_get(list, &sending)) {
        node = node_enter(t);
        if (node) {
            slice.node = node;
            ok = check(wait_in_slices(send_step, &slice, sending.timeout), t, peer);
            node_leave(node);
        }
        sending_free(&sending);
    }
    payload_free(&payload);
    return ok;
}

/* Reads request(Peer, Channel, Tag, Kind). */
static int get_request(term_t t, suci_message *request)
{
    term_t arg = PL_new_term_ref();

    if (!PL_is_functor(t, PL_new_functor(PL_new_atom("suci_request"), 4)))
        return PL_type_error("suci_request", t);
    request->is_request = 1;
    return PL_get_arg(1, t, arg) && get_u32(arg, &request->from)
        && PL_get_arg(2, t, arg) && get_u32(arg, &request->channel)
        && PL_get_arg(3, t, arg) && get_u64(arg, &request->tag)
        && PL_get_arg(4, t, arg) && get_u8(arg, &request->kind);
}

/* node_reply(+Node, +Request, +Payload, +Options) */
static foreign_t node_reply(term_t t, term_t request_term, term_t content, term_t list)
{
    suci_message request = { .length = 0 };
    struct payload payload;
    struct sending sending;
    struct slice slice = { .payload = &payload, .options = &sending.options, .request = &request };
    term_t peer = PL_new_term_ref();
    struct node *node;
    foreign_t ok = FALSE;

    if (!get_request(request_term, &request) || !PL_get_arg(1, request_term, peer)
        || !payload_get(content, &payload))
        return FALSE;
    if (sending_get(list, &sending)) {
        node = node_enter(t);
        if (node) {
            slice.node = node;
            ok = check(wait_in_slices(reply_step, &slice, sending.timeout), t, peer);
            node_leave(node);
        }
        sending_free(&sending);
    }
    payload_free(&payload);
    return ok;
}

static int call_work(struct job *job)
{
    return suci_call(job->node->handle, job->to, job->payload.pieces, job->payload.count,
                     &job->options, job->timeout, &job->message);
}

/* Makes the job of a request, which owns payload and user header. */
static struct job *call_job(struct node *node, uint32_t to, term_t content, term_t list)
{
    struct job *job = job_new(node, call_work);
    struct sending sending;

    if (!job)
        return NULL;
    job->to = to;
    job->wakeable = true;
    if (!payload_get(content, &job->payload) || !sending_get(list, &sending)) {
        job_free(job);
        return NULL;
    }
    job->options = sending.options;
    job->user_header = sending.user_header;
    job->timeout = sending.timeout;
    return job;
}

/* node_call(+Node, +Peer, +Payload, +Options, +As, -Reply) */
static foreign_t node_call(term_t t, term_t peer, term_t content, term_t list, term_t as_term,
                           term_t reply)
{
    struct node *node;
    struct job *job;
    foreign_t ok = FALSE;
    uint32_t to;
    atom_t as;
    int result;

    if (!get_u32(peer, &to) || !PL_get_atom_ex(as_term, &as))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    job = call_job(node, to, content, list);
    result = job ? job_run(job) : INTERRUPTED;
    if (result == SUCI_OK)
        ok = unify_message(reply, &job->message, as, node);
    else if (result != INTERRUPTED)
        ok = failure_raise(&job->failure, t, peer);
    if (result != INTERRUPTED)
        job_free(job);
    node_leave(node);
    return ok;
}

/* Reads a list of node IDs into memory that the caller frees. */
static int get_peers(term_t list, uint32_t **peers, size_t *count)
{
    term_t tail = PL_copy_term_ref(list);
    term_t head = PL_new_term_ref();

    if (PL_skip_list(list, 0, count) != PL_LIST)
        return PL_type_error("list", list);
    *peers = malloc((*count + 1) * sizeof **peers);
    if (!*peers)
        return PL_resource_error("memory");
    for (size_t i = 0; PL_get_list(tail, head, tail); i++) {
        if (!get_u32(head, &(*peers)[i])) {
            free(*peers);
            return FALSE;
        }
    }
    return TRUE;
}

/* Unifies `t` with a list of Peer-Code of the messages that were not accepted. */
static int unify_failed(term_t t, const uint32_t *peers, const int *results, size_t count)
{
    term_t tail = PL_copy_term_ref(t);
    term_t head = PL_new_term_ref();

    for (size_t i = 0; i < count; i++)
        if (results[i] != SUCI_OK
            && !(PL_unify_list(tail, head, tail)
                 && PL_unify_term(head, PL_FUNCTOR_CHARS, "-", 2, PL_INT64, (int64_t)peers[i],
                                  PL_CHARS, result_name(results[i]))))
            return FALSE;
    return PL_unify_nil(tail);
}

/* node_broadcast(+Node, +Peers, +Payload, +Options, -Failed) */
static foreign_t node_broadcast(term_t t, term_t list, term_t content, term_t options,
                                term_t failed)
{
    struct payload payload;
    struct sending sending;
    struct node *node;
    uint32_t *peers;
    size_t count;
    int *results;
    foreign_t ok = FALSE;

    if (!get_peers(list, &peers, &count))
        return FALSE;
    results = calloc(count + 1, sizeof *results);
    if (results && payload_get(content, &payload)) {
        if (sending_get(options, &sending)) {
            node = node_enter(t);
            if (node) {
                int result = suci_broadcast(node->handle, peers, count, payload.pieces,
                                            payload.count, &sending.options, results);

                ok = (result == SUCI_E_NOT_ALL || check(result, t, 0))
                    && unify_failed(failed, peers, results, count);
                node_leave(node);
            }
            sending_free(&sending);
        }
        payload_free(&payload);
    } else if (!results) {
        PL_resource_error("memory");
    }
    free(results);
    free(peers);
    return ok;
}

/* Arguments of a flush. */
struct flush {
    const struct node *node;
};

static int flush_step(void *context, int64_t slice)
{
    struct flush *flush = context;
    int64_t end = clock_now() + slice;
    int result = suci_flush(flush->node->handle, slice);

    /* The library says the same of messages that are under way, and of those that are lost. */
    if (result == SUCI_E_NOT_FLUSHED && clock_now() >= end)
        return SUCI_E_TIMED_OUT;
    return result;
}

/* node_flush(+Node, +Timeout) */
static foreign_t node_flush(term_t t, term_t seconds)
{
    struct flush flush;
    struct node *node;
    int64_t timeout;
    foreign_t ok;
    int result;

    if (!get_seconds(seconds, &timeout))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    flush.node = node;
    result = wait_in_slices(flush_step, &flush, timeout);
    ok = check(result == SUCI_E_TIMED_OUT ? SUCI_E_NOT_FLUSHED : result, t, 0);
    node_leave(node);
    return ok;
}

void install_send(void)
{
    PL_register_foreign("node_send", 4, node_send, 0);
    PL_register_foreign("node_reply", 4, node_reply, 0);
    PL_register_foreign("node_call", 6, node_call, 0);
    PL_register_foreign("node_broadcast", 5, node_broadcast, 0);
    PL_register_foreign("node_flush", 2, node_flush, 0);
}
