/* DSE with modules of the program: messages go through memory that all share, and writes and
   changes of the global memory are counted. The program is that of dse.c. */
#include <dse.h>
#include <pthread.h>
#include <shmem.h>
#include <sched.h>

static void replace(void);
static void compare(void);
#define dse_init() (replace(), (dse_init)())
#define dse_finalize() (compare(), (dse_finalize)())
#include "dse.c"

/* A message on its way from one node. */
struct box {
    uint64_t full;
    uint64_t length;
    char bytes[64];
};

static struct dse_modules before;
static struct box *boxes;
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
static uint64_t writes, changes, sent, arrived, over;

static void count_one(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void write_counted(dse_address to, const void *from, size_t size)
{
    count_one(&writes);
    before.memory.write(to, from, size);
}

static uint64_t change_counted(dse_address at, int change, uint64_t operand, uint64_t expected)
{
    count_one(&changes);
    return before.memory.change(at, change, operand, expected);
}

static void send_by_memory(int node, const void *message, size_t length)
{
    struct box *box = &boxes[shmem_my_pe()];
    uint64_t bytes = length;

    pthread_mutex_lock(&sending);
    while (shmem_uint64_atomic_fetch(&box->full, node) != 0)
        sched_yield();
    shmem_putmem(box->bytes, message, length, node);
    shmem_uint64_put(&box->length, &bytes, 1, node);
    shmem_quiet();
    shmem_uint64_atomic_set(&box->full, 1, node);
    pthread_mutex_unlock(&sending);
    count_one(&sent);
}

static void *receive(void *unused)
{
    while (__atomic_load_n(&over, __ATOMIC_ACQUIRE) == 0) {
        for (int from = 0; from < shmem_n_pes(); from++) {
            struct box copy;
            if (!shmem_uint64_test(&boxes[from].full, SHMEM_CMP_NE, 0))
                continue;
            copy = boxes[from];
            shmem_uint64_atomic_set(&boxes[from].full, 0, shmem_my_pe());
            count_one(&arrived);
            dse_arrived(from, copy.bytes, copy.length);
        }
    }
    return unused;
}

static pthread_t receiver;

static void begin_by_memory(void)
{
    boxes = shmem_calloc(shmem_n_pes(), sizeof *boxes);
    check(boxes != NULL && pthread_create(&receiver, NULL, receive, NULL) == 0);
}

static void replace(void)
{
    struct dse_modules modules;

    dse_get_modules(&before);
    modules = before;
    modules.memory.write = write_counted;
    modules.memory.change = change_counted;
    modules.message.begin = begin_by_memory;
    modules.message.send = send_by_memory;
    dse_set_modules(&modules);
}

/* All messages went this way, and the functions above used the counted ones. */
static void compare(void)
{
    static long totals[2];
    long own[2];

    shmem_barrier_all();
    own[0] = (long)sent;
    own[1] = (long)arrived;
    check(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, totals, own, 2) == 0);
    check(totals[0] == totals[1] && (totals[0] > 0) == (shmem_n_pes() > 1));
    check(shmem_my_pe() > 0 || (writes > 0 && changes > 0));
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(receiver, NULL);
}
