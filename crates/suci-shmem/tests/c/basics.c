/* The functions of each kind, among any number of processes. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <stdint.h>
#ifndef __cplusplus
#include <complex.h>
#endif
#include <unistd.h>

enum { MOST = 16, LARGE = 300000 };

static int me, n, next, previous;

/* Variables of .bss, of .data, and of a function. */
static long zero[MOST];
static long seven[4] = { 7, 7, 7, 7 };
static uint64_t word;
static long lock_of_all;
static long pSync[SHMEM_REDUCE_SYNC_SIZE];

static void test_setup(void)
{
    int major, minor, provided;
    char name[SHMEM_MAX_NAME_LEN];

    shmem_info_get_version(&major, &minor);
    check(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION);
    shmem_info_get_name(name);
    check(strcmp(name, SHMEM_VENDOR_STRING) == 0);
    shmem_query_thread(&provided);
    check(provided == SHMEM_THREAD_MULTIPLE);
    check(shmem_pe_accessible(n - 1) && !shmem_pe_accessible(n) && !shmem_pe_accessible(-1));
    check(shmem_addr_accessible(zero, next) && !shmem_addr_accessible(&major, me));
    check(shmem_ptr(zero, me) == zero && (n == 1 || shmem_ptr(zero, next) == NULL));
    shmem_pcontrol(1, "ignored");
}

static void test_heap(void)
{
    char *small = (char *)shmem_malloc(10);
    long *aligned = (long *)shmem_align(4096, 3 * sizeof(long));
    int *zeros = (int *)shmem_calloc(100, sizeof(int));

    check(small && aligned && zeros && (uintptr_t)aligned % 4096 == 0);
    check(shmem_malloc(0) == NULL && shmem_align(3, 8) == NULL);
    check(shmem_malloc((size_t)1 << 50) == NULL);
    for (int i = 0; i < 100; i++)
        check(zeros[i] == 0);
    shmem_long_p(&aligned[2], me, next);
    memset(small, 'a' + me, 10);
    small = (char *)shmem_realloc(small, 1000);
    check(small && small[9] == 'a' + me);
    small = (char *)shmem_realloc(small, 5);
    check(small && small[4] == 'a' + me);
    check(aligned[2] == previous);
    shmem_free(small);
    shmem_free(NULL);
    shmem_free(aligned);
    shmem_free(zeros);
    char *whole = (char *)shmem_malloc_with_hints(1000, SHMEM_MALLOC_ATOMICS_REMOTE);
    check(whole != NULL);
    shmem_free(whole);
}

static void test_moves(void)
{
    int *large = (int *)shmem_malloc(LARGE * sizeof(int));
    int *mine = (int *)malloc(LARGE * sizeof(int));
    static short strided[12];
    short few[4] = { 1, 2, 3, 4 }, got[4] = { 0, 0, 0, 0 };
    static double number;
    static long double longest;

    for (int i = 0; i < LARGE; i++)
        mine[i] = me * 1000 + i;
    shmem_int_put(large, mine, LARGE, next);
    shmem_barrier_all();
    for (int i = 0; i < LARGE; i++)
        check(large[i] == previous * 1000 + i);
    memset(mine, 0, LARGE * sizeof(int));
    shmem_getmem(mine, large, LARGE * sizeof(int), next);
    for (int i = 0; i < LARGE; i++)
        check(mine[i] == me * 1000 + i);
    shmem_short_iput(strided, few, 3, 1, 4, next);
    shmem_barrier_all();
    for (int i = 0; i < 12; i++)
        check(strided[i] == (i % 3 ? 0 : i / 3 + 1));
    shmem_short_iget(got, strided, 1, 3, 4, next);
    check(memcmp(got, few, sizeof few) == 0);
    shmem_double_p(&number, me + 0.5, next);
    shmem_longdouble_p(&longest, me + 0.25L, next);
    shmem_put64_nbi(zero, seven, 1, next);
    shmem_quiet();
    shmem_barrier_all();
    check(number == previous + 0.5 && zero[0] == 7);
    check(shmem_double_g(&number, next) == me + 0.5);
    check(shmem_longdouble_g(&longest, next) == me + 0.25L);
    /* More gets at once than are kept, into symmetric memory, and one into other memory. */
    static long many[5000], other[5000];
    long few_of_them[3];
    for (int i = 0; i < 5000; i++)
        other[i] = me * 5000 + i;
    shmem_barrier_all();
    for (int i = 0; i < 5000; i++)
        shmem_long_get_nbi(&many[i], &other[i], 1, next);
    shmem_long_get_nbi(few_of_them, &other[7], 3, next);
    shmem_quiet();
    for (int i = 0; i < 5000; i++)
        check(many[i] == next * 5000 + i);
    check(few_of_them[2] == next * 5000 + 9);
    /* Nothing, to nowhere. */
    shmem_putmem(NULL, NULL, 0, next);
    shmem_getmem(NULL, NULL, 0, next);
    shmem_barrier_all();
    zero[0] = 0;
    shmem_free(large);
    free(mine);
}

