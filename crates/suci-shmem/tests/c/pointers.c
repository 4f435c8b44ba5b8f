/* Memory of other processes as memory of this one: `shared`, or `apart`; or `mixed`, where one
   process shares none. */
#include "check.h"

enum { WORDS = 1000 };

static long variable;

/* The process that shares no memory, where there is one. */
enum { LONER = 2 };

static int is_there(const void *place, int pe, int shared)
{
    void *there = shmem_ptr(place, pe);
    return shared || pe == shmem_my_pe() ? there != NULL : there == NULL;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int mixed = strcmp(mode, "mixed") == 0;

    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;
    long *words = (long *)shmem_calloc(WORDS, sizeof(long));
    long *sum = (long *)shmem_calloc(1, sizeof(long));
    int sharing = 0;
    for (int pe = 0; pe < n; pe++) {
        int shared = strcmp(mode, "shared") == 0 || (mixed && me != LONER && pe != LONER);
        check(is_there(&words[7], pe, shared));
        /* The team has the processes whose heaps have addresses here. */
        int member = shmem_ptr(words, pe) != NULL;
        int rank = shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED);
        check(rank == (member ? sharing : -1));
        check(!member || shmem_team_ptr(SHMEM_TEAM_SHARED, words, rank) == shmem_ptr(words, pe));
        check(pe != me || rank == shmem_team_my_pe(SHMEM_TEAM_SHARED));
        sharing += member;
        check(shmem_team_ptr(SHMEM_TEAM_WORLD, &words[7], pe) == shmem_ptr(&words[7], pe));
        check(shmem_ptr(&variable, pe) == (pe == me ? &variable : NULL));
        check(shmem_ptr(&me, pe) == NULL);
    }
    check(sharing == shmem_team_n_pes(SHMEM_TEAM_SHARED));
    long members = 0;
    static long one = 1;
    check(shmem_long_sum_reduce(SHMEM_TEAM_SHARED, &members, &one, 1) == 0 && members == sharing);
    /* Its members make teams of some of them. */
    shmem_team_t last;
    check(shmem_team_split_strided(SHMEM_TEAM_SHARED, sharing - 1, 1, 1, NULL, 0, &last) == 0);
    check((last != SHMEM_TEAM_INVALID) == (shmem_team_my_pe(SHMEM_TEAM_SHARED) == sharing - 1));
    shmem_team_destroy(last);
    shmem_team_sync(SHMEM_TEAM_SHARED);
    /* Stores and library calls reach the same memory. */
    long *there = (long *)shmem_ptr(words, next);
    if (there)
        there[3] = 100 + me;
    else
        shmem_long_p(&words[3], 100 + me, next);
    for (int i = 0; i < 1000; i++) {
        shmem_long_atomic_add(sum, 1, 0);
        shmem_long_atomic_add(&variable, 1, 0);
    }
    shmem_barrier_all();
    check(words[3] == 100 + (me + n - 1) % n);
    check(shmem_long_g(&words[3], next) == 100 + me);
    if (me == 0)
        check(*sum == 1000 * n && variable == 1000 * n);
    /* A signal comes after its data. */
    static uint64_t signal;
    uint64_t *heap_signal = (uint64_t *)shmem_calloc(1, sizeof(uint64_t));
    long numbers[WORDS];
    for (int round = 1; round <= 200; round++) {
        uint64_t *word = round % 2 ? heap_signal : &signal;
        for (int i = 0; i < WORDS; i++)
            numbers[i] = round * 1000 + i;
        shmem_long_put_signal(words, numbers, WORDS, word, (uint64_t)round, SHMEM_SIGNAL_SET, next);
        shmem_signal_wait_until(word, SHMEM_CMP_EQ, (uint64_t)round);
        for (int i = 0; i < WORDS; i++)
            check(words[i] == round * 1000 + i);
        shmem_barrier_all();
    }
    shmem_finalize();
    return 0;
}
