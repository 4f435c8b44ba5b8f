/* The profiling interface: every function by a second name, for libraries that define the first. */
#ifndef PSHMEM_H
#define PSHMEM_H

#include "shmem.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_NAME(name) pshmem_##name
#include "shmem_functions.h"
#undef SHMEM_NAME

#ifdef __cplusplus
}
#endif

#endif
