/* Two threads of each process make, use and end teams at the same time, each of a parent of its
   own. Half of the processes do so one after the other. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 2, ROUNDS = 40 };

static shmem_team_t parents[THREADS];

/* Each round is long enough that the threads meet in it. */
static void *work(void *argument)
{
    shmem_team_t parent = parents[(long)argument];
    long factor = 3 + (long)argument;
    int n = shmem_team_n_pes(parent);

    for (long i = 0; i < ROUNDS; i++) {
        shmem_team_t team, x, y;
        long source = factor * i, sum = 0;

        check(shmem_team_split_strided(parent, 0, 1, n, NULL, 0, &team) == 0);
        check(shmem_long_sum_reduce(team, &sum, &source, 1) == 0);
        check(sum == factor * i * n);
        check(shmem_team_split_2d(team, 2, NULL, 0, &x, NULL, 0, &y) == 0);
        check(shmem_long_max_reduce(x, &sum, &source, 1) == 0 && sum == source);
        check(shmem_team_sync(y) == 0);
        shmem_team_destroy(y);
        shmem_team_destroy(x);
        shmem_team_destroy(team);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int provided;

    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    check(provided == SHMEM_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++)
        check(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0,
                                       &parents[i]) == 0);
    if (shmem_my_pe() % 2 == 0) {
        for (long i = 0; i < THREADS; i++)
            check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    } else {
        for (long i = THREADS - 1; i >= 0; i--)
            work((void *)i);
    }
    /* And all of them at the same time. */
    for (long i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    shmem_finalize();
    return 0;
}
