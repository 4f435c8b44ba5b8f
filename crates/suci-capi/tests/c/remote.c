/* One-sided operations between nodes of each kind in one process. */
#include "check.h"
#include <stdlib.h>

#define RIGHTS (SUCI_REGION_READ | SUCI_REGION_WRITE | SUCI_REGION_ATOMIC)
#define LONG SUCI_SECONDS(20)

static suci_node open_node(int64_t id, uint32_t threads)
{
    suci_node_options options;
    suci_node node;
    suci_node_options_init(&options);
    options.id = id;
    options.threads = threads;
    options.listen = "127.0.0.1:0";
    must(suci_node_open(&options, &node));
    return node;
}

static void introduce(suci_node a, uint32_t id, suci_node b)
{
    char address[SUCI_ADDRESS_SIZE];
    must(suci_node_address(b, address));
    must(suci_add_peer(a, id, address));
}

static void bytes(suci_node a, suci_region region)
{
    static char sent[300000], got[300000];
    suci_remote_region name;
    suci_signal signal;
    char *memory = (char *)suci_region_memory(region);
    size_t at;
    must(suci_region_name(region, &name));
    check(name.node == 1 && memory != NULL && (uintptr_t)memory % 8 == 0);
    for (at = 0; at < sizeof sent; ++at)
        sent[at] = (char)(at % 251);
    must(suci_put(a, &name, 24, sent, sizeof sent, LONG));
    must(suci_fence(a, 1));
    memset(&signal, 0, sizeof signal);
    signal.offset = 8;
    signal.value = 7;
    signal.update = SUCI_SIGNAL_ADD;
    must(suci_put_signal(a, &name, 24, "SIGNAL", 6, &signal, LONG));
    must(suci_put(a, &name, 0, NULL, 0, LONG));
    must(suci_quiet(a, LONG));
    check(memcmp(memory + 24, "SIGNAL", 6) == 0);
    check(memcmp(memory + 30, sent + 6, sizeof sent - 6) == 0);
    check(memory[8] + memory[15] == 7);
    must(suci_get(a, &name, 30, got, sizeof got - 6, LONG));
    check(memcmp(got, sent + 6, sizeof got - 6) == 0);
    signal.update = SUCI_SIGNAL_SET;
    signal.value = 0;
    must(suci_put_signal(a, &name, 0, "12345678", 8, &signal, LONG));
    must(suci_quiet(a, LONG));
}

static void atomics(suci_node a, suci_region region)
{
    suci_remote_region name;
    uint64_t before = 99;
    must(suci_region_name(region, &name));
    must(suci_atomic(a, &name, 8, 8, SUCI_ATOMIC_SET, 5, LONG));
    must(suci_fetch_atomic(a, &name, 8, 8, SUCI_ATOMIC_ADD, 3, 0, &before, LONG));
    check(before == 5);
    must(suci_fetch_atomic(a, &name, 8, 8, SUCI_ATOMIC_COMPARE_SWAP, 100, 7, &before, LONG));
    check(before == 8);
    must(suci_fetch_atomic(a, &name, 8, 8, SUCI_ATOMIC_COMPARE_SWAP, 100, 8, &before, LONG));
    must(suci_fetch_atomic(a, &name, 8, 4, SUCI_ATOMIC_SWAP, 1, 0, &before, LONG));
    check(before == 100);
    must(suci_atomic(a, &name, 8, 4, SUCI_ATOMIC_OR, 6, LONG));
    must(suci_atomic(a, &name, 8, 4, SUCI_ATOMIC_AND, 5, LONG));
    must(suci_atomic(a, &name, 8, 4, SUCI_ATOMIC_XOR, 1, LONG));
    must(suci_fetch_atomic(a, &name, 8, 4, SUCI_ATOMIC_FETCH, 0, 0, &before, LONG));
    check(before == 4);
    check(suci_atomic(a, &name, 8, 2, SUCI_ATOMIC_ADD, 1, LONG) == SUCI_E_ARGUMENT);
    check(suci_atomic(a, &name, 8, 8, SUCI_ATOMIC_COMPARE_SWAP, 1, LONG) == SUCI_E_ARGUMENT);
    check(suci_atomic(a, &name, 8, 8, 8, 1, LONG) == SUCI_E_ARGUMENT);
    check(suci_fetch_atomic(a, &name, 8, 8, 0, 0, 0, NULL, LONG) == SUCI_E_ARGUMENT);
}

