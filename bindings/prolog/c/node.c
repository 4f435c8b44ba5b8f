/*
 * node.c - nodes as blobs: opened, closed by the program or by garbage collection.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <stdlib.h>
#include <string.h>

#include "suci4pl.h"

/* How long suci_close/2 waits for other threads to leave the node. */
#define LEAVE_TIME SUCI_SECONDS(1)

/* All nodes whose blob exists: at the end of Prolog blobs are not released. */
static struct node *nodes;
static pthread_mutex_t nodes_mutex = PTHREAD_MUTEX_INITIALIZER;

static void list_add(struct node *node)
{
    pthread_mutex_lock(&nodes_mutex);
    node->next = nodes;
    nodes = node;
    pthread_mutex_unlock(&nodes_mutex);
}

static void list_remove(const struct node *node)
{
    pthread_mutex_lock(&nodes_mutex);
    for (struct node **link = &nodes; *link; link = &(*link)->next) {
        if (*link == node) {
            *link = node->next;
            break;
        }
    }
    pthread_mutex_unlock(&nodes_mutex);
}

/* Gives the handle back once no call is inside. The mutex is held. */
static bool may_free_handle(struct node *node)
{
    bool now = node->closed && !node->freed && node->users == 0;

    if (now)
        node->freed = true;
    return now;
}

/* Ends what the caller did under the mutex: frees what nobody can reach any more. */
static void node_unlock(struct node *node)
{
    bool free_handle = may_free_handle(node);
    bool free_struct = node->orphan && node->users == 0;
    suci_node handle = node->handle;

    pthread_cond_broadcast(&node->left);
    pthread_mutex_unlock(&node->mutex);
    /* If garbage collection came in between, it has freed the struct. */
    if (free_handle)
        suci_node_free(handle);
    if (free_struct) {
        pthread_cond_destroy(&node->left);
        pthread_mutex_destroy(&node->mutex);
        free(node);
    }
}

void node_enter_again(struct node *node)
{
    pthread_mutex_lock(&node->mutex);
    node->users++;
    pthread_mutex_unlock(&node->mutex);
}

void node_leave(struct node *node)
{
    pthread_mutex_lock(&node->mutex);
    node->users--;
    node_unlock(node);
}

void node_drop_queue(struct node *node)
{
    struct queued *queue;
    size_t queued;

    pthread_mutex_lock(&node->mutex);
    queue = node->queue;
    queued = node->queued;
    node->queue = NULL;
    node->queued = node->queue_room = 0;
    pthread_mutex_unlock(&node->mutex);
    for (size_t i = 0; i < queued; i++)
        PL_unregister_atom(queue[i].packet);
    free(queue);
}

/* Closes the node if the program did not: garbage collection calls this. */
static int node_release(atom_t atom)
{
    struct node *node = PL_blob_data(atom, NULL, NULL);

    list_remove(node);
    node_drop_queue(node);
    pthread_mutex_lock(&node->mutex);
    node->closed = true;
    node->orphan = true;
    node_unlock(node);
    return TRUE;
}

/* Closes all open nodes, so that their peers hear of the end at once. Prolog ended its threads
 * before, so that no call is inside. */
static int close_all(int status, void *context)
{
    struct node *node;

    (void)status;
    (void)context;
    for (;;) {
        pthread_mutex_lock(&nodes_mutex);
        node = nodes;
        if (node)
            nodes = node->next;
        pthread_mutex_unlock(&nodes_mutex);
        if (!node)
            return 0;
        pthread_mutex_lock(&node->mutex);
        node->closed = true;
        node_unlock(node);
    }
}

static int node_write(IOSTREAM *stream, atom_t atom, int flags)
{
    const struct node *node = PL_blob_data(atom, NULL, NULL);

    (void)flags;
    Sfprintf(stream, "<suci_node>(%u,%p)", node->id, (const void *)node);
    return TRUE;
}

static PL_blob_t NODE = {
    .magic = PL_BLOB_MAGIC,
    .flags = PL_BLOB_NOCOPY,
    .name = "suci_node",
    .release = node_release,
    .write = node_write,
};

struct node *node_enter(term_t t)
{
    struct node *node;
    PL_blob_t *type;
    void *data;
    bool closed;

