/* Groups of nodes in one process: a thread for each member. */
#include "check.h"
#include <pthread.h>

enum { SIZE = 3, LENGTH = 5000 };

#define LONG SUCI_SECONDS(20)

/* The task of a member's thread. */
typedef struct member {
    suci_node node;
    uint32_t rank;
} member;

static const uint32_t all[SIZE] = {0, 1, 2};

static void reductions(suci_node node, suci_group group, uint32_t me)
{
    static const int sums[SIZE] = {1, 3, 6};
    int32_t data[LENGTH];
    double number = me + 0.5;
    uint8_t bits = (uint8_t)(1u << me);
    suci_pending pending;
    bool over = false;
    int i;
    for (i = 0; i < LENGTH; ++i)
        data[i] = i + (int)me;
    must(suci_group_allreduce(node, group, data, LENGTH, SUCI_I32, SUCI_SUM, NULL, LONG));
    for (i = 0; i < LENGTH; ++i)
        check(data[i] == 3 * i + 3);
    must(suci_group_reduce(node, group, 1, &number, 1, SUCI_F64, SUCI_MAX, NULL, LONG));
    check(number == (me == 1 ? 2.5 : me + 0.5));
    data[0] = (int)me + 1;
    must(suci_group_scan(node, group, data, 1, SUCI_I32, SUCI_SUM, NULL, LONG));
    check(data[0] == sums[me]);
    data[0] = (int)me + 1;
    must(suci_group_exclusive_scan(node, group, data, 1, SUCI_I32, SUCI_PRODUCT, NULL, LONG));
    check(data[0] == (me == 0 ? 1 : (int)me));
    /* The program goes on meanwhile. */
    must(suci_group_allreduce(node, group, &bits, 1, SUCI_U8, SUCI_OR, &pending, LONG));
    check(suci_group_barrier(node, group, NULL, LONG) == SUCI_E_ARGUMENT);
    while (!over)
        must(suci_pending_test(node, pending, &over));
    must(suci_pending_wait(node, pending));
    check(bits == 7 && suci_pending_wait(node, pending) == SUCI_E_HANDLE);
    check(suci_group_allreduce(node, group, &number, 1, SUCI_F64, SUCI_OR, NULL, LONG) ==
          SUCI_E_ARGUMENT);
    check(suci_group_allreduce(node, group, &number, 1, 10, SUCI_SUM, NULL, LONG) ==
          SUCI_E_ARGUMENT);
    check(suci_group_allreduce(node, group, &number, 1, SUCI_F64, 7, NULL, LONG) ==
          SUCI_E_ARGUMENT);
}

/* Keeps the first element that is not 0. Types have up to 8 bytes. It is not commutative. */
static void first(const void *lower, const void *higher, void *result, uint32_t element)
{
    static const size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    static const char zeros[8] = {0};
    int is_zero = memcmp(lower, zeros, sizes[element]) == 0;
    memcpy(result, is_zero ? higher : lower, sizes[element]);
}

/* Composes two functions f * x + s, with f in the upper half and s in the lower one. */
static void affine(const void *lower, const void *higher, void *result, uint32_t element)
{
    const uint64_t *a = (const uint64_t *)lower, *b = (const uint64_t *)higher;
    uint64_t factor = (uint32_t)(*a >> 32) * (uint32_t)(*b >> 32);
    uint64_t sum = (uint32_t)((uint32_t)*a * (uint32_t)(*b >> 32) + (uint32_t)*b);
    check(element == SUCI_U64);
    *(uint64_t *)result = factor << 32 | sum;
}

static void functions(suci_node node, suci_group group, uint32_t me)
{
    uint32_t take_first, take_affine, again;
    double numbers[LENGTH];
    int16_t small = (int16_t)(-(int)me);
    uint64_t pair = UINT64_C(2) << 32 | me, alone = pair, want = pair, i;
    must(suci_combination_new(first, &take_first));
    must(suci_combination_new(affine, &take_affine));
    must(suci_combination_new(first, &again));
    check(take_first == again && take_first != take_affine);
    check(suci_combination_new(NULL, &again) == SUCI_E_ARGUMENT);
    for (i = 0; i < LENGTH; ++i)
        numbers[i] = i % SIZE == me ? 0 : me + 0.25;
    must(suci_group_allreduce(node, group, numbers, LENGTH, SUCI_F64, take_first, NULL, LONG));
    for (i = 0; i < LENGTH; ++i)
        check(numbers[i] == (i % SIZE == 0 ? 1.25 : 0.25));
    must(suci_group_reduce(node, group, 1, &small, 1, SUCI_I16, take_first, NULL, LONG));
    check(small == (me == 1 ? -1 : me == 0 ? 0 : -2));
    must(suci_group_scan(node, group, &pair, 1, SUCI_U64, take_affine, NULL, LONG));
    for (i = 0, want = 0; i <= me; ++i)
        want = 2 * want + i;
    check(pair == (UINT64_C(2) << me << 32 | want));
    must(suci_group_exclusive_scan(node, group, &alone, 1, SUCI_U64, take_affine, NULL, LONG));
    check(me == 0 || alone == (UINT64_C(1) << me << 32 | (want - me) / 2));
    check(suci_group_allreduce(node, group, &pair, 1, SUCI_U64, 255, NULL, LONG) ==
          SUCI_E_ARGUMENT);
    check(suci_group_allreduce(node, group, &pair, 1, SUCI_U64, 511, NULL, LONG) ==
          SUCI_E_ARGUMENT);
}