static suci_layout strided(uint64_t offset, uint64_t element, uint64_t stride, uint32_t count)
{
    suci_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.offset = offset;
    layout.element = element;
    layout.stride = stride;
    layout.count = count;
    return layout;
}

/* Strided and gathered places of a region. */
static void layouts(suci_node a, suci_region region, suci_context context)
{
    suci_extent extents[2] = { { 104, 1 }, { 100, 2 } };
    suci_layout every_third = strided(100, 2, 3, 3), gathered;
    suci_remote_region name;
    suci_signal signal;
    char got[6];
    char *memory = (char *)suci_region_memory(region);
    must(suci_region_name(region, &name));
    memset(&signal, 0, sizeof signal);
    signal.offset = 96 - 8;
    signal.value = 5;
    memcpy(memory + 100, "........", 8);
    must(suci_put_layout(a, context, &name, &every_third, "abcdef", 6, &signal, LONG));
    must(suci_context_fence(a, context, 1));
    must(suci_get_layout(a, context, &name, &every_third, got, 6, LONG));
    check(memcmp(got, "abcdef", 6) == 0);
    must(suci_context_quiet(a, context, LONG));
    check(memcmp(memory + 100, "ab.cd.ef", 8) == 0 && memory[88] + memory[95] == 5);
    memset(&gathered, 0, sizeof gathered);
    gathered.extents = extents;
    gathered.count = 2;
    must(suci_get_layout(a, context, &name, &gathered, got, 3, LONG));
    check(memcmp(got, "dab", 3) == 0);
    check(suci_get_layout(a, context, &name, &gathered, got, 4, LONG) == SUCI_E_ARGUMENT);
    gathered.count = 13;
    check(suci_get_layout(a, context, &name, &gathered, got, 3, LONG) == SUCI_E_ARGUMENT);
    gathered.count = 2;
    gathered.reserved = 1;
    check(suci_get_layout(a, context, &name, &gathered, got, 3, LONG) == SUCI_E_ARGUMENT);
    every_third.element = 4;
    check(suci_put_layout(a, context, &name, &every_third, got, 6, NULL, LONG) == SUCI_E_ARGUMENT);
    check(suci_put_layout(a, context, &name, NULL, got, 6, NULL, LONG) == SUCI_E_ARGUMENT);
}

/* Operations that are begun, then waited for. */
static void begun(suci_node a, suci_region region, suci_context context)
{
    suci_layout all = strided(0, 200000, 200000, 1);
    suci_operation operation[3];
    suci_region own;
    suci_remote_region name;
    uint64_t value = 1;
    char *memory = (char *)suci_region_memory(region);
    must(suci_region_name(region, &name));
    must(suci_region_allocate(a, 200000, SUCI_REGION_READ, &own));
    memset(memory, 9, 200000);
    must(suci_begin_get(a, context, &name, &all, own, &all, &operation[0], LONG));
    must(suci_begin_atomic(a, context, &name, 8, 8, SUCI_ATOMIC_SET, 40, 0, NULL, LONG));
    must(suci_begin_atomic(a, context, &name, 8, 8, SUCI_ATOMIC_ADD, 2, 0, &operation[1], LONG));
    must(suci_begin_atomic(a, context, &name, 8, 8, SUCI_ATOMIC_COMPARE_SWAP, 7, 42, &operation[2],
                           LONG));
    must(suci_operation_wait(a, &operation[2], &value, LONG));
    check(value == 42);
    must(suci_operation_wait(a, &operation[1], &value, LONG));
    check(value == 40);
    must(suci_operation_wait(a, &operation[0], NULL, LONG));
    check(memcmp((char *)suci_region_memory(own) + 16, memory + 16, 200000 - 16) == 0);
    check(suci_operation_wait(a, &operation[0], NULL, LONG) == SUCI_E_ARGUMENT);
    operation[0].layer = 1000;
    check(suci_operation_wait(a, &operation[0], NULL, LONG) == SUCI_E_ARGUMENT);
    must(suci_region_free(own));
    check(suci_begin_get(a, context, &name, &all, own, &all, &operation[0], LONG)
          == SUCI_E_HANDLE);
    check(suci_begin_get(a, context, &name, &all, region, &all, NULL, LONG) == SUCI_E_ARGUMENT);
    must(suci_context_quiet(a, context, LONG));
}

