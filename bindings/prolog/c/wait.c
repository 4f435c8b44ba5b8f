/*
 * wait.c - waiting that Prolog's signals can interrupt.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The calls of the library do not end by a signal. So a call that can be repeated runs in slices of
 * 50 ms: thread_signal/2, alarms and Ctrl-C are handled between them. A call that cannot be
 * repeated, because it sends a request or closes the node, runs in another thread while the Prolog
 * thread waits in such slices. Other Prolog threads go on in both cases. The other threads are kept
 * for a while: to start one for each call would cost several times the round trip of a request.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "suci4pl.h"

/* Bounds the time from a signal to its handler. */
#define SLICE SUCI_MILLISECONDS(50)

/* How often an interrupted job is woken, and how long each wake may take to be noticed. */
#define WAKES 100
#define WAKE_TIME SUCI_MILLISECONDS(10)

int64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct timespec timespec_at(int64_t time)
{
    return (struct timespec){ .tv_sec = time / 1000000000, .tv_nsec = time % 1000000000 };
}

/* Returns the time at which `timeout` is over. */
static int64_t end_of(int64_t timeout)
{
    int64_t now = clock_now();

    return timeout < 0 || timeout > INT64_MAX - now ? INT64_MAX : now + timeout;
}

static int64_t slice_until(int64_t end)
{
    int64_t left = end - clock_now();

    return left < 0 ? 0 : left < SLICE ? left : SLICE;
}

int wait_in_slices(int (*step)(void *context, int64_t slice), void *context, int64_t timeout)
{
    int64_t end = end_of(timeout);

    for (;;) {
        int64_t slice = slice_until(end);
        int result = step(context, slice);

        /* A wake was meant for an interrupted job. */
        if (result == SUCI_E_WOKEN)
            continue;
        if (result != SUCI_E_TIMED_OUT && result != SUCI_E_QUEUE_FULL)
            return result;
        if (PL_handle_signals() < 0)
            return INTERRUPTED;
        if (clock_now() >= end)
            return result;
    }
}

void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct job *job_new(struct node *node, int (*work)(struct job *job))
{
    struct job *job = calloc(1, sizeof *job);

    if (!job) {
        PL_resource_error("memory");
        return NULL;
    }
    job->work = work;
    job->node = node;
    node_enter_again(node);
    pthread_mutex_init(&job->mutex, NULL);
    init_condition(&job->changed);
    return job;
}

void job_free(struct job *job)
{
    suci_message_release(&job->message);
    payload_free(&job->payload);
    PL_free(job->user_header);
    free(job->failure.message);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->mutex);
    node_leave(job->node);
    free(job);
}

/* Does the work of a job and tells who waits for it. */
static void job_work(struct job *job)
{
    int result = job->work(job);
    bool abandoned;

    if (result != SUCI_OK)
        failure_take(&job->failure, result);
    pthread_mutex_lock(&job->mutex);
    job->done = true;
    abandoned = job->abandoned;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->mutex);
    if (abandoned)
        job_free(job);
}

/* A thread that runs jobs. */
struct worker {
    struct job *job;         /* The next one. */
    pthread_cond_t given;    /* There is a job. */
    struct worker *next;     /* In the list of idle workers. */
};

/* How long an idle worker waits for another job. */
#define IDLE_TIME SUCI_SECONDS(10)

/* Guards the list, and the jobs of workers that are in it. */
static pthread_mutex_t workers_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct worker *idle_workers;

static void list_remove(const struct worker *worker)
{
    for (struct worker **link = &idle_workers; *link; link = &(*link)->next) {
        if (*link == worker) {
            *link = worker->next;
            return;
        }
    }
}

/* Waits for another job. Returns false if none came for some time. */
static bool worker_idle(struct worker *worker)
{
    struct timespec until = timespec_at(clock_now() + IDLE_TIME);
    int error = 0;
    bool given;

    pthread_mutex_lock(&workers_mutex);
    worker->job = NULL;
    worker->next = idle_workers;
    idle_workers = worker;
    while (!worker->job && error == 0)
        error = pthread_cond_timedwait(&worker->given, &workers_mutex, &until);
    given = worker->job != NULL;
    if (!given)
        list_remove(worker);
    pthread_mutex_unlock(&workers_mutex);
    return given;
}

static void *worker_thread(void *context)
{
    struct worker *worker = context;

    do {
        job_work(worker->job);
    } while (worker_idle(worker));
    pthread_cond_destroy(&worker->given);
    free(worker);
    return NULL;
}

/* Starts a worker. It handles no signals: they are for Prolog's threads. */
static int worker_start(struct job *job)
{
    struct worker *worker = calloc(1, sizeof *worker);
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, before;
    int error;

    if (!worker)
        return ENOMEM;
    worker->job = job;
    init_condition(&worker->given);
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &detached, worker_thread, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (error) {
        pthread_cond_destroy(&worker->given);
        free(worker);
    }
    return error;
}

/* Gives the job to an idle worker, or to a new one. */
static int job_start(struct job *job)
{
    struct worker *worker;

    pthread_mutex_lock(&workers_mutex);
    worker = idle_workers;
    if (worker) {
        idle_workers = worker->next;
        worker->job = job;
        pthread_cond_signal(&worker->given);
    }
    pthread_mutex_unlock(&workers_mutex);
    return worker ? 0 : worker_start(job);
}

/* The child of a fork has no workers. */
static void forget_workers(void)
{
    idle_workers = NULL;
    pthread_mutex_init(&workers_mutex, NULL);
}

void install_wait(void)
{
    pthread_atfork(NULL, NULL, forget_workers);
}

/* Waits for at most `time` until the job is done. */
static bool job_await(struct job *job, int64_t time)
{
    struct timespec until = timespec_at(clock_now() + time);
    int error = 0;
    bool done;

    pthread_mutex_lock(&job->mutex);
    while (!job->done && error == 0)
        error = pthread_cond_timedwait(&job->changed, &job->mutex, &until);
    done = job->done;
    pthread_mutex_unlock(&job->mutex);
    return done;
}

/* Leaves a job to itself, unless it is done. */
static void job_abandon(struct job *job)
{
    bool done;

    pthread_mutex_lock(&job->mutex);
    done = job->done;
    job->abandoned = !done;
    pthread_mutex_unlock(&job->mutex);
    if (done)
        job_free(job);
}

int job_run(struct job *job)
{
    int error = job_start(job);

    if (error) {
        job_free(job);
        PL_resource_error("threads");
        return INTERRUPTED;
    }
    while (!job_await(job, SLICE)) {
        if (PL_handle_signals() >= 0)
            continue;
        /* A wake may end the wait of another thread instead, which then waits again. */
        for (int wakes = 0; job->wakeable && wakes < WAKES; wakes++) {
            suci_wake(job->node->handle);
            if (job_await(job, WAKE_TIME))
                break;
        }
        job_abandon(job);
        return INTERRUPTED;
    }
    return job->failure.result;
}
