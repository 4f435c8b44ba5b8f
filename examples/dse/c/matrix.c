/*
 * The product of two matrices by processes of DSE, and the comparison with a sequential one.
 *
 *   oshcc -O2 matrix.c -o matrix
 *   oshrun -n 4 ./matrix 400
 *
 * Node 0 puts the matrices into global memory and creates a process on each node. A process reads
 * one matrix and takes rows of the other by a counter that all share, until none is left.
 */
#include <dse.h>
#include <stdio.h>
#include <stdlib.h>

/* The work, in global memory. */
struct work {
    uint64_t size;
    dse_address left, right, product, next_row;
};

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "matrix: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

/* One row of the product. */
static void multiply(size_t size, const double *row, const double *right, double *product)
{
    for (size_t column = 0; column < size; column++) {
        double sum = 0;
        for (size_t k = 0; k < size; k++)
            sum += row[k] * right[k * size + column];
        product[column] = sum;
    }
}

/* A process: takes rows while there are some. Returns how many. */
static uint64_t take_rows(uint64_t argument)
{
    struct work work;
    uint64_t row, rows = 0;

    dse_read(&work, argument, sizeof work);
    size_t length = work.size * sizeof(double);
    double *right = allocate(work.size * length);
    double *left_row = allocate(length), *product_row = allocate(length);
    dse_read(right, work.right, work.size * length);
    while ((row = dse_fetch_add(work.next_row, 1)) < work.size) {
        dse_read(left_row, work.left + row * length, length);
        multiply(work.size, left_row, right, product_row);
        dse_write(work.product + row * length, product_row, length);
        rows++;
    }
    free(right);
    free(left_row);
    free(product_row);
    return rows;
}

/* Global memory with these bytes. */
static dse_address copy(const void *bytes, size_t length)
{
    dse_address address = dse_alloc(length);
    if (address == 0) {
        fprintf(stderr, "matrix: no global memory: set SHMEM_SYMMETRIC_SIZE to more\n");
        exit(1);
    }
    if (bytes != NULL)
        dse_write(address, bytes, length);
    return address;
}

/* Multiplies, and compares. Returns 0 if the result is right. */
static int run(size_t size)
{
    size_t bytes = size * size * sizeof(double);
    double *left = allocate(bytes), *right = allocate(bytes), *product = allocate(bytes);
    double *row = allocate(size * sizeof(double));
    dse_process *processes = allocate(dse_nodes() * sizeof *processes);
    uint64_t rows = 0;
    int wrong = 0;

    for (size_t at = 0; at < size * size; at++) {
        left[at] = (double)(at % 97) / 7;
        right[at] = (double)(at % 89) / 3;
    }
    struct work work = { size, copy(left, bytes), copy(right, bytes), copy(NULL, bytes),
                         copy(NULL, sizeof(uint64_t)) };
    dse_address address = copy(&work, sizeof work);
    for (int node = 0; node < dse_nodes(); node++)
        processes[node] = dse_create(node, take_rows, address);
    for (int node = 0; node < dse_nodes(); node++)
        rows += dse_await(processes[node]);
    dse_read(product, work.product, bytes);
    for (size_t at = 0; at < size; at++) {
        multiply(size, left + at * size, right, row);
        for (size_t column = 0; column < size; column++)
            wrong |= row[column] != product[at * size + column];
    }
    wrong |= rows != size;
    printf("%zu x %zu by %d nodes: %s\n", size, size, dse_nodes(),
           wrong ? "NOT as in one process" : "as in one process");
    free(left);
    free(right);
    free(product);
    free(row);
    free(processes);
    return wrong;
}

int main(int argc, char **argv)
{
    long size = argc > 1 ? strtol(argv[1], NULL, 10) : 200;
    int wrong = 0;

    if (size < 1 || size > 10000) {
        fprintf(stderr, "matrix: the size is %s: pass one from 1 to 10000\n", argv[1]);
        return 1;
    }
    dse_init();
    if (dse_node() == 0)
        wrong = run((size_t)size);
    dse_finalize();
    return wrong;
}
