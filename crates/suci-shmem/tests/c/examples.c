/* What examples of the specification do, with checks of what they print. */
#include "check.h"

#include <stdint.h>

static int me, n;

/* shmem_put: the example of section 9.5.1. */
static void example_put(void)
{
    long source[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    static long dest[10];

    if (me == 0)
        shmem_put(dest, source, 10, n - 1);
    shmem_barrier_all();
    if (me == n - 1)
        for (int i = 0; i < 10; i++)
            check(dest[i] == i + 1);
}

/* shmem_iput */
static void example_iput(void)
{
    short source[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    static short dest[10];

    if (me == 0)
        shmem_iput(dest, source, 1, 2, 5, n - 1);
    shmem_barrier_all();
    if (me == n - 1)
        for (int i = 0; i < 5; i++)
            check(dest[i] == 1 + 2 * i);
}

/* shmem_fence and shmem_quiet: a put behind a fence is seen after those before it. */
static void example_fence(void)
{
    long source[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    static long dest[10];
    static int targ, flag;

    if (me == 0) {
        shmem_put(dest, source, 10, n - 1);
        shmem_fence();
        shmem_p(&targ, 90, n - 1);
        shmem_fence();
        shmem_p(&flag, 1, n - 1);
    }
    if (me == n - 1) {
        shmem_wait_until(&flag, SHMEM_CMP_EQ, 1);
        check(targ == 90 && dest[9] == 10);
    }
    shmem_barrier_all();
}

/* shmem_wait_until_any: process the first pieces that come. */
static void example_wait_until_any(void)
{
    enum { N = 100 };
    long total = 0;
    long *my_data = (long *)malloc(N * sizeof(long));
    long *all_data = (long *)shmem_malloc(N * n * sizeof(long));
    int *flags = (int *)shmem_calloc(n, sizeof(int));
    size_t ncompleted = 0;
    int *status = (int *)calloc(n, sizeof(int));

    for (int i = 0; i < N; i++)
        my_data[i] = me * N + i;
    for (int i = 0; i < n; i++)
        shmem_put_nbi(&all_data[me * N], my_data, N, i);
    shmem_fence();
    for (int i = 0; i < n; i++)
        shmem_atomic_set(&flags[me], 1, i);
    while (ncompleted < (size_t)n) {
        size_t done = shmem_wait_until_any(flags, n, status, SHMEM_CMP_NE, 0);
        for (int i = 0; i < N; i++)
            total += all_data[done * N + i];
        status[done] = 1;
        ncompleted++;
    }
    check(total == (long)N * n * (N * n - 1) / 2);
    shmem_barrier_all();
    shmem_free(flags);
    shmem_free(all_data);
    free(status);
    free(my_data);
}

/* shmem_put_signal: a ring. */
static void example_put_signal(void)
{
    enum { N = 2048 };
    static uint64_t sig_addr;
    uint64_t *message = (uint64_t *)shmem_malloc(N * sizeof(uint64_t));
    uint64_t *data = (uint64_t *)shmem_malloc(N * sizeof(uint64_t));

    for (int i = 0; i < N; i++)
        message[i] = me, data[i] = UINT64_MAX;
    shmem_barrier_all();
    shmem_put_signal(data, message, N, &sig_addr, 1, SHMEM_SIGNAL_SET, (me + 1) % n);
    shmem_signal_wait_until(&sig_addr, SHMEM_CMP_EQ, 1);
    for (int i = 0; i < N; i++)
        check(data[i] == (uint64_t)(me + n - 1) % n);
    shmem_barrier_all();
    shmem_free(data);
    shmem_free(message);
}

/* shmem_team_split_2d: three dimensions by two splits. */
static void example_team_split_2d(void)
{
    int xdim = n > 2 ? 2 : 1, ydim = n > 1 ? n / xdim : 1;
    shmem_team_t xteam, yzteam, yteam, zteam;

    check(shmem_team_split_2d(SHMEM_TEAM_WORLD, xdim, NULL, 0, &xteam, NULL, 0, &yzteam) == 0);
    check(shmem_team_split_2d(yzteam, ydim, NULL, 0, &yteam, NULL, 0, &zteam) == 0);
    int x = shmem_team_my_pe(xteam), y = shmem_team_my_pe(yteam), z = shmem_team_my_pe(zteam);
    check(x + xdim * (y + ydim * z) == me);
    check(shmem_team_sync(zteam) == 0 && shmem_team_sync(yteam) == 0);
    shmem_team_destroy(zteam);
    shmem_team_destroy(yteam);
    shmem_team_destroy(yzteam);
    shmem_team_destroy(xteam);
}

/* Reductions: even and odd processes, as of the section on shmem_xor_reduce. */
static void example_reduce(void)
{
    static int values[2], result[2];
    static float least, value;

    values[0] = me, values[1] = me + 1;
    shmem_sync_all();
    check(shmem_sum_reduce(SHMEM_TEAM_WORLD, result, values, 2) == 0);
    check(result[0] == n * (n - 1) / 2 && result[1] == n * (n + 1) / 2);
    check(shmem_and_reduce(SHMEM_TEAM_WORLD, result, values, 1) == 0 && result[0] == 0);
    value = 10.0f - me;
    check(shmem_min_reduce(SHMEM_TEAM_WORLD, &least, &value, 1) == 0 && least == 11.0f - n);
}

/* A lock around a counter, as of the section on locks. */
static void example_lock(void)
{
    static long lock;
    static int count;

    shmem_set_lock(&lock);
    int val = shmem_g(&count, 0);
    val++;
    shmem_p(&count, val, 0);
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    check(shmem_atomic_fetch(&count, 0) == n);
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    example_put();
    example_iput();
    example_fence();
    example_wait_until_any();
    example_put_signal();
    example_team_split_2d();
    example_reduce();
    example_lock();
    shmem_finalize();
    return 0;
}
