/* Ends of processes, and misuse: the argument says which. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <dse.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static long flag, pair[2];
static int number;

/* Forks a child that ends with a status. Returns the status that it ended with. */
static int end_of_child(int status)
{
    int ended = -1;
    pid_t child = fork();

    if (child == 0)
        exit(status);
    check(child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long local = 0;

    long sums[3], ones[3] = {1, 1, 1};
    static long lock;
    struct dse_modules modules;

    if (strcmp(what, "early") == 0)
        shmem_barrier_all();
    dse_get_modules(&modules);
    if (strcmp(what, "module") == 0)
        modules.memory.write = NULL;
    if (strcmp(what, "late") == 0)
        dse_init();
    if (strcmp(what, "module") == 0 || strcmp(what, "late") == 0)
        dse_set_modules(&modules);
    shmem_init();
    printf("begins\n");
    shmem_barrier_all();
    if (strcmp(what, "pe") == 0 && shmem_my_pe() == 1)
        shmem_long_p(&flag, 1, 9);
    if (strcmp(what, "local") == 0 && shmem_my_pe() == 1)
        shmem_long_p(&local, 1, 0);
    if (strcmp(what, "unset") == 0 && shmem_my_pe() == 1)
        shmem_clear_lock(&lock);
    if (strcmp(what, "twice") == 0 && shmem_my_pe() == 1)
        for (int i = 0; i < 2; i++)
            shmem_set_lock(&lock);
    /* The members' calls differ. */
    if (strcmp(what, "lengths") == 0)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, ones, 2 + shmem_my_pe() % 2);
    if (strcmp(what, "fork") == 0) {
        check(end_of_child(0) == 0 && end_of_child(7) == 7);
        shmem_barrier_all();
        return 0;
    }
    if (strcmp(what, "die") == 0 && shmem_my_pe() == 1)
        raise(SIGKILL);
    if (strcmp(what, "input") == 0) {
        if (shmem_my_pe() == 0)
            getchar();
        usleep(200000);
        raise(SIGKILL);
    }
    if (strcmp(what, "exit") == 0 && shmem_my_pe() == 2)
        shmem_global_exit(42);
    if (strcmp(what, "succeed") == 0 && shmem_my_pe() == 2)
        shmem_global_exit(0);
    if (strcmp(what, "forget") == 0) {
        /* The others' memory is there until all have ended. */
        if (shmem_my_pe() == 1)
            for (int i = 0; i < 100; i++)
                shmem_long_atomic_inc(&flag, 0);
        return 0;
    }
    if (strcmp(what, "null-put") == 0)
        shmem_int_put(NULL, NULL, 1, shmem_my_pe());
    if (strcmp(what, "null-source") == 0)
        shmem_putmem(&flag, NULL, 1, 0);
    if (strcmp(what, "null-get") == 0)
        shmem_long_get(NULL, &flag, 1, 1);
    if (strcmp(what, "null-atomic") == 0)
        shmem_long_atomic_inc(NULL, shmem_my_pe());
    if (strcmp(what, "null-far") == 0)
        shmem_long_atomic_inc(NULL, 1 - shmem_my_pe());
    if (strcmp(what, "odd-atomic") == 0)
        shmem_long_atomic_inc((long *)((char *)pair + 1), 1 - shmem_my_pe());
    if (strcmp(what, "odd-fetch") == 0)
        shmem_int_atomic_fetch_nbi(&number, (int *)((char *)pair + 2), 1 - shmem_my_pe());
    if (strcmp(what, "null-fetch") == 0)
        shmem_long_atomic_fetch_nbi(NULL, &flag, shmem_my_pe());
    if (strcmp(what, "null-wait") == 0)
        shmem_long_wait_until(NULL, SHMEM_CMP_NE, 0);
    if (strcmp(what, "null-some") == 0)
        shmem_long_test_some(&flag, 1, NULL, NULL, SHMEM_CMP_EQ, 0);
    if (strcmp(what, "null-signal") == 0)
        shmem_signal_fetch(NULL);
    if (strcmp(what, "null-lock") == 0)
        shmem_set_lock(NULL);
    if (strcmp(what, "null-reduce") == 0)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, NULL, ones, 1);
    if (strcmp(what, "null-collect") == 0)
        shmem_long_collect(SHMEM_TEAM_WORLD, sums, NULL, 1);
    if (strcmp(what, "null-team") == 0)
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, 0, NULL);
    if (strcmp(what, "null-context") == 0)
        shmem_ctx_create(0, NULL);
    if (strcmp(what, "null-version") == 0)
        shmem_info_get_version(NULL, NULL);
    if (strcmp(what, "null-name") == 0)
        shmem_info_get_name(NULL);
    if (strcmp(what, "huge") == 0)
        shmem_long_max_reduce(SHMEM_TEAM_WORLD, sums, ones, SIZE_MAX / 4);
    if (strcmp(what, "huge-gather") == 0)
        shmem_char_fcollect(SHMEM_TEAM_WORLD, (char *)sums, (char *)ones, SIZE_MAX / 4);
    if (strcmp(what, "far-put") == 0)
        shmem_long_iput(&flag, ones, PTRDIFF_MAX / 4, 1, 3, shmem_my_pe());
    if (strcmp(what, "far-get") == 0)
        shmem_long_iget(sums, &flag, 1, PTRDIFF_MAX / 4, 3, 1);
    if (strcmp(what, "far-all") == 0)
        shmem_long_alltoalls(SHMEM_TEAM_WORLD, sums, ones, PTRDIFF_MAX, 1, 1);
    if (strcmp(what, "stride") == 0)
        shmem_long_alltoalls(SHMEM_TEAM_WORLD, sums, ones, 0, 1, 1);
    if (strncmp(what, "after", 5) == 0) {
        shmem_finalize();
        check(shmem_n_pes() == 2 && shmem_my_pe() < 2);
        shmem_finalize();
        if (strcmp(what, "after-put") == 0)
            shmem_long_p(&flag, 1, shmem_my_pe());
        if (strcmp(what, "after-barrier") == 0)
            shmem_barrier_all();
        if (strcmp(what, "after-wait") == 0)
            shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0);
        if (strcmp(what, "after-lock") == 0)
            shmem_set_lock(&lock);
        if (strcmp(what, "after-free") == 0)
            shmem_free(&flag);
        if (strcmp(what, "after-init") == 0)
            shmem_init();
        return 0;
    }
    /* Nobody sets it: some wait for it, some in a barrier. */
    if (shmem_my_pe() == 0)
        shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0);
    shmem_barrier_all();
    return 0;
}
