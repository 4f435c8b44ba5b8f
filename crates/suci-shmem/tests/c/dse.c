/* DSE: processes on all nodes, global memory, synchronisation. */
#include <dse.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends all nodes if a condition does not hold. */
#define check(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: node %d: not true: %s\n", __FILE__, __LINE__, dse_node(), \
                    #condition);                                                              \
            shmem_global_exit(1);                                                             \
        }                                                                                     \
    } while (0)

enum { PROCESSES = 8, ROUNDS = 20 };

/* The addresses that the processes of one test share, in global memory. */
struct shared {
    dse_address counter, lock, barrier, semaphore, data;
    uint64_t count;
};

static uint64_t square(uint64_t argument)
{
    return argument * argument;
}

/* Counts without atomic operations, under the lock. */
static uint64_t count(uint64_t argument)
{
    struct shared shared;
    uint64_t value;

    dse_read(&shared, argument, sizeof shared);
    for (int i = 0; i < ROUNDS; i++) {
        dse_lock(shared.lock);
        dse_read(&value, shared.counter, sizeof value);
        value++;
        dse_write(shared.counter, &value, sizeof value);
        dse_unlock(shared.lock);
    }
    return dse_node();
}

/* All write, and see after the barrier what all wrote; twice, as barriers are used again. */
static uint64_t meet(uint64_t argument)
{
    struct shared shared;
    uint64_t own, all[PROCESSES];

    dse_read(&shared, argument, sizeof shared);
    own = dse_fetch_add(shared.counter, 1);
    for (uint64_t round = 1; round <= 2; round++) {
        uint64_t value = own * round;
        dse_write(shared.data + 8 * own, &value, sizeof value);
        dse_barrier(shared.barrier, shared.count);
        dse_read(all, shared.data, sizeof all);
        for (uint64_t i = 0; i < shared.count; i++)
            check(all[i] == i * round);
        dse_barrier(shared.barrier, shared.count);
    }
    return own;
}

/* Takes what the creator gives. */
static uint64_t take(uint64_t argument)
{
    struct shared shared;

    dse_read(&shared, argument, sizeof shared);
    dse_semaphore_take(shared.semaphore);
    return dse_fetch_add(shared.counter, 1);
}

/* A process that creates one on the next node. */
static uint64_t chain(uint64_t argument)
{
    if (argument == 0)
        return 0;
    return 1 + dse_await(dse_create((dse_node() + 1) % dse_nodes(), chain, argument - 1));
}

static dse_address shared_memory(void)
{
    struct shared shared = {
        dse_alloc(8), dse_alloc(16), dse_alloc(16), dse_alloc(16), dse_alloc(8 * PROCESSES),
        PROCESSES,
    };
    dse_address address = dse_alloc(sizeof shared);

    check(shared.counter && shared.data && address);
    dse_write(address, &shared, sizeof shared);
    return address;
}

static uint64_t counter_of(dse_address address)
{
    struct shared shared;
    uint64_t value;

    dse_read(&shared, address, sizeof shared);
    dse_read(&value, shared.counter, sizeof value);
    return value;
}

int main(void)
{
    dse_process processes[PROCESSES];
    int nodes;

    dse_init();
    nodes = dse_nodes();
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = dse_create(i % nodes, square, i);
    for (int i = 0; i < PROCESSES; i++)
        check(dse_await(processes[i]) == (uint64_t)i * i);
    check(dse_await(dse_create(nodes - 1, chain, 5)) == 5);

    dse_address address = shared_memory();
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = dse_create(i % nodes, count, address);
    for (int i = 0; i < PROCESSES; i++)
        check(dse_await(processes[i]) == (uint64_t)(i % nodes));
    check(counter_of(address) == PROCESSES * ROUNDS);

    address = shared_memory();
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = dse_create(i % nodes, meet, address);
    for (int i = 0; i < PROCESSES; i++)
        check(dse_await(processes[i]) < PROCESSES);

    struct shared shared;
    address = shared_memory();
    dse_read(&shared, address, sizeof shared);
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = dse_create(i % nodes, take, address);
    check(counter_of(address) == 0);
    for (int i = 0; i < PROCESSES; i++)
        dse_semaphore_give(shared.semaphore);
    for (int i = 0; i < PROCESSES; i++)
        check(dse_await(processes[i]) < PROCESSES);
    check(counter_of(address) == PROCESSES);
    dse_free(shared.data);
    check(dse_alloc((size_t)1 << 40) == 0);
    dse_finalize();
    return 0;
}
