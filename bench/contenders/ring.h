/* Receive buffers that are posted in turn and taken in turn, for libraries that complete receives in any order:
 * up to 64 messages in flight, and no more than 16 MiB. */
#ifndef RING_H
#define RING_H

enum { RING_MOST = 64 };

struct ring {
	char *buffer[RING_MOST];
	size_t length[RING_MOST];
	bool arrived[RING_MOST];
	size_t count, room, head;
};

/* Buffers for the longest message, and for one of `least` bytes. */
static void ring_init(struct ring *ring, size_t least)
{
	ring->room = args.longest > least ? args.longest : least;
	ring->count = (16 << 20) / ring->room;
	ring->count = ring->count > RING_MOST ? RING_MOST : ring->count < 4 ? 4 : ring->count;
	for (size_t at = 0; at < ring->count; at++)
		if (posix_memalign((void **)&ring->buffer[at], 4096, ring->room + 4096))
			die("no memory");
}

__attribute__((unused)) static void ring_arrived(struct ring *ring, size_t at, size_t length)
{
	ring->arrived[at] = true;
	ring->length[at] = length;
}

/* Whether the next message is there. */
__attribute__((unused)) static bool ring_has(const struct ring *ring)
{
	return ring->arrived[ring->head];
}

static char *ring_head(struct ring *ring, size_t *length)
{
	*length = ring->length[ring->head];
	return ring->buffer[ring->head];
}

/* Done with it: returns which buffer can be posted again. */
static size_t ring_pop(struct ring *ring)
{
	size_t at = ring->head;
	ring->arrived[at] = false;
	ring->head = (at + 1) % ring->count;
	return at;
}

/* Called after each look, from 1, that found nothing: ends the program when that takes too long. Servers of one client
 * share a processor, and give way to one another. */
static void ring_patience(unsigned looks, double *deadline)
{
	if (args.serve && (is_workload("broadcast") || is_workload("n-data")))
		sched_yield();
	if (looks % 65536)
		return;
	if (*deadline == 0)
		*deadline = now() + PATIENCE;
	else if (now() > *deadline)
		die("nothing arrived for %g s", PATIENCE);
}
#endif
