/* MPICH: MPI_Isend and MPI_Irecv, up to 64 in flight, busy polling; rank 0 is the client, the others are servers.
 * Debian's goes by way of UCX, which UCX_TLS=tcp keeps to TCP. */
#define WIRES_SHARE
#include "bench.h"
#include "ring.h"
#include <mpi.h>

enum { TAG = 7, MEET = 8 };

struct wire {
	struct ring ring;
	MPI_Request receiving[RING_MOST], sending[RING_MOST];
	size_t next_send;
	int peer;
};

static void post(struct wire *wire, size_t at)
{
	MPI_Irecv(wire->ring.buffer[at], (int)wire->ring.room, MPI_BYTE, wire->peer, TAG, MPI_COMM_WORLD,
		  &wire->receiving[at]);
}

/* Client and servers have come as far. Unlike a barrier it connects nobody who has nothing to say to the other. */
static void meet(bool server)
{
	int first = server ? 0 : 1, end = server ? 1 : args.wires + 1;
	for (int peer = first; peer < end; peer++)
		MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, MEET, NULL, 0, MPI_BYTE, peer, MEET, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
}

static struct wire *wire_open(bool server, const char *host, int port)
{
	(void)host;
	(void)port;
	static int wires;
	int size;
	struct wire *wire = calloc(1, sizeof *wire);
	wire->peer = server ? 0 : ++wires;
	if (wires <= 1) {
		setenv("UCX_TLS", "tcp", 1);
		MPI_Init(NULL, NULL);
	}
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (wire->peer >= size)
		die("%d ranks are too few", size);
	ring_init(&wire->ring, 1);
	for (size_t at = 0; at < wire->ring.count; at++) {
		wire->sending[at] = MPI_REQUEST_NULL;
		post(wire, at);
	}
	if (server || wires == args.wires)
		meet(server);
	return wire;
}

static void wire_send(struct wire *wire, const char *bytes, size_t length)
{
	MPI_Request *request = &wire->sending[wire->next_send++ % wire->ring.count];
	MPI_Wait(request, MPI_STATUS_IGNORE);
	MPI_Isend(bytes, (int)length, MPI_BYTE, wire->peer, TAG, MPI_COMM_WORLD, request);
}

static void wire_flush(struct wire *wire)
{
	(void)wire;
}

static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length)
{
	int done = 0, count;
	double deadline = 0;
	MPI_Status status;
	for (unsigned looks = 1;; looks++) {
		MPI_Test(&wire->receiving[wire->ring.head], &done, &status);
		if (done)
			break;
		if (!wait)
			return false;
		ring_patience(looks, &deadline);
	}
	MPI_Get_count(&status, MPI_BYTE, &count);
	char *bytes = ring_head(&wire->ring, length);
	*length = (size_t)count;
	*mark = touch(bytes, *length);
	post(wire, ring_pop(&wire->ring));
	return true;
}

static void wire_close(struct wire *wire)
{
	for (size_t at = 0; at < wire->ring.count; at++) {
		MPI_Wait(&wire->sending[at], MPI_STATUS_IGNORE);
		MPI_Cancel(&wire->receiving[at]);
		MPI_Wait(&wire->receiving[at], MPI_STATUS_IGNORE);
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	int done = bench();
	meet(args.serve);
	/* MPI_Finalize of MPICH 4.0.2 sometimes waits for ever for a rank that has passed it. */
	_exit(done);
}
