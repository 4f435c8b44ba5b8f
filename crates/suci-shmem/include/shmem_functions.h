/*
 * The functions of OpenSHMEM 1.5. shmem.h and pshmem.h include this file; SHMEM_NAME(name) is
 * shmem_name and pshmem_name there: the profiling interface has every function a second time.
 */

/* Beginning and end, processes, threads. */
void SHMEM_NAME(init)(void);
void SHMEM_NAME(finalize)(void);
void SHMEM_NAME(global_exit)(int status);
int SHMEM_NAME(my_pe)(void);
int SHMEM_NAME(n_pes)(void);
int SHMEM_NAME(pe_accessible)(int pe);
int SHMEM_NAME(addr_accessible)(const void *addr, int pe);
void *SHMEM_NAME(ptr)(const void *dest, int pe);
/* Of OpenSHMEM 1.6. */
void *SHMEM_NAME(team_ptr)(shmem_team_t team, const void *dest, int pe);
void SHMEM_NAME(info_get_version)(int *major, int *minor);
void SHMEM_NAME(info_get_name)(char *name);
int SHMEM_NAME(init_thread)(int requested, int *provided);
void SHMEM_NAME(query_thread)(int *provided);
void SHMEM_NAME(pcontrol)(int level, ...);

/* Memory. */
void *SHMEM_NAME(malloc)(size_t size);
void *SHMEM_NAME(calloc)(size_t count, size_t size);
void *SHMEM_NAME(align)(size_t alignment, size_t size);
void *SHMEM_NAME(realloc)(void *ptr, size_t size);
void SHMEM_NAME(free)(void *ptr);
void *SHMEM_NAME(malloc_with_hints)(size_t size, long hints);

