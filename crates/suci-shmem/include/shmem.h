/*
 * OpenSHMEM 1.5 on Suci. The specification, at http://openshmem.org, says what each function does.
 *
 *   oshcc program.c -o program        compiles and links (or: cc program.c -lsma)
 *   oshrun -n 4 ./program             starts four processes
 *
 * Bounds, environment variables and what differs: docs/limits.md.
 */
#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "Suci"

/* The implementation and its version, 0xMMmmpp. */
#define SUCI_SHMEM_NUMVERSION 0x000100
/* Programs tell implementations apart by their macros, as OSHMEM_MAJOR_VERSION (Open MPI),
 * OSHMPI_NUMVERSION, CRAY_SHMEM_NUMVERSION, and take an unknown one for one of OpenSHMEM 1.4. These
 * two are those of Sandia OpenSHMEM: a complete 1.5 without peculiarities, as this one. */
#define SHMEM_DEF_H
#define SHMEM_FUNCTION_ATTRIBUTES __attribute__((visibility("default")))

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

/* Handles are numbers in the guise of pointers, so that they are constants of distinct types. */
typedef struct shmem_team_handle *shmem_team_t;
typedef struct shmem_ctx_handle *shmem_ctx_t;

#define SHMEM_TEAM_INVALID ((shmem_team_t) 0)
#define SHMEM_TEAM_WORLD ((shmem_team_t) 1)
#define SHMEM_TEAM_SHARED ((shmem_team_t) 2)
#define SHMEM_CTX_INVALID ((shmem_ctx_t) 0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t) 1)

#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

#define SHMEM_TEAM_NUM_CONTEXTS 1L
typedef struct {
    int num_contexts;
} shmem_team_config_t;

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_GT 3
#define SHMEM_CMP_LE 4
#define SHMEM_CMP_LT 5
#define SHMEM_CMP_GE 6

/* The library uses no work arrays. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 1
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Deprecated names. */
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

#ifdef __cplusplus
extern "C" {
#endif

/* Compilers of C++ have them, too, without the standard's blessing. */
__extension__ typedef float _Complex shmemx_complexf_t;
__extension__ typedef double _Complex shmemx_complexd_t;

/* The specification's tables of types: X(type, name). */
#define SHMEM_INTEGER_TYPES(X) \
    X(int, int) X(long, long) X(long long, longlong) X(unsigned int, uint) \
    X(unsigned long, ulong) X(unsigned long long, ulonglong)
#define SHMEM_SIZED_TYPES(X) \
    X(int32_t, int32) X(int64_t, int64) X(uint32_t, uint32) X(uint64_t, uint64)

/* Table 5 but long double: its values are passed as those of no type of other languages. */
#define SHMEM_VALUE_TYPES(X) \
    SHMEM_INTEGER_TYPES(X) SHMEM_SIZED_TYPES(X) X(float, float) X(double, double) X(char, char) \
    X(signed char, schar) X(short, short) X(unsigned char, uchar) X(unsigned short, ushort) \
    X(int8_t, int8) X(int16_t, int16) X(uint8_t, uint8) X(uint16_t, uint16) \
    X(size_t, size) X(ptrdiff_t, ptrdiff)
#define SHMEM_RMA_TYPES(X) SHMEM_VALUE_TYPES(X) X(long double, longdouble)
/* Table 6 */
#define SHMEM_AMO_TYPES(X) \
    SHMEM_INTEGER_TYPES(X) SHMEM_SIZED_TYPES(X) X(size_t, size) X(ptrdiff_t, ptrdiff)
/* Table 11 */
#define SHMEM_SYNC_TYPES(X) SHMEM_AMO_TYPES(X) X(short, short) X(unsigned short, ushort)
/* Table 7 */
#define SHMEM_EXTENDED_AMO_TYPES(X) SHMEM_AMO_TYPES(X) X(float, float) X(double, double)
/* Table 8 */
#define SHMEM_BITWISE_AMO_TYPES(X) \
    X(unsigned int, uint) X(unsigned long, ulong) X(unsigned long long, ulonglong) \
    SHMEM_SIZED_TYPES(X)
/* Table 10 */
#define SHMEM_BITWISE_REDUCE_TYPES(X) \
    SHMEM_INTEGER_TYPES(X) SHMEM_SIZED_TYPES(X) X(signed char, schar) X(unsigned char, uchar) \
    X(short, short) X(unsigned short, ushort) X(int8_t, int8) X(int16_t, int16) \
    X(uint8_t, uint8) X(uint16_t, uint16) X(size_t, size)
#define SHMEM_MINMAX_REDUCE_TYPES(X) \
    SHMEM_BITWISE_REDUCE_TYPES(X) X(char, char) X(ptrdiff_t, ptrdiff) X(float, float) \
    X(double, double) X(long double, longdouble)
#define SHMEM_ARITH_REDUCE_TYPES(X) \
    SHMEM_MINMAX_REDUCE_TYPES(X) X(shmemx_complexd_t, complexd) X(shmemx_complexf_t, complexf)
/* The types of the deprecated operations on active sets. */
#define SHMEM_BITWISE_TO_ALL_TYPES(X) \
    X(short, short) X(int, int) X(long, long) X(long long, longlong)
#define SHMEM_MINMAX_TO_ALL_TYPES(X) \
    SHMEM_BITWISE_TO_ALL_TYPES(X) X(float, float) X(double, double) X(long double, longdouble)
#define SHMEM_ARITH_TO_ALL_TYPES(X) \
    SHMEM_MINMAX_TO_ALL_TYPES(X) X(shmemx_complexd_t, complexd) X(shmemx_complexf_t, complexf)
/* X(size): bits, of functions named by them. */
#define SHMEM_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)

#define SHMEM_NAME(name) shmem_##name
#include "shmem_functions.h"
#undef SHMEM_NAME

/* Deprecated functions that have no name of the pattern. */
void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);
void *shmalloc(size_t size);
void shfree(void *ptr);
void *shrealloc(void *ptr, size_t size);
void *shmemalign(size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#if defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L && !defined __cplusplus
#include "shmem_generic.h"
#endif

#endif