static void test_atomics(void)
{
    static int count;
    static unsigned int bits;
    static float real;
    static long long winner;
    int before;

    for (int i = 0; i < 50; i++) {
        before = shmem_int_atomic_fetch_inc(&count, 0);
        check(before >= 0 && before < 150 * n);
        shmem_int_atomic_add(&count, 2, 0);
    }
    shmem_uint_atomic_or(&bits, 1u << me, 0);
    shmem_longlong_atomic_compare_swap(&winner, 0, me + 1, 0);
    shmem_float_atomic_set(&real, me + 1.5f, next);
    shmem_barrier_all();
    check(shmem_int_atomic_fetch(&count, 0) == 150 * n);
    check(shmem_uint_atomic_fetch_and(&bits, ~0u, 0) == (1u << n) - 1);
    check(shmem_longlong_g(&winner, 0) >= 1 && shmem_longlong_g(&winner, 0) <= n);
    check(real == previous + 1.5f);
    unsigned int were = 0;
    long long had[2] = { 0, -1 };
    shmem_int_atomic_fetch_add_nbi(&before, &count, 0, 0);
    shmem_uint_atomic_fetch_xor_nbi(&were, &bits, 0, 0);
    shmem_longlong_atomic_compare_swap_nbi(&had[0], &winner, 0, me + 1, 0);
    shmem_quiet();
    check(before == 150 * n && were == (1u << n) - 1);
    check(had[0] == shmem_longlong_g(&winner, 0) && had[1] == -1);
    check(shmem_float_atomic_swap(&real, -1, me) == previous + 1.5f && real == -1);
    shmem_barrier_all();
}

static void test_signals_and_waits(void)
{
    static char text[LARGE];
    static int flags[MOST];
    int status[MOST] = { 0 };
    size_t indices[MOST];
    char *data = (char *)malloc(LARGE);

    memset(data, 'x', LARGE);
    shmem_char_put_signal(text, data, LARGE, &word, 5, SHMEM_SIGNAL_SET, next);
    check(shmem_signal_wait_until(&word, SHMEM_CMP_NE, 0) == 5);
    check(text[0] == 'x' && text[LARGE - 1] == 'x');
    shmem_barrier_all();
    shmem_putmem_signal_nbi(text, "y", 1, &word, 2, SHMEM_SIGNAL_ADD, next);
    shmem_uint64_wait_until(&word, SHMEM_CMP_EQ, 7);
    check(text[0] == 'y' && text[1] == 'x' && shmem_signal_fetch(&word) == 7);

    for (int pe = 0; pe < n; pe++)
        shmem_int_p(&flags[me], me + 1, pe);
    shmem_int_wait_until_all(flags, n, NULL, SHMEM_CMP_GT, 0);
    check(shmem_int_test_all(flags, n, status, SHMEM_CMP_NE, 0));
    check(shmem_int_test_some(flags, n, indices, status, SHMEM_CMP_GE, 1) == (size_t)n);
    check(indices[n - 1] == (size_t)n - 1);
    for (int left = n; left > 0; left--) {
        size_t found = shmem_int_wait_until_any(flags, n, status, SHMEM_CMP_GT, 0);
        check(found < (size_t)n && !status[found]);
        status[found] = 1;
    }
    check(shmem_int_wait_until_any(flags, n, status, SHMEM_CMP_GT, 0) == SIZE_MAX);
    check(shmem_int_test_any(flags, n, NULL, SHMEM_CMP_EQ, -1) == SIZE_MAX);
    size_t some = shmem_int_wait_until_some_vector(flags, n, indices, NULL, SHMEM_CMP_EQ, flags);
    check(some == (size_t)n);
    check(shmem_int_test(flags, SHMEM_CMP_LE, 1) && !shmem_int_test(flags, SHMEM_CMP_LT, 1));
    shmem_barrier_all();
    free(data);
}