/* A context fails alone. */
static void contexts(suci_node a, suci_node b, suci_region region)
{
    suci_context none, one, other, wrong, all[255];
    suci_remote_region name;
    size_t count;
    memset(&none, 0, sizeof none);
    layouts(a, region, none);
    begun(a, region, none);
    must(suci_context_open(a, &one));
    must(suci_context_open(a, &other));
    layouts(a, region, one);
    begun(a, region, one);
    must(suci_region_name(region, &name));
    name.key ^= 1;
    must(suci_begin_atomic(a, one, &name, 0, 8, SUCI_ATOMIC_ADD, 1, 0, NULL, LONG));
    must(suci_context_quiet(a, other, LONG));
    must(suci_quiet(a, LONG));
    check(suci_context_quiet(a, one, LONG) == SUCI_E_NO_RIGHT);
    must(suci_context_open(b, &wrong));
    check(suci_context_quiet(a, wrong, LONG) == SUCI_E_ARGUMENT);
    must(suci_context_free(wrong));
    must(suci_context_free(one));
    must(suci_context_free(other));
    check(suci_context_quiet(a, one, LONG) == SUCI_E_HANDLE);
    check(suci_context_free(one) == SUCI_E_HANDLE);
    for (count = 0; count < 255; ++count)
        if (suci_context_open(a, &all[count]) != SUCI_OK)
            break;
    /* The two above may still wait for the target. */
    check(count >= 253 && (count == 255 || suci_context_open(a, &one) == SUCI_E_BUSY));
    while (count > 0)
        must(suci_context_free(all[--count]));
}

/* Waits for a change of this process's memory. */
static void waits(suci_node a, suci_node b, suci_region region, int serves)
{
    suci_remote_region name;
    must(suci_region_name(region, &name));
    must(suci_atomic(a, &name, 8, 8, SUCI_ATOMIC_SET, 5, LONG));
    if (serves)
        must(suci_region_wait(b, region, 8, 8, SUCI_COMPARE_EQUAL, 5, LONG));
    must(suci_quiet(a, LONG));
    must(suci_region_wait(b, region, 8, 4, SUCI_COMPARE_NOT_EQUAL, 4, 0));
    must(suci_region_wait(b, region, 8, 8, SUCI_COMPARE_GREATER, 4, 0));
    must(suci_region_wait(b, region, 8, 8, SUCI_COMPARE_LESS_OR_EQUAL, 5, 0));
    check(suci_region_wait(b, region, 8, 8, SUCI_COMPARE_LESS, 5, 0) == SUCI_E_TIMED_OUT);
    check(suci_region_wait(b, region, 8, 8, SUCI_COMPARE_GREATER_OR_EQUAL, 6,
                           SUCI_MILLISECONDS(2)) == SUCI_E_TIMED_OUT);
    check(suci_region_wait(b, region, 9, 8, SUCI_COMPARE_EQUAL, 5, 0) == SUCI_E_OUT_OF_REGION);
    check(suci_region_wait(b, region, 8, 8, 6, 5, 0) == SUCI_E_ARGUMENT);
    check(suci_region_wait(b, region, 8, 1, 0, 5, 0) == SUCI_E_ARGUMENT);
    check(suci_region_wait(a, region, 8, 8, 0, 5, 0) == SUCI_E_ARGUMENT);
}

