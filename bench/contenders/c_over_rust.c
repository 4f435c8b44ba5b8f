/* The workloads of tests/src/bin/c_over_rust.rs by the C library, in the same steps.
 *
 *     c_over_rust server
 *     c_over_rust client ADDRESS ping|large|many|single SECONDS
 *
 * The server prints its address, and ends when the client says so. The client prints the
 * nanoseconds that a message took (of ping: a round trip). The first byte of a message says what it
 * is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <suci/suci.h>
#include <time.h>

enum { DATA, ECHO, LAST, END };
enum { SERVER = 0, CLIENT = 1 };
enum { PING = 64, LARGE = 65536, SMALL = 32, TOGETHER = 2048, TAKEN = 256, LOOK = 256 };

static void must(int result)
{
	if (result == SUCI_OK)
		return;
	fprintf(stderr, "%s\n", suci_last_error_message());
	exit(1);
}

static suci_node open_node(uint32_t id)
{
	suci_node_options options;
	suci_node node;

	suci_node_options_init(&options);
	options.id = id;
	options.accept = SUCI_ACCEPT_ANYONE;
	must(suci_node_open(&options, &node));
	return node;
}

static void serve(suci_node node)
{
	static suci_message messages[TAKEN];
	bool over = false;

	while (!over) {
		size_t count;
		must(suci_recv_many(node, messages, TAKEN, &count, SUCI_FOREVER));
		for (size_t at = 0; at < count; at++) {
			const char *bytes = messages[at].payload;
			if (bytes[0] == DATA)
				continue;
			over |= bytes[0] == END;
			must(suci_send(node, CLIENT, bytes, messages[at].length, SUCI_FOREVER));
		}
		suci_message_release_many(messages, count);
	}
}

/* A message and its answer. */
static void ask(suci_node node, const char *bytes, size_t length)
{
	suci_message answer;

	must(suci_send(node, SERVER, bytes, length, SUCI_FOREVER));
	must(suci_recv(node, &answer, SUCI_FOREVER));
	suci_message_release(&answer);
}

static unsigned long ping(suci_node node)
{
	static const char bytes[PING] = { ECHO };

	ask(node, bytes, PING);
	return 1;
}

/* The library reads the program's memory, and says when it no longer does. */
static unsigned long large(suci_node node)
{
	static char bytes[LARGE];
	const struct iovec piece = { bytes, LARGE };
	suci_send_options options;
	suci_event event;

	suci_send_options_init(&options);
	options.flags = SUCI_SEND_BY_REFERENCE;
	for (int at = 0; at < LOOK / 4; at++)
		must(suci_sendv(node, SERVER, &piece, 1, &options, SUCI_FOREVER, NULL));
	while (suci_next_event(node, &event, 0) == SUCI_OK)
		suci_event_release(&event);
	return LOOK / 4;
}

static unsigned long many(suci_node node)
{
	static char bytes[TOGETHER][SMALL];
	static struct iovec pieces[TOGETHER];

	for (int at = 0; at < TOGETHER && pieces[at].iov_len == 0; at++)
		pieces[at] = (struct iovec){ bytes[at], SMALL };
	must(suci_send_many(node, SERVER, pieces, TOGETHER, NULL, SUCI_FOREVER, NULL));
	return TOGETHER;
}

static unsigned long single(suci_node node)
{
	static const char bytes[SMALL];

	for (int at = 0; at < LOOK; at++)
		must(suci_send(node, SERVER, bytes, SMALL, SUCI_FOREVER));
	return LOOK;
}

typedef unsigned long workload(suci_node node);

static workload *workload_of(const char *name)
{
	static const struct {
		const char *name;
		workload *work;
	} all[] = { { "ping", ping }, { "large", large }, { "many", many }, { "single", single } };

	for (size_t at = 0; at < sizeof all / sizeof *all; at++)
		if (strcmp(all[at].name, name) == 0)
			return all[at].work;
	fprintf(stderr, "no workload %s\n", name);
	exit(2);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Works for so long. Returns the nanoseconds of a message, when the server has all. */
static double measure(suci_node node, workload *work, double seconds)
{
	static const char last[1] = { LAST };
	double begun = now();
	unsigned long count = 0;

	do
		count += work(node);
	while (now() - begun < seconds);
	ask(node, last, 1);
	return (now() - begun) / count * 1e9;
}

int main(int argc, char **argv)
{
	static const char end[1] = { END };
	bool is_server = argc == 2 && strcmp(argv[1], "server") == 0;

	if (!is_server && !(argc == 5 && strcmp(argv[1], "client") == 0)) {
		fprintf(stderr, "c_over_rust server | client ADDRESS WORKLOAD SECONDS\n");
		return 2;
	}
	suci_node node = open_node(is_server ? SERVER : CLIENT);
	if (is_server) {
		char address[SUCI_ADDRESS_SIZE];
		must(suci_node_address(node, address));
		printf("%s\n", address);
		fflush(stdout);
		serve(node);
	} else {
		workload *work = workload_of(argv[3]);
		double seconds = atof(argv[4]);
		must(suci_add_peer(node, SERVER, argv[2]));
		measure(node, work, seconds / 3);
		printf("%.3f\n", measure(node, work, seconds));
		ask(node, end, 1);
	}
	must(suci_node_close(node, SUCI_SECONDS(5)));
	must(suci_node_free(node));
	return 0;
}