static void test_teams(void)
{
    shmem_team_t even, row, column, pair;
    shmem_team_config_t config = { 3 }, got = { 0 };
    char packed[sizeof got + 1];
    shmem_ctx_t ctx;
    int size = (n + 1) / 2;

    check(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == n);
    check(shmem_team_n_pes(SHMEM_TEAM_SHARED) >= 1 && shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1);
    /* As processes do that are not in the team of a context. */
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    check(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, size, &config,
                                   SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
    check((even == SHMEM_TEAM_INVALID) == (me % 2 != 0));
    check(shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, even) == (me % 2 ? -1 : me / 2));
    if (even != SHMEM_TEAM_INVALID) {
        long sum = -1, one = me;
        check(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == size);
        check(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0);
        /* Also within a packed structure. */
        check(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS,
                                    (shmem_team_config_t *)(packed + 1)) == 0);
        check(memcmp(packed + 1, &got, sizeof got) == 0);
        check(got.num_contexts == 3);
        check(shmem_long_sum_reduce(even, &sum, &one, 1) == 0 && sum == (long)size * (size - 1));
        /* Numbers of processes are those of the context's team. */
        check(shmem_team_create_ctx(even, SHMEM_CTX_SERIALIZED, &ctx) == 0);
        shmem_ctx_long_p(ctx, &zero[1], me, (me / 2 + 1) % size);
        shmem_ctx_quiet(ctx);
        check(shmem_team_sync(even) == 0);
        check(zero[1] == (me + 2 * size - 2) % (2 * size));
        check(shmem_ctx_get_team(ctx, &pair) == 0 && pair == even);
        shmem_ctx_destroy(ctx);
        check(shmem_ctx_get_team(ctx, &pair) != 0 && pair == SHMEM_TEAM_INVALID);
        shmem_team_destroy(even);
    }
    check(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n + 1, NULL, 0, &pair) != 0);
    check(pair == SHMEM_TEAM_INVALID);
    for (int times = 0; times < 20; times++) {
        check(shmem_team_split_2d(SHMEM_TEAM_WORLD, 3, NULL, 0, &row, NULL, 0, &column) == 0);
        check(shmem_team_my_pe(row) == me % 3 && shmem_team_my_pe(column) == me / 3);
        shmem_team_sync(column);
        shmem_team_sync(row);
        shmem_team_destroy(row);
        shmem_team_destroy(column);
    }
    check(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
    shmem_ctx_long_atomic_inc(ctx, &zero[2], 0);
    shmem_ctx_fence(ctx);
    shmem_ctx_destroy(ctx);
    shmem_barrier_all();
    check(shmem_long_g(&zero[2], 0) == n);
}

/* Operations of contexts are complete after the quiet of their own one. */
static void test_contexts(void)
{
    static long place[2], got[2];
    shmem_ctx_t one, other, many[300];
    int next = (me + 1) % n, made = 0;

    check(shmem_ctx_create(0, &one) == 0);
    check(shmem_ctx_create(SHMEM_CTX_NOSTORE, &other) == 0);
    place[0] = 10 + me;
    place[1] = 20 + me;
    shmem_barrier_all();
    shmem_ctx_long_get_nbi(one, &got[0], &place[0], 1, next);
    shmem_ctx_long_atomic_fetch_nbi(other, &got[1], &place[1], next);
    shmem_ctx_quiet(one);
    check(got[0] == 10 + next);
    shmem_ctx_quiet(other);
    check(got[1] == 20 + next);
    shmem_barrier_all();
    shmem_ctx_long_put_nbi(one, &place[0], &got[1], 1, next);
    shmem_ctx_fence(one);
    shmem_ctx_long_iput(one, &place[1], &got[0], 1, 1, 1, next);
    shmem_ctx_destroy(one);
    shmem_ctx_destroy(other);
    shmem_barrier_all();
    check(place[0] == 20 + me && place[1] == 10 + me);
    shmem_barrier_all();
    /* A node has 255 contexts beside the default one; destroyed ones leave their places. */
    for (int times = 0; times < 2; times++) {
        for (made = 0; made < 300 && shmem_ctx_create(0, &many[made]) == 0; made++)
            shmem_ctx_long_p(many[made], &place[0], made, next);
        check(made == 255 && many[made] == SHMEM_CTX_INVALID);
        while (made > 0)
            shmem_ctx_destroy(many[--made]);
    }
    shmem_barrier_all();
}

