/* Ends of processes, and misuse: the argument says which. */
#include "check.h"

#include <dse.h>
#include <signal.h>

static long flag;

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long local = 0;

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
    if (strcmp(what, "die") == 0 && shmem_my_pe() == 1)
        raise(SIGKILL);
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
    /* Nobody sets it: some wait for it, some in a barrier. */
    if (shmem_my_pe() == 0)
        shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0);
    shmem_barrier_all();
    return 0;
}
