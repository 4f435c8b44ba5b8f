/* Counts puts, as a profiling library does. */
#include "check.h"

#include <pshmem.h>

static int puts_made;
static long place;

void shmem_long_put(long *dest, const long *source, size_t nelems, int pe)
{
    puts_made++;
    pshmem_long_put(dest, source, nelems, pe);
}

int main(void)
{
    long value = 5;

    pshmem_init();
    for (int i = 0; i < 3; i++)
        shmem_long_put(&place, &value, 1, 0);
    pshmem_barrier_all();
    check(pshmem_my_pe() != 0 || place == 5);
    printf("%d puts\n", puts_made);
    pshmem_finalize();
    return 0;
}