    if (!PL_get_blob(t, &data, NULL, &type) || type != &NODE) {
        if (PL_is_variable(t))
            PL_instantiation_error(t);
        else
            PL_type_error("suci_node", t);
        return NULL;
    }
    node = data;
    pthread_mutex_lock(&node->mutex);
    closed = node->closed;
    if (!closed)
        node->users++;
    pthread_mutex_unlock(&node->mutex);
    if (closed) {
        PL_existence_error("suci_node", t);
        return NULL;
    }
    return node;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Sets one field from the value of an option. */
struct setting {
    const char *name;
    enum { U32, U64, SECONDS, FLAG, TEXT, NAME } type;
    size_t offset;
    const struct name *names;
};

#define FIELD(name, type) { #name, type, offsetof(suci_node_options, name), NULL }
#define NAMED(name, names) { #name, NAME, offsetof(suci_node_options, name), names }

static const struct setting SETTINGS[] = {
    FIELD(threads, U32),
    FIELD(listen, TEXT),
    FIELD(book_file, TEXT),
    FIELD(metrics, TEXT),
    FIELD(faults, TEXT),
    NAMED(accept, ACCEPTS),
    NAMED(mode, MODES),
    NAMED(controller, CONTROLLERS),
    NAMED(wait, WAITS),
    FIELD(controller_window, U64),
    FIELD(spin, SECONDS),
    FIELD(rate_cap, U64),
    FIELD(memory, U64),
    FIELD(max_message, U64),
    FIELD(send_queue, U64),
    FIELD(rts_threshold, U64),
    FIELD(max_peers, U64),
    FIELD(silence_timeout, SECONDS),
    FIELD(give_up_after, SECONDS),
    FIELD(max_ack_delay, SECONDS),
    FIELD(max_datagram, U64),
    FIELD(recv_buffer, U64),
    FIELD(send_buffer, U64),
    FIELD(recv_slot, U64),
    FIELD(allow_insecure_network, FLAG),
    FIELD(payload_checksum, FLAG),
    FIELD(unattended, FLAG),
    FIELD(keep_alive, FLAG),
    FIELD(statistics, FLAG),
    FIELD(ecn, FLAG),
    FIELD(gso, FLAG),
    FIELD(gro, FLAG),
    FIELD(reuse_port, FLAG),
    FIELD(only_v6, FLAG),
    FIELD(ignore_supervision, FLAG),
};

#define SETTING_COUNT (sizeof SETTINGS / sizeof SETTINGS[0])

/* The options while they are read. `texts` are to be freed. */
struct opening {
    suci_node_options options;
    char *texts[8];
    size_t text_count;
    char *book;
    int trust;
};

static int keep_text(struct opening *opening, term_t value, char **text)
{
    if (opening->text_count == sizeof opening->texts / sizeof opening->texts[0])
        return PL_domain_error("suci_option_given_once", value);
    if (!get_text(value, text))
        return FALSE;
    opening->texts[opening->text_count++] = *text;
    return TRUE;
}

static int apply_setting(const struct setting *setting, term_t value, struct opening *opening)
{
    char *field = (char *)&opening->options + setting->offset;
    int flag;

    switch (setting->type) {
    case U32:
        return get_u32(value, (uint32_t *)(void *)field);
    case U64:
        return get_u64(value, (uint64_t *)(void *)field);
    case SECONDS:
        return get_seconds(value, (int64_t *)(void *)field);
    case NAME:
        return get_name(value, setting->names, setting->name, (uint32_t *)(void *)field);
    case TEXT:
        return keep_text(opening, value, (char **)(void *)field);
    case FLAG:
        if (!PL_get_bool_ex(value, &flag))
            return FALSE;
        *(uint8_t *)field = (uint8_t)flag;
        return TRUE;
    }
    return FALSE;
}

/* Applies one option, Name(Value). `book` is text here: the Prolog side writes it. */
static int apply_option(term_t option, struct opening *opening)
{
    term_t value = PL_new_term_ref();
    uint32_t id;
    atom_t atom;
    size_t arity;
    const char *name;

    if (!PL_get_name_arity(option, &atom, &arity) || arity != 1)
        return PL_type_error("option", option);
    if (!PL_get_arg(1, option, value))
        return FALSE;
    name = PL_atom_chars(atom);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strcmp(SETTINGS[i].name, name) == 0)
            return apply_setting(&SETTINGS[i], value, opening);
    if (strcmp(name, "id") == 0) {
        if (!get_u32(value, &id))
            return FALSE;
        opening->options.id = id;
        return TRUE;
    }
    if (strcmp(name, "trust") == 0)
        return PL_get_bool_ex(value, &opening->trust);
    if (strcmp(name, "book") == 0)
        return keep_text(opening, value, &opening->book);
    return PL_domain_error("suci_open_option", option);
}