static void test_collectives(void)
{
    int source[2 * MOST], dest[2 * MOST * MOST];
    double _Complex turn = 1, product = 0;
    long double most = 0, own = me;

    for (int i = 0; i < 2 * MOST; i++)
        source[i] = 100 * me + i;
    check(shmem_int_broadcast(SHMEM_TEAM_WORLD, dest, source, 4, n - 1) == 0);
    check(dest[0] == 100 * (n - 1) && dest[3] == 100 * (n - 1) + 3);
    check(shmem_int_fcollect(SHMEM_TEAM_WORLD, dest, source, 2) == 0);
    for (int i = 0; i < 2 * n; i++)
        check(dest[i] == 100 * (i / 2) + i % 2);
    /* Process i gives i elements. */
    check(shmem_int_collect(SHMEM_TEAM_WORLD, dest, source, me) == 0);
    for (int pe = 0, at = 0; pe < n; at += pe, pe++)
        for (int i = 0; i < pe; i++)
            check(dest[at + i] == 100 * pe + i);
    check(shmem_alltoallmem(SHMEM_TEAM_WORLD, dest, source, 2 * sizeof(int)) == 0);
    for (int i = 0; i < 2 * n; i++)
        check(dest[i] == 100 * (i / 2) + 2 * me + i % 2);
    check(shmem_int_alltoalls(SHMEM_TEAM_WORLD, dest, source, 2, 1, 1) == 0);
    for (int i = 0; i < n; i++)
        check(dest[2 * i] == 100 * i + me);
    check(shmem_int_max_reduce(SHMEM_TEAM_WORLD, source, source, 2) == 0);
    check(source[0] == 100 * (n - 1) && source[1] == 100 * (n - 1) + 1);
    check(shmem_longdouble_max_reduce(SHMEM_TEAM_WORLD, &most, &own, 1) == 0 && most == n - 1);
#ifndef __cplusplus
    turn = I;
#endif
    check(shmem_complexd_prod_reduce(SHMEM_TEAM_WORLD, &product, &turn, 1) == 0);
    check(n != 4 || product == 1);
}

static void test_active_sets(void)
{
    static int sum, one = 1, all[MOST];
    static int work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

    /* The processes from 1 on. */
    if (me > 0) {
        shmem_int_sum_to_all(&sum, &one, 1, 1, 0, n - 1, work, pSync);
        check(sum == n - 1);
        one = me;
        shmem_fcollect32(all, &one, 1, 1, 0, n - 1, pSync);
        for (int i = 1; i < n; i++)
            check(all[i - 1] == i);
        all[0] = -1;
        shmem_broadcast32(all, &one, 1, 0, 1, 0, n - 1, pSync);
        check(all[0] == (me == 1 ? -1 : 1));
        shmem_barrier(1, 0, n - 1, pSync);
    }
    shmem_sync_all();
    if (me % 2 == 0)
        shmem_sync(0, 1, (n + 1) / 2, pSync);
}

static void test_locks(void)
{
    static long unguarded;
    int taken = 0;

    for (int i = 0; i < 20; i++) {
        shmem_set_lock(&lock_of_all);
        long value = shmem_long_g(&unguarded, n - 1);
        shmem_long_p(&unguarded, value + 1, n - 1);
        shmem_clear_lock(&lock_of_all);
    }
    while (taken < 5) {
        if (shmem_test_lock(&lock_of_all) == 0) {
            taken++;
            shmem_long_p(&unguarded, shmem_long_g(&unguarded, n - 1) + 1, n - 1);
            shmem_clear_lock(&lock_of_all);
        }
    }
    shmem_barrier_all();
    check(shmem_long_g(&unguarded, n - 1) == 25L * n);
    /* The process that holds the lock tests it while the others wait for it. */
    if (me == 0)
        shmem_set_lock(&lock_of_all);
    shmem_barrier_all();
    if (me == 0) {
        for (int i = 0; i < 10; i++) {
            usleep(10000);
            check(shmem_test_lock(&lock_of_all) == 1);
        }
    } else {
        shmem_set_lock(&lock_of_all);
    }
    shmem_clear_lock(&lock_of_all);
    shmem_barrier_all();
    check(lock_of_all == 0);
}

int main(void)
{
    int provided;

    check(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    test_setup();
    test_heap();
    test_moves();
    test_atomics();
    test_signals_and_waits();
    test_teams();
    test_contexts();
    test_collectives();
    test_active_sets();
    test_locks();
    shmem_finalize();
    return 0;
}