static void refused(suci_node a, suci_node b)
{
    suci_region region;
    suci_remote_region name, wrong;
    char byte[16] = { 0 };
    must(suci_region_allocate(b, 16, SUCI_REGION_READ, &region));
    must(suci_region_name(region, &name));
    wrong = name;
    wrong.key ^= 1;
    check(suci_get(a, &wrong, 0, byte, 1, LONG) == SUCI_E_NO_RIGHT);
    check(suci_get(a, &name, 16, byte, 1, LONG) == SUCI_E_OUT_OF_REGION);
    wrong = name;
    wrong.region = 1000;
    check(suci_get(a, &wrong, 0, byte, 1, LONG) == SUCI_E_NO_REGION);
    wrong.node = 77;
    check(suci_get(a, &wrong, 0, byte, 1, LONG) == SUCI_E_UNKNOWN_PEER);
    must(suci_put(a, &name, 0, byte, 1, LONG));
    check(suci_quiet(a, LONG) == SUCI_E_NO_RIGHT);
    must(suci_quiet(a, LONG));
    must(suci_get(a, &name, 0, byte, 16, LONG));
    check(suci_get(a, NULL, 0, byte, 16, LONG) == SUCI_E_ARGUMENT);
    check(suci_get(a, &name, 0, NULL, 16, LONG) == SUCI_E_ARGUMENT);
    must(suci_region_free(region));
    check(suci_region_free(region) == SUCI_E_HANDLE);
    check(suci_region_memory(region) == NULL);
    check(suci_region_name(region, &name) == SUCI_E_HANDLE);
    check(suci_get(a, &name, 0, byte, 16, LONG) == SUCI_E_NO_REGION);
    check(suci_region_allocate(b, 16, 0, &region) == SUCI_E_ARGUMENT);
    check(suci_region_allocate(b, 16, 16, &region) == SUCI_E_ARGUMENT);
    check(suci_region_allocate(b, SIZE_MAX, RIGHTS, &region) == (SUCI_ERRNO_BIT | 12));
    check(suci_region_lend(b, NULL, 16, RIGHTS, &region) == SUCI_E_ARGUMENT);
    check(suci_region_lend(b, byte, 16, SUCI_REGION_HUGE_PAGES, &region) == SUCI_E_ARGUMENT);
}

static void run(uint32_t threads, uint32_t target_threads)
{
    suci_node a = open_node(0, threads), b = open_node(1, target_threads);
    suci_region region, lent;
    uint64_t huge = 1;
    uint64_t *memory = (uint64_t *)calloc(1, 400000);
    introduce(a, 1, b);
    introduce(b, 0, a);
    check(memory != NULL);
    must(suci_region_allocate(b, 400000, RIGHTS | SUCI_REGION_HUGE_PAGES, &region));
    must(suci_region_huge_bytes(region, &huge));
    check(huge <= 400000);
    must(suci_region_lend(b, memory, 400000, RIGHTS, &lent));
    check(suci_region_memory(lent) == memory);
    bytes(a, region);
    bytes(a, lent);
    atomics(a, region);
    atomics(a, lent);
    contexts(a, b, region);
    contexts(a, b, lent);
    waits(a, b, region, threads > 0);
    refused(a, b);
    must(suci_region_free(lent));
    free(memory);
    must(suci_node_free(a));
    must(suci_node_free(b));
    must(suci_region_free(region));
    check(suci_quiet(a, 0) == SUCI_E_HANDLE);
}

int main(void)
{
    run(0, 1);
    run(1, 2);
    run(2, 0);
    run(0, 0);
    return 0;
}