static int apply_options(term_t list, struct opening *opening)
{
    term_t tail = PL_copy_term_ref(list);
    term_t head = PL_new_term_ref();

    while (PL_get_list_ex(tail, head, tail))
        if (!apply_option(head, opening))
            return FALSE;
    return PL_exception(0) == 0 && PL_get_nil_ex(tail);
}

/* Opens the node, with a book of its own if one was given. */
static int open_with(struct opening *opening, suci_node *handle)
{
    suci_book book = { 0 };
    int result;

    if (opening->book) {
        result = suci_book_parse(opening->book, "book", &book);
        if (result != SUCI_OK)
            return result;
        opening->options.book = book;
    }
    result = suci_node_open(&opening->options, handle);
    if (opening->book)
        suci_book_free(book);
    return result;
}

static struct node *node_new(suci_node handle, bool trust)
{
    struct node *node = calloc(1, sizeof *node);

    if (!node)
        return NULL;
    node->handle = handle;
    node->trust = trust;
    suci_node_id(handle, &node->id);
    pthread_mutex_init(&node->mutex, NULL);
    init_condition(&node->left);
    return node;
}

/* node_open(-Node, +Options) */
static foreign_t node_open(term_t t, term_t list)
{
    struct opening opening = { .text_count = 0 };
    suci_node handle;
    struct node *node = NULL;
    foreign_t ok;

    suci_node_options_init(&opening.options);
    ok = apply_options(list, &opening) && check(open_with(&opening, &handle), 0, 0);
    for (size_t i = 0; i < opening.text_count; i++)
        PL_free(opening.texts[i]);
    if (!ok)
        return FALSE;
    node = node_new(handle, opening.trust);
    if (!node) {
        suci_node_free(handle);
        return PL_resource_error("memory");
    }
    list_add(node);
    return PL_unify_blob(t, node, sizeof *node, &NODE);
}

/* ---- Closing ------------------------------------------------------------------------------- */

static int close_work(struct job *job)
{
    return suci_node_close(job->node->handle, job->timeout);
}

/* Waits until this call is the only one inside, so that the handle is given back at once. */
static void await_others(struct node *node)
{
    struct timespec until = timespec_at(clock_now() + LEAVE_TIME);
    int error = 0;

    pthread_mutex_lock(&node->mutex);
    while (node->users > 1 && error == 0)
        error = pthread_cond_timedwait(&node->left, &node->mutex, &until);
    pthread_mutex_unlock(&node->mutex);
}

static void set_closed(struct node *node, bool closed)
{
    pthread_mutex_lock(&node->mutex);
    node->closed = closed;
    pthread_mutex_unlock(&node->mutex);
}

/* Runs the close in a job, and raises what went wrong. */
static foreign_t close_entered(struct node *node, term_t t, int64_t patience)
{
    struct job *job = job_new(node, close_work);
    foreign_t ok = TRUE;
    int result;

    if (!job)
        return FALSE;
    job->timeout = patience;
    result = job_run(job);
    if (result == INTERRUPTED)
        return FALSE;
    /* Another thread is inside a caller-driven node: nothing happened. */
    if (result == SUCI_E_BUSY)
        set_closed(node, false);
    if (result != SUCI_OK)
        ok = failure_raise(&job->failure, t, 0);
    job_free(job);
    if (result != SUCI_E_BUSY)
        await_others(node);
    return ok;
}

/* node_close(+Node, +Patience): no call may enter from now on. */
static foreign_t node_close(term_t t, term_t seconds)
{
    int64_t patience;
    struct node *node;
    foreign_t ok;

    if (!get_seconds(seconds, &patience))
        return FALSE;
    node = node_enter(t);
    if (!node)
        return FALSE;
    set_closed(node, true);
    node_drop_queue(node);
    ok = close_entered(node, t, patience);
    node_leave(node);
    return ok;
}

/* node_is_open(@Term) is semidet: an open node. */
static foreign_t node_is_open(term_t t)
{
    PL_blob_t *type;
    void *data;
    struct node *node;
    bool open;

    if (!PL_get_blob(t, &data, NULL, &type) || type != &NODE)
        return FALSE;
    node = data;
    pthread_mutex_lock(&node->mutex);
    open = !node->closed;
    pthread_mutex_unlock(&node->mutex);
    return open;
}

void install_node(void)
{
    PL_exit_hook(close_all, NULL);
    PL_register_foreign("node_open", 2, node_open, 0);
    PL_register_foreign("node_close", 2, node_close, 0);
    PL_register_foreign("node_is_open", 1, node_is_open, 0);
}
