/*
 * DSE: parallel processes with global memory, on OpenSHMEM's library.
 *
 *   oshcc program.c -o program
 *   oshrun -n 4 ./program             starts four nodes
 *
 * Each node runs the program. A node creates processes on any node: functions of the program, each
 * in a thread of its own. All memory that dse_alloc() returned can be read and written by all. As
 * in OpenSHMEM, misuse and the death of a node end all nodes with a message.
 */
#ifndef DSE_H
#define DSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins. All nodes call it, before anything else here; it waits for all. Programs that call
   shmem_init() call that first. */
void dse_init(void);
/* Ends. Waits until all nodes call it. Processes that run are not waited for. */
void dse_finalize(void);
/* This node, from 0, and the number of nodes. */
int dse_node(void);
int dse_nodes(void);

/* ---- Global memory. */

/* An address that means the same at all nodes: that of a byte of one node. 0 is none. */
typedef uint64_t dse_address;

/* Allocates zeros at this node, at a multiple of 16; 0 if there is no room. The environment
   variable SHMEM_SYMMETRIC_SIZE is twice the room of each node. */
dse_address dse_alloc(size_t size);
/* Frees them, at the same node. */
void dse_free(dse_address block);
/* Copies to and from this process's own memory. A write is complete when the call returns. */
void dse_read(void *into, dse_address from, size_t size);
void dse_write(dse_address to, const void *from, size_t size);
/* Adds to a 64-bit integer at a multiple of 8; returns it as it was before. */
uint64_t dse_fetch_add(dse_address at, uint64_t value);

/* ---- Processes. */

/* A function of the program, not of a shared library. Its result goes to the creator. */
typedef uint64_t (*dse_function)(uint64_t argument);
/* A process, known to the node that created it. */
typedef int dse_process;

/* Creates a process on a node. Returns -1 if this node has 1,024 that were not awaited. */
dse_process dse_create(int node, dse_function function, uint64_t argument);
/* Waits for its end, once, and returns its result. */
uint64_t dse_await(dse_process process);

/* ---- Synchronisation: objects of 16 bytes in global memory that begin with zeros. Waiting calls
   ask again and again, after sleeps of up to 1 ms. */

/* Waits until `count` processes are in the barrier. It can be used again. */
void dse_barrier(dse_address barrier, uint64_t count);
/* Semaphores: takes one, waiting while there is none; gives one. A new one has none. */
void dse_semaphore_take(dse_address semaphore);
void dse_semaphore_give(dse_address semaphore);
/* Locks, free at first. Whoever asks when it becomes free gets it, in no order. */
void dse_lock(dse_address lock);
void dse_unlock(dse_address lock);

/* ---- Modules: memory, processes and messages know nothing of each other's inside, and the
   functions above call theirs. A program replaces any of these functions by its own, at all nodes alike:

       struct dse_modules modules;
       dse_get_modules(&modules);
       modules.memory.write = my_write;
       dse_set_modules(&modules);
       dse_init();

   The functions that were there before can be called by the new ones. dse_init() calls `begin` of
   memory, processes and messages, in this order, at all nodes; it may call shmem_malloc(). */

/* Ways in which a 64-bit integer changes. */
enum dse_change {
    DSE_FETCH = 0,        /* not at all */
    DSE_SET = 1,          /* to the operand */
    DSE_ADD = 2,          /* by the operand */
    DSE_COMPARE_SWAP = 3  /* to the operand, if it was `expected` */
};

/* dse_alloc() and so on. `change` is atomic, and returns the integer as it was before. */
struct dse_memory_module {
    void (*begin)(void);
    dse_address (*alloc)(size_t size);
    void (*free)(dse_address block);
    void (*read)(void *into, dse_address from, size_t size);
    void (*write)(dse_address to, const void *from, size_t size);
    uint64_t (*change)(dse_address at, int change, uint64_t operand, uint64_t expected);
};

/* dse_create() and dse_await(). `arrived` gets what the module had sent from another node. */
struct dse_process_module {
    void (*begin)(void);
    dse_process (*create)(int node, dse_function function, uint64_t argument);
    uint64_t (*await)(dse_process process);
    void (*arrived)(int from, const void *message, size_t length);
};

/* Brings messages of up to 64 bytes to `node`, once each, where dse_arrived() is called with
   them. */
struct dse_message_module {
    void (*begin)(void);
    void (*send)(int node, const void *message, size_t length);
};

struct dse_modules {
    struct dse_memory_module memory;
    struct dse_process_module process;
    struct dse_message_module message;
};

/* Gives the modules that dse_init() uses. */
void dse_get_modules(struct dse_modules *modules);
/* Replaces them. Call it before dse_init(). */
void dse_set_modules(const struct dse_modules *modules);
/* Gives a message that a module of the program brought from another node to the process module. May
   be called by any thread once the node is in dse_init(). */
void dse_arrived(int from, const void *message, size_t length);

#ifdef __cplusplus
}
#endif

#endif