/* Teams and contexts. */
int SHMEM_NAME(team_my_pe)(shmem_team_t team);
int SHMEM_NAME(team_n_pes)(shmem_team_t team);
int SHMEM_NAME(team_get_config)(shmem_team_t team, long config_mask, shmem_team_config_t *config);
int SHMEM_NAME(team_translate_pe)(shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
int SHMEM_NAME(team_split_strided)(shmem_team_t parent_team, int start, int stride, int size,
    const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team);
int SHMEM_NAME(team_split_2d)(shmem_team_t parent_team, int xrange,
    const shmem_team_config_t *xaxis_config, long xaxis_mask, shmem_team_t *xaxis_team,
    const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team);
void SHMEM_NAME(team_destroy)(shmem_team_t team);
int SHMEM_NAME(ctx_create)(long options, shmem_ctx_t *ctx);
int SHMEM_NAME(team_create_ctx)(shmem_team_t team, long options, shmem_ctx_t *ctx);
void SHMEM_NAME(ctx_destroy)(shmem_ctx_t ctx);
int SHMEM_NAME(ctx_get_team)(shmem_ctx_t ctx, shmem_team_t *team);

/* Order. */
void SHMEM_NAME(fence)(void);
void SHMEM_NAME(ctx_fence)(shmem_ctx_t ctx);
void SHMEM_NAME(quiet)(void);
void SHMEM_NAME(ctx_quiet)(shmem_ctx_t ctx);

/* Put and get. */
#define SHMEM_DECLARE_MOVES(T, PUT, GET) \
    void SHMEM_NAME(PUT)(T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(ctx_##PUT)(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(PUT##_nbi)(T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(ctx_##PUT##_nbi)( \
        shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(GET)(T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(ctx_##GET)(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(GET##_nbi)(T *dest, const T *source, size_t nelems, int pe); \
    void SHMEM_NAME(ctx_##GET##_nbi)( \
        shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe);
#define SHMEM_DECLARE_STRIDED(T, PUT, GET) \
    void SHMEM_NAME(PUT)( \
        T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe); \
    void SHMEM_NAME(ctx_##PUT)(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, \
        ptrdiff_t sst, size_t nelems, int pe); \
    void SHMEM_NAME(GET)( \
        T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe); \
    void SHMEM_NAME(ctx_##GET)(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, \
        ptrdiff_t sst, size_t nelems, int pe);
#define SHMEM_DECLARE_SIGNAL(T, PUT) \
    void SHMEM_NAME(PUT)(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, \
        uint64_t signal, int sig_op, int pe); \
    void SHMEM_NAME(ctx_##PUT)(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, \
        uint64_t *sig_addr, uint64_t signal, int sig_op, int pe); \
    void SHMEM_NAME(PUT##_nbi)(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, \
        uint64_t signal, int sig_op, int pe); \
    void SHMEM_NAME(ctx_##PUT##_nbi)(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, \
        uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
#define SHMEM_DECLARE(T, N) \
    SHMEM_DECLARE_MOVES(T, N##_put, N##_get) \
    SHMEM_DECLARE_STRIDED(T, N##_iput, N##_iget) \
    SHMEM_DECLARE_SIGNAL(T, N##_put_signal)
SHMEM_RMA_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(BITS, BYTES) \
    SHMEM_DECLARE_MOVES(void, put##BITS, get##BITS) \
    SHMEM_DECLARE_STRIDED(void, iput##BITS, iget##BITS) \
    SHMEM_DECLARE_SIGNAL(void, put##BITS##_signal)
SHMEM_SIZES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
SHMEM_DECLARE_MOVES(void, putmem, getmem)
SHMEM_DECLARE_SIGNAL(void, putmem_signal)
#undef SHMEM_DECLARE_MOVES
#undef SHMEM_DECLARE_STRIDED
#undef SHMEM_DECLARE_SIGNAL

#define SHMEM_DECLARE(T, N) \
    void SHMEM_NAME(N##_p)(T *dest, T value, int pe); \
    void SHMEM_NAME(ctx_##N##_p)(shmem_ctx_t ctx, T *dest, T value, int pe); \
    T SHMEM_NAME(N##_g)(const T *source, int pe); \
    T SHMEM_NAME(ctx_##N##_g)(shmem_ctx_t ctx, const T *source, int pe);
SHMEM_VALUE_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE

static inline void SHMEM_NAME(longdouble_p)(long double *dest, long double value, int pe)
{
    SHMEM_NAME(putmem)(dest, &value, sizeof value, pe);
}

static inline void SHMEM_NAME(ctx_longdouble_p)(
    shmem_ctx_t ctx, long double *dest, long double value, int pe)
{
    SHMEM_NAME(ctx_putmem)(ctx, dest, &value, sizeof value, pe);
}

static inline long double SHMEM_NAME(longdouble_g)(const long double *source, int pe)
{
    long double value;
    SHMEM_NAME(getmem)(&value, source, sizeof value, pe);
    return value;
}

static inline long double SHMEM_NAME(ctx_longdouble_g)(
    shmem_ctx_t ctx, const long double *source, int pe)
{
    long double value;
    SHMEM_NAME(ctx_getmem)(ctx, &value, source, sizeof value, pe);
    return value;
}

/* Atomic operations. */
#define SHMEM_DECLARE(T, N) \
    T SHMEM_NAME(N##_atomic_fetch)(const T *source, int pe); \
    T SHMEM_NAME(ctx_##N##_atomic_fetch)(shmem_ctx_t ctx, const T *source, int pe); \
    void SHMEM_NAME(N##_atomic_fetch_nbi)(T *fetch, const T *source, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_fetch_nbi)( \
        shmem_ctx_t ctx, T *fetch, const T *source, int pe); \
    void SHMEM_NAME(N##_atomic_set)(T *dest, T value, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_set)(shmem_ctx_t ctx, T *dest, T value, int pe); \
    T SHMEM_NAME(N##_atomic_swap)(T *dest, T value, int pe); \
    T SHMEM_NAME(ctx_##N##_atomic_swap)(shmem_ctx_t ctx, T *dest, T value, int pe); \
    void SHMEM_NAME(N##_atomic_swap_nbi)(T *fetch, T *dest, T value, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_swap_nbi)(shmem_ctx_t ctx, T *fetch, T *dest, T value, int pe);
SHMEM_EXTENDED_AMO_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE

/* Fetches, changes; changes only. */
#define SHMEM_DECLARE_AMO(T, N, OP) \
    void SHMEM_NAME(N##_atomic_##OP)(T *dest, T value, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_##OP)(shmem_ctx_t ctx, T *dest, T value, int pe); \
    T SHMEM_NAME(N##_atomic_fetch_##OP)(T *dest, T value, int pe); \
    T SHMEM_NAME(ctx_##N##_atomic_fetch_##OP)(shmem_ctx_t ctx, T *dest, T value, int pe); \
    void SHMEM_NAME(N##_atomic_fetch_##OP##_nbi)(T *fetch, T *dest, T value, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_fetch_##OP##_nbi)( \
        shmem_ctx_t ctx, T *fetch, T *dest, T value, int pe);
#define SHMEM_DECLARE(T, N) \
    SHMEM_DECLARE_AMO(T, N, add) \
    void SHMEM_NAME(N##_atomic_inc)(T *dest, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_inc)(shmem_ctx_t ctx, T *dest, int pe); \
    T SHMEM_NAME(N##_atomic_fetch_inc)(T *dest, int pe); \
    T SHMEM_NAME(ctx_##N##_atomic_fetch_inc)(shmem_ctx_t ctx, T *dest, int pe); \
    void SHMEM_NAME(N##_atomic_fetch_inc_nbi)(T *fetch, T *dest, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_fetch_inc_nbi)(shmem_ctx_t ctx, T *fetch, T *dest, int pe); \
    T SHMEM_NAME(N##_atomic_compare_swap)(T *dest, T cond, T value, int pe); \
    T SHMEM_NAME(ctx_##N##_atomic_compare_swap)( \
        shmem_ctx_t ctx, T *dest, T cond, T value, int pe); \
    void SHMEM_NAME(N##_atomic_compare_swap_nbi)(T *fetch, T *dest, T cond, T value, int pe); \
    void SHMEM_NAME(ctx_##N##_atomic_compare_swap_nbi)( \
        shmem_ctx_t ctx, T *fetch, T *dest, T cond, T value, int pe);
SHMEM_AMO_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(T, N) \
    SHMEM_DECLARE_AMO(T, N, and) SHMEM_DECLARE_AMO(T, N, or) SHMEM_DECLARE_AMO(T, N, xor)
SHMEM_BITWISE_AMO_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#undef SHMEM_DECLARE_AMO

/* Deprecated names of atomic operations. */
#define SHMEM_DECLARE(T, N) \
    T SHMEM_NAME(N##_cswap)(T *dest, T cond, T value, int pe); \
    T SHMEM_NAME(N##_finc)(T *dest, int pe); \
    void SHMEM_NAME(N##_inc)(T *dest, int pe); \
    T SHMEM_NAME(N##_fadd)(T *dest, T value, int pe); \
    void SHMEM_NAME(N##_add)(T *dest, T value, int pe);
SHMEM_AMO_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(T, N) \
    T SHMEM_NAME(N##_swap)(T *dest, T value, int pe); \
    T SHMEM_NAME(N##_fetch)(const T *source, int pe); \
    void SHMEM_NAME(N##_set)(T *dest, T value, int pe);
SHMEM_EXTENDED_AMO_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE

/* Signals, waits and tests. */
uint64_t SHMEM_NAME(signal_fetch)(const uint64_t *sig_addr);
uint64_t SHMEM_NAME(signal_wait_until)(uint64_t *sig_addr, int cmp, uint64_t value);
#define SHMEM_DECLARE(T, N) \
    void SHMEM_NAME(N##_wait_until)(T *ivar, int cmp, T value); \
    int SHMEM_NAME(N##_test)(T *ivar, int cmp, T value); \
    void SHMEM_NAME(N##_wait_until_all)( \
        T *ivars, size_t nelems, const int *status, int cmp, T value); \
    size_t SHMEM_NAME(N##_wait_until_any)( \
        T *ivars, size_t nelems, const int *status, int cmp, T value); \
    size_t SHMEM_NAME(N##_wait_until_some)( \
        T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T value); \
    void SHMEM_NAME(N##_wait_until_all_vector)( \
        T *ivars, size_t nelems, const int *status, int cmp, T *values); \
    size_t SHMEM_NAME(N##_wait_until_any_vector)( \
        T *ivars, size_t nelems, const int *status, int cmp, T *values); \
    size_t SHMEM_NAME(N##_wait_until_some_vector)( \
        T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T *values); \
    int SHMEM_NAME(N##_test_all)(T *ivars, size_t nelems, const int *status, int cmp, T value); \
    size_t SHMEM_NAME(N##_test_any)(T *ivars, size_t nelems, const int *status, int cmp, T value); \
    size_t SHMEM_NAME(N##_test_some)( \
        T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T value); \
    int SHMEM_NAME(N##_test_all_vector)( \
        T *ivars, size_t nelems, const int *status, int cmp, T *values); \
    size_t SHMEM_NAME(N##_test_any_vector)( \
        T *ivars, size_t nelems, const int *status, int cmp, T *values); \
    size_t SHMEM_NAME(N##_test_some_vector)( \
        T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T *values);
SHMEM_SYNC_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
/* Deprecated. */
void SHMEM_NAME(short_wait)(short *ivar, short cmp_value);
void SHMEM_NAME(int_wait)(int *ivar, int cmp_value);
void SHMEM_NAME(long_wait)(long *ivar, long cmp_value);
void SHMEM_NAME(longlong_wait)(long long *ivar, long long cmp_value);
void SHMEM_NAME(wait)(long *ivar, long cmp_value);
void SHMEM_NAME(wait_until)(long *ivar, int cmp, long cmp_value);

/* Collective operations of teams. */
void SHMEM_NAME(barrier_all)(void);
void SHMEM_NAME(sync_all)(void);
int SHMEM_NAME(team_sync)(shmem_team_t team);
#define SHMEM_DECLARE(T, N, B) \
    int SHMEM_NAME(N##broadcast##B)( \
        shmem_team_t team, T *dest, const T *source, size_t nelems, int pe_root); \
    int SHMEM_NAME(N##collect##B)(shmem_team_t team, T *dest, const T *source, size_t nelems); \
    int SHMEM_NAME(N##fcollect##B)(shmem_team_t team, T *dest, const T *source, size_t nelems); \
    int SHMEM_NAME(N##alltoall##B)(shmem_team_t team, T *dest, const T *source, size_t nelems); \
    int SHMEM_NAME(N##alltoalls##B)( \
        shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);
#define SHMEM_DECLARE_TYPED(T, N) SHMEM_DECLARE(T, N##_, )
SHMEM_RMA_TYPES(SHMEM_DECLARE_TYPED)
SHMEM_DECLARE(void, , mem)
#undef SHMEM_DECLARE_TYPED
#undef SHMEM_DECLARE
#define SHMEM_DECLARE_REDUCE(T, N, OP) \
    int SHMEM_NAME(N##_##OP##_reduce)(shmem_team_t team, T *dest, const T *source, size_t nreduce);
#define SHMEM_DECLARE(T, N) \
    SHMEM_DECLARE_REDUCE(T, N, and) SHMEM_DECLARE_REDUCE(T, N, or) SHMEM_DECLARE_REDUCE(T, N, xor)
SHMEM_BITWISE_REDUCE_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(T, N) SHMEM_DECLARE_REDUCE(T, N, max) SHMEM_DECLARE_REDUCE(T, N, min)
SHMEM_MINMAX_REDUCE_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(T, N) SHMEM_DECLARE_REDUCE(T, N, sum) SHMEM_DECLARE_REDUCE(T, N, prod)
SHMEM_ARITH_REDUCE_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#undef SHMEM_DECLARE_REDUCE

/* Deprecated collective operations of active sets. */
void SHMEM_NAME(barrier)(int PE_start, int logPE_stride, int PE_size, long *pSync);
void SHMEM_NAME(sync)(int PE_start, int logPE_stride, int PE_size, long *pSync);
#define SHMEM_DECLARE(BITS) \
    void SHMEM_NAME(broadcast##BITS)(void *dest, const void *source, size_t nelems, int PE_root, \
        int PE_start, int logPE_stride, int PE_size, long *pSync); \
    void SHMEM_NAME(collect##BITS)(void *dest, const void *source, size_t nelems, int PE_start, \
        int logPE_stride, int PE_size, long *pSync); \
    void SHMEM_NAME(fcollect##BITS)(void *dest, const void *source, size_t nelems, int PE_start, \
        int logPE_stride, int PE_size, long *pSync); \
    void SHMEM_NAME(alltoall##BITS)(void *dest, const void *source, size_t nelems, int PE_start, \
        int logPE_stride, int PE_size, long *pSync); \
    void SHMEM_NAME(alltoalls##BITS)(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
        size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync);
SHMEM_DECLARE(32)
SHMEM_DECLARE(64)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE_REDUCE(T, N, OP) \
    void SHMEM_NAME(N##_##OP##_to_all)(T *dest, const T *source, int nreduce, int PE_start, \
        int logPE_stride, int PE_size, T *pWrk, long *pSync);
#define SHMEM_DECLARE(T, N) \
    SHMEM_DECLARE_REDUCE(T, N, and) SHMEM_DECLARE_REDUCE(T, N, or) SHMEM_DECLARE_REDUCE(T, N, xor)
SHMEM_BITWISE_TO_ALL_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(T, N) SHMEM_DECLARE_REDUCE(T, N, max) SHMEM_DECLARE_REDUCE(T, N, min)
SHMEM_MINMAX_TO_ALL_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#define SHMEM_DECLARE(T, N) SHMEM_DECLARE_REDUCE(T, N, sum) SHMEM_DECLARE_REDUCE(T, N, prod)
SHMEM_ARITH_TO_ALL_TYPES(SHMEM_DECLARE)
#undef SHMEM_DECLARE
#undef SHMEM_DECLARE_REDUCE

/* Locks. */
void SHMEM_NAME(set_lock)(long *lock);
void SHMEM_NAME(clear_lock)(long *lock);
int SHMEM_NAME(test_lock)(long *lock);

/* Deprecated functions of caches, which do nothing. */
void SHMEM_NAME(set_cache_inv)(void);
void SHMEM_NAME(set_cache_line_inv)(void *dest);
void SHMEM_NAME(clear_cache_inv)(void);
void SHMEM_NAME(clear_cache_line_inv)(void *dest);
void SHMEM_NAME(udcflush)(void);
void SHMEM_NAME(udcflush_line)(void *dest);
