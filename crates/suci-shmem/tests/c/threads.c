/* Threads of each process put, add and wait at the same time, each in a context of its own. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 200 };

static long counter, slots[THREADS], arrived[THREADS];

static void *work(void *argument)
{
    long number = (long)argument;
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;
    shmem_ctx_t ctx;

    check(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx) == 0);
    for (long i = 1; i <= ROUNDS; i++) {
        shmem_ctx_long_atomic_inc(ctx, &counter, 0);
        shmem_ctx_long_p(ctx, &slots[number], i, next);
        shmem_ctx_fence(ctx);
        shmem_ctx_long_p(ctx, &arrived[number], i, next);
        shmem_long_wait_until(&arrived[number], SHMEM_CMP_GE, i);
        check(slots[number] >= i);
    }
    shmem_ctx_quiet(ctx);
    shmem_ctx_destroy(ctx);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int provided;

    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    check(provided == SHMEM_THREAD_MULTIPLE);
    for (long i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    shmem_barrier_all();
    check(shmem_long_g(&counter, 0) == (long)THREADS * ROUNDS * shmem_n_pes());
    shmem_finalize();
    return 0;
}
