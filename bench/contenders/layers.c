/* One-sided and collective operations of MPI, as tests/src/bin/layers_rank.rs has those of Suci:
 * `layers WHAT BYTES ITERATIONS TRANSPORT`, started by MPICH or Open MPI. WHAT is put, get, add,
 * atomics, barrier or allreduce. TRANSPORT is `tcp`, as between machines, or `default`, which on
 * one machine means shared memory. A put is complete at its target (MPI_Win_flush) before the next
 * begins; of atomics, which have no result, BATCH are under way at once. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64 };

static int rank, size, bytes;
static MPI_Win window;
static char *buffer;

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void once(const char *what, int at, double *sent, double *sum)
{
	static int64_t one = 1;
	int64_t before;
	if (!strcmp(what, "barrier")) {
		MPI_Barrier(MPI_COMM_WORLD);
	} else if (!strcmp(what, "allreduce")) {
		MPI_Allreduce(sent, sum, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		if (sum[0] != size) {
			fprintf(stderr, "the sum is %g\n", sum[0]);
			exit(1);
		}
	} else if (rank == 0) {
		if (!strcmp(what, "put"))
			MPI_Put(buffer, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
		else if (!strcmp(what, "get"))
			MPI_Get(buffer, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
		else if (!strcmp(what, "atomics"))
			MPI_Accumulate(&one, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, window);
		else
			MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 0, MPI_SUM, window);
		if (strcmp(what, "atomics") || at % BATCH == BATCH - 1)
			MPI_Win_flush(1, window);
	}
}

static void repeat(const char *what, int count, double *sent, double *sum)
{
	for (int at = 0; at < count; at++)
		once(what, at, sent, sum);
	if (rank == 0)
		MPI_Win_flush(1, window);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "layers WHAT BYTES ITERATIONS TRANSPORT\n");
		return 2;
	}
	const char *what = argv[1];
	bytes = atoi(argv[2]) < 8 ? 8 : atoi(argv[2]);
	int iterations = atoi(argv[3]);
	if (!strcmp(argv[4], "tcp")) {
		setenv("UCX_TLS", "tcp", 1);
		setenv("OMPI_MCA_pml", "ob1", 1);
		setenv("OMPI_MCA_btl", "self,tcp", 1);
		setenv("OMPI_MCA_osc", "pt2pt", 1);
	}
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	void *memory;
	MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, bytes);
	MPI_Win_lock_all(0, window);
	buffer = malloc(bytes);
	double *sent = malloc(bytes), *sum = malloc(bytes);
	for (int at = 0; at < bytes / 8; at++)
		sent[at] = 1;
	repeat(what, iterations / 10, sent, sum);
	double begun = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	repeat(what, iterations, sent, sum);
	begun = seconds(CLOCK_MONOTONIC) - begun;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("{\"seconds\":%.9f,\"cpu_seconds\":%.9f}\n", begun, cpu);
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
#ifdef OPEN_MPI
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
#endif
	/* As in halo.c, but not before the other ranks have left the barrier: they would see a broken
	 * connection. */
	struct timespec tenth = {0, 100000000};
	nanosleep(&tenth, NULL);
	_Exit(0);
}
