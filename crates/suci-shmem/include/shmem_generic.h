/*
 * The generic forms of OpenSHMEM 1.5 for C11: shmem_put(), shmem_atomic_add(), and so on, choose a
 * function by the types of their arguments. Part of shmem.h.
 */

/* The tables of types, each C type once: X(type, name, operation). */
#define SHMEM_GENERIC_BITWISE_AMO(X, OP) \
    X(unsigned int, uint, OP) X(unsigned long, ulong, OP) X(unsigned long long, ulonglong, OP) \
    X(int, int32, OP) X(long, int64, OP)
#define SHMEM_GENERIC_AMO(X, OP) \
    X(int, int, OP) X(long, long, OP) X(long long, longlong, OP) X(unsigned int, uint, OP) \
    X(unsigned long, ulong, OP) X(unsigned long long, ulonglong, OP)
#define SHMEM_GENERIC_EXTENDED_AMO(X, OP) \
    SHMEM_GENERIC_AMO(X, OP) X(float, float, OP) X(double, double, OP)
#define SHMEM_GENERIC_SYNC(X, OP) \
    SHMEM_GENERIC_AMO(X, OP) X(short, short, OP) X(unsigned short, ushort, OP)
#define SHMEM_GENERIC_BITWISE(X, OP) \
    SHMEM_GENERIC_SYNC(X, OP) X(signed char, schar, OP) X(unsigned char, uchar, OP)
#define SHMEM_GENERIC_RMA(X, OP) \
    SHMEM_GENERIC_BITWISE(X, OP) X(char, char, OP) X(float, float, OP) X(double, double, OP) \
    X(long double, longdouble, OP)
#define SHMEM_GENERIC_ARITH(X, OP) \
    SHMEM_GENERIC_RMA(X, OP) X(double _Complex, complexd, OP) X(float _Complex, complexf, OP)

#define SHMEM_FIRST_OF(a, ...) a
#define SHMEM_FIRST(...) SHMEM_FIRST_OF(__VA_ARGS__, 0)
#define SHMEM_SECOND_OF(a, b, ...) b
#define SHMEM_SECOND(...) SHMEM_SECOND_OF(__VA_ARGS__, 0, 0)

#define SHMEM_CASE(T, N, OP) \
    T *: shmem_##N##_##OP, const T *: shmem_##N##_##OP, volatile T *: shmem_##N##_##OP,
#define SHMEM_CTX_CASE(T, N, OP) \
    T *: shmem_ctx_##N##_##OP, const T *: shmem_ctx_##N##_##OP, volatile T *: shmem_ctx_##N##_##OP,

/* Takes no argument: a call with others than the types above does not compile. */
static inline void shmem_unknown_type(void)
{
}

/* By the type of the first argument, or behind a context by that of the second. */
#define SHMEM_GENERIC_CTX(TYPES, OP, ...) \
    _Generic((SHMEM_FIRST(__VA_ARGS__)), TYPES(SHMEM_CASE, OP) \
        shmem_ctx_t: _Generic((SHMEM_SECOND(__VA_ARGS__)), TYPES(SHMEM_CTX_CASE, OP) \
            default: shmem_unknown_type))(__VA_ARGS__)
#define SHMEM_GENERIC_FIRST(TYPES, OP, ...) \
    _Generic((SHMEM_FIRST(__VA_ARGS__)), TYPES(SHMEM_CASE, OP) \
        default: shmem_unknown_type)(__VA_ARGS__)
/* Behind a team. */
#define SHMEM_GENERIC_TEAM(TYPES, OP, ...) \
    _Generic((SHMEM_SECOND(__VA_ARGS__)), TYPES(SHMEM_CASE, OP) \
        default: shmem_unknown_type)(__VA_ARGS__)

#define shmem_put(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, put, __VA_ARGS__)
#define shmem_put_nbi(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, put_nbi, __VA_ARGS__)
#define shmem_put_signal(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, put_signal_nbi, __VA_ARGS__)
#define shmem_iput(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, iput, __VA_ARGS__)
#define shmem_p(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, p, __VA_ARGS__)
#define shmem_get(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, get, __VA_ARGS__)
#define shmem_get_nbi(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, get_nbi, __VA_ARGS__)
#define shmem_iget(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, iget, __VA_ARGS__)
#define shmem_g(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_RMA, g, __VA_ARGS__)

#define shmem_atomic_fetch(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_EXTENDED_AMO, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_EXTENDED_AMO, atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_set(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_EXTENDED_AMO, atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_EXTENDED_AMO, atomic_swap, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_EXTENDED_AMO, atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_inc(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_add(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_AMO, atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_and(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_or(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_xor(...) SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) \
    SHMEM_GENERIC_CTX(SHMEM_GENERIC_BITWISE_AMO, atomic_fetch_xor_nbi, __VA_ARGS__)

#define shmem_wait_until(...) SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...) SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test, __VA_ARGS__)
#define shmem_test_all(...) SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test_all, __VA_ARGS__)
#define shmem_test_any(...) SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test_any, __VA_ARGS__)
#define shmem_test_some(...) SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) \
    SHMEM_GENERIC_FIRST(SHMEM_GENERIC_SYNC, test_some_vector, __VA_ARGS__)

#define shmem_broadcast(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, broadcast, __VA_ARGS__)
#define shmem_collect(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, collect, __VA_ARGS__)
#define shmem_fcollect(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, fcollect, __VA_ARGS__)
#define shmem_alltoall(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, alltoalls, __VA_ARGS__)
#define shmem_and_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_BITWISE, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_BITWISE, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_BITWISE, xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_RMA, min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_ARITH, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) SHMEM_GENERIC_TEAM(SHMEM_GENERIC_ARITH, prod_reduce, __VA_ARGS__)

/* A team, or the deprecated form for an active set. */
#define shmem_sync(...) \
    _Generic((SHMEM_FIRST(__VA_ARGS__)), shmem_team_t: shmem_team_sync, \
        default: shmem_sync)(__VA_ARGS__)

/* Deprecated names. */
#define shmem_cswap(...) shmem_atomic_compare_swap(__VA_ARGS__)
#define shmem_finc(...) shmem_atomic_fetch_inc(__VA_ARGS__)
#define shmem_inc(...) shmem_atomic_inc(__VA_ARGS__)
#define shmem_fadd(...) shmem_atomic_fetch_add(__VA_ARGS__)
#define shmem_add(...) shmem_atomic_add(__VA_ARGS__)
#define shmem_swap(...) shmem_atomic_swap(__VA_ARGS__)
#define shmem_fetch(...) shmem_atomic_fetch(__VA_ARGS__)
#define shmem_set(...) shmem_atomic_set(__VA_ARGS__)
