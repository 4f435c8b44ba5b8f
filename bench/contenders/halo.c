/* The halo exchange of tests/src/bin/halo_rank.rs by MPICH: `halo EDGE ITERATIONS` under mpiexec.
 * The number of ranks is a power of two. Sends do not block. MPI_Allreduce adds up the number.
 * UCX_TLS=tcp makes MPICH use TCP, as it does between machines. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TAG = 7, MOST = 8 };

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void iterate(int rank, int size, int edge, char *sent, char *received, int count)
{
	for (int at = 0; at < count; at++) {
		MPI_Request sending[MOST];
		MPI_Status done[MOST];
		int dimensions = 0;
		for (int bit = 1; bit < size; bit <<= 1, dimensions++)
			MPI_Isend(sent, bit == 1 ? edge : edge / 4, MPI_BYTE, rank ^ bit, TAG,
				  MPI_COMM_WORLD, &sending[dimensions]);
		for (int bit = 1; bit < size; bit <<= 1)
			MPI_Recv(received, bit == 1 ? edge : edge / 4, MPI_BYTE, rank ^ bit, TAG,
				 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Waitall(dimensions, sending, done);
		double number = 1, sum = 0;
		MPI_Allreduce(&number, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		if (sum != size) {
			fprintf(stderr, "the sum is %g\n", sum);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	int rank, size;
	if (argc != 3) {
		fprintf(stderr, "halo EDGE ITERATIONS\n");
		return 2;
	}
	int edge = atoi(argv[1]), iterations = atoi(argv[2]);
	setenv("UCX_TLS", "tcp", 1);
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	char *sent = calloc(1, edge), *received = calloc(1, edge);
	iterate(rank, size, edge, sent, received, iterations / 10);
	double begun = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	iterate(rank, size, edge, sent, received, iterations);
	begun = seconds(CLOCK_MONOTONIC) - begun;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("{\"seconds\":%.9f,\"cpu_seconds\":%.9f}\n", begun, cpu);
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	/* MPI_Finalize of MPICH 4.0.2 sometimes waits for ever for a rank that has passed it. */
	_Exit(0);
}
