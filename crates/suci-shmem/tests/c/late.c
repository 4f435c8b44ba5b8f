/* PE 1 begins late, by the seconds of the first argument. Then PE 2 is silent for as many: it stops
 * itself, and PE 0 lets it go on. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <signal.h>
#include <unistd.h>

static long pids[3], sum, one = 1;

int main(int argc, char **argv)
{
    const char *id = getenv("SUCI_ID");
    unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    long pid = getpid(), *block;

    if (id != NULL && strcmp(id, "1") == 0)
        sleep(seconds);
    shmem_init();
    check(shmem_n_pes() == 3);
    block = shmem_calloc(1, sizeof *block);
    shmem_long_p(&pids[shmem_my_pe()], pid, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 2)
        raise(SIGSTOP);
    if (shmem_my_pe() == 0) {
        long *there;

        sleep(1);
        /* A put waits for nobody. What follows may wait for the other process. */
        shmem_long_p(&sum, 1, 2);
        if (fork() == 0) {
            sleep(seconds);
            kill((pid_t)pids[2], SIGCONT);
            _exit(0);
        }
        there = shmem_ptr(block, 2);
        check(there == NULL || *there == 0);
        check(shmem_long_atomic_fetch_add(&sum, 1, 2) == 1);
    }
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &one, 1);
    check(sum == 3);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        printf("all went on\n");
    shmem_finalize();
    return 0;
}
