#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size; MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t n = 1; n <= 4u << 20; n *= 8) {
        char *a = malloc(n), *b = malloc(n);
        memset(a, rank + 1, n); memset(b, 0, n);
        int next = (rank + 1) % size, prev = (rank + size - 1) % size;
        for (int i = 0; i < 20; i++) {
            MPI_Sendrecv(a, n, MPI_CHAR, next, 7, b, n, MPI_CHAR, prev, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (size_t k = 0; k < n; k++) if (b[k] != (char)(prev + 1)) { printf("wrong at %zu of %zu\n", k, n); MPI_Abort(MPI_COMM_WORLD, 1); }
        }
        free(a); free(b);
    }
    double x = rank, s = 0;
    for (int i = 0; i < 500; i++) { MPI_Allreduce(&x, &s, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); if (s != size * (size - 1) / 2.0) { printf("wrong sum %g\n", s); MPI_Abort(MPI_COMM_WORLD, 2); } }
    int n = 300000; int *v = malloc(n * sizeof *v), *w = malloc(n * sizeof *w);
    for (int i = 0; i < n; i++) v[i] = i + rank;
    MPI_Allreduce(v, w, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) if (w[i] != i * size + size * (size - 1) / 2) { printf("wrong at %d\n", i); MPI_Abort(MPI_COMM_WORLD, 3); }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) printf("ok with %d\n", size);
    MPI_Finalize();
    return 0;
}
