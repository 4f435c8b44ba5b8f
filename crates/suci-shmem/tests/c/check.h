/* Helpers of the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends all processes if a condition does not hold. */
#define check(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: PE %d: not true: %s\n", __FILE__, __LINE__,               \
                    shmem_my_pe(), #condition);                                               \
            shmem_global_exit(1);                                                             \
        }                                                                                     \
    } while (0)

#endif