static void exchanges(suci_node node, suci_group group, uint32_t me)
{
    /* Member i has i + 1 elements. */
    static const size_t counts[SIZE] = {1, 2, 3};
    uint16_t own[3], got[6], parts[3];
    size_t sent[SIZE], i;
    uint64_t word = me == 2 ? 77 : 0;
    must(suci_group_broadcast(node, group, 2, &word, 1, SUCI_U64, NULL, LONG));
    check(word == 77);
    for (i = 0; i < 3; ++i)
        own[i] = (uint16_t)(10 * me + i);
    must(suci_group_gather(node, group, 0, own, 1, NULL, got, me == 0 ? 3 : 0, SUCI_U16, NULL,
                           LONG));
    check(me != 0 || (got[0] == 0 && got[1] == 10 && got[2] == 20));
    must(suci_group_allgather(node, group, own, me + 1, counts, got, 6, SUCI_U16, NULL, LONG));
    check(got[0] == 0 && got[1] == 10 && got[2] == 11 && got[3] == 20 && got[5] == 22);
    check(suci_group_allgather(node, group, own, me + 1, counts, got, 5, SUCI_U16, NULL, LONG) ==
          SUCI_E_ARGUMENT);
    must(suci_group_scatter(node, group, 1, got, 6, counts, parts, me + 1, SUCI_U16, NULL, LONG));
    for (i = 0; i <= me; ++i)
        check(parts[i] == own[i]);
    must(suci_group_all_to_all(node, group, own, 3, NULL, parts, 3, NULL, SUCI_U16, NULL, LONG));
    for (i = 0; i < SIZE; ++i)
        check(parts[i] == 10 * i + me);
    /* Each sends its elements to all. */
    for (i = 0; i < SIZE; ++i)
        sent[i] = i == me ? me + 1 : 0;
    must(suci_group_all_to_all(node, group, own, me + 1, sent, got, me + 1, sent, SUCI_U16, NULL,
                               LONG));
    check(memcmp(got, own, (me + 1) * sizeof *own) == 0);
}

static void recovery(suci_node node, suci_group group, uint32_t me)
{
    uint64_t value = ~(UINT64_C(1) << me);
    uint32_t failed[SIZE], members[SIZE], rank;
    size_t count;
    suci_group left;
    suci_error_info info;
    must(suci_group_agree(node, group, &value, failed, SIZE, &count, NULL, LONG));
    check(value == ~UINT64_C(7) && count == 0);
    if (me == 2) {
        must(suci_node_close(node, LONG));
        return;
    }
    check(suci_group_barrier(node, group, NULL, LONG) == SUCI_E_MEMBER);
    info.size = sizeof info;
    must(suci_last_error_info(&info));
    check(info.node == 2);
    value = 5;
    must(suci_group_agree(node, group, &value, failed, 0, &count, NULL, LONG));
    check(value == 5 && count == 1);
    must(suci_group_shrink(node, group, &left, LONG));
    must(suci_group_members(left, members, SIZE, &count, &rank));
    check(count == 2 && members[0] == 0 && members[1] == 1 && rank == me);
    must(suci_group_barrier(node, left, NULL, LONG));
    must(suci_group_free(left));
}

static void *run(void *given)
{
    const member *self = (const member *)given;
    suci_group group;
    must(suci_group_new(self->node, 4, all, SIZE, &group));
    must(suci_group_barrier(self->node, group, NULL, LONG));
    reductions(self->node, group, self->rank);
    functions(self->node, group, self->rank);
    exchanges(self->node, group, self->rank);
    recovery(self->node, group, self->rank);
    must(suci_group_free(group));
    return NULL;
}

static void test(uint32_t threads)
{
    member members[SIZE];
    pthread_t running[SIZE];
    uint32_t a, b;
    for (a = 0; a < SIZE; ++a) {
        suci_node_options options;
        suci_node_options_init(&options);
        options.id = a;
        options.threads = threads;
        options.listen = "127.0.0.1:0";
        must(suci_node_open(&options, &members[a].node));
        members[a].rank = a;
    }
    for (a = 0; a < SIZE; ++a)
        for (b = 0; b < SIZE; ++b) {
            char address[SUCI_ADDRESS_SIZE];
            must(suci_node_address(members[b].node, address));
            if (a != b)
                must(suci_add_peer(members[a].node, b, address));
        }
    for (a = 0; a < SIZE; ++a)
        check(pthread_create(&running[a], NULL, run, &members[a]) == 0);
    for (a = 0; a < SIZE; ++a)
        check(pthread_join(running[a], NULL) == 0);
    for (a = 0; a < SIZE; ++a)
        must(suci_node_free(members[a].node));
}

int main(void)
{
    test(0);
    test(1);
    return 0;
}
