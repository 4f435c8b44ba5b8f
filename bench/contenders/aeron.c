/* Aeron: its media driver is in this process and has no thread of its own (INVOKER): whoever sends, receives or waits
 * does its work, since a process has one processor here. Packets of 1,472 bytes, 16 to a system call, socket buffers
 * of 4 MiB, a receiver window of 1 MiB, a publication and a subscription for each server. It knows no way to sleep
 * until something comes: who is idle backs off as Aeron does by default, or spins. */
#include "bench.h"
#include <aeronc.h>
#include <aeronmd.h>
#include <aeron_agent.h>
#include <util/aeron_fileutil.h>
#include <glob.h>
#include <signal.h>

enum { INPUT = 256, STREAM = 1, BUFFER = 4 << 20, WINDOW = 1 << 20, MTU = 1472, PACKETS = 16 };

/* Bytes between two turns of the driver while there is room. */
static const size_t TURN = 64 << 10;

/* Where drivers keep what they share with their clients, followed by a process id. */
#define DIRECTORY "/dev/shm/suci-bench-aeron-"

struct input {
	int mark;
	size_t length;
};

struct wire {
	aeron_exclusive_publication_t *to;
	aeron_subscription_t *from;
	aeron_fragment_assembler_t *whole;
	void *idling;
	size_t sent;
	struct input input[INPUT];
	size_t head, tail;
};

static char directory[64];
static aeron_driver_t *driver;
static aeron_t *client;

static void check(int done, const char *what)
{
	if (done < 0)
		die("%s: %s", what, aeron_errmsg());
}

/* One of a broadcast's threads does the work for all. */
static pthread_mutex_t duty = PTHREAD_MUTEX_INITIALIZER;

static int work(void)
{
	if (pthread_mutex_trylock(&duty))
		return 0;
	int carried = aeron_driver_main_do_work(driver), served = aeron_main_do_work(client);
	pthread_mutex_unlock(&duty);
	check(carried, "aeron_driver_main_do_work");
	check(served, "aeron_main_do_work");
	return carried + served;
}

static void idle(struct wire *wire, int done)
{
	if (!args.spin)
		aeron_idle_strategy_backoff_idle(wire->idling, done);
}

/* Directories of processes that were killed are in the way of nobody, but they are memory. */
static void sweep(void)
{
	glob_t found;
	if (glob(DIRECTORY "*", 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (kill(atoi(found.gl_pathv[i] + strlen(DIRECTORY)), 0) && errno == ESRCH)
			aeron_delete_directory(found.gl_pathv[i]);
	globfree(&found);
}

static void open_driver(void)
{
	size_t term = 16 << 20;
	/* A message has at most an eighth of a term. */
	while (term / 8 < args.longest)
		term *= 2;
	snprintf(directory, sizeof directory, DIRECTORY "%d", getpid());
	sweep();
	aeron_driver_context_t *own;
	check(aeron_driver_context_init(&own), "aeron_driver_context_init");
	aeron_driver_context_set_dir(own, directory);
	aeron_driver_context_set_threading_mode(own, AERON_THREADING_MODE_INVOKER);
	aeron_driver_context_set_term_buffer_length(own, term);
	aeron_driver_context_set_mtu_length(own, MTU);
	aeron_driver_context_set_socket_so_rcvbuf(own, BUFFER);
	aeron_driver_context_set_socket_so_sndbuf(own, BUFFER);
	aeron_driver_context_set_rcv_initial_window_length(own, WINDOW);
	aeron_driver_context_set_sender_io_vector_capacity(own, PACKETS);
	aeron_driver_context_set_receiver_io_vector_capacity(own, PACKETS);
	aeron_driver_context_set_network_publication_max_messages_per_send(own, PACKETS);
	check(aeron_driver_init(&driver, own), "aeron_driver_init");
	check(aeron_driver_start(driver, true), "aeron_driver_start");
	aeron_driver_main_do_work(driver);
	aeron_context_t *context;
	check(aeron_context_init(&context), "aeron_context_init");
	aeron_context_set_dir(context, directory);
	aeron_context_set_use_conductor_agent_invoker(context, true);
	check(aeron_init(&client, context), "aeron_init");
	check(aeron_start(client), "aeron_start");
}

/* The server subscribes at its address and publishes, 20,000 ports further up, to whoever asks there. */
static struct wire *wire_open(bool server, const char *host, int port)
{
	if (!client)
		open_driver();
	struct wire *wire = calloc(1, sizeof *wire);
	char there[128], back[128];
	snprintf(there, sizeof there, "aeron:udp?endpoint=%s:%d", host, port);
	snprintf(back, sizeof back, "aeron:udp?%scontrol=%s:%d|control-mode=dynamic",
		 server ? "" : "endpoint=0.0.0.0:0|group=false|", host, port + 20000);
	aeron_idle_strategy_backoff_state_init(&wire->idling, 10, 20, 1000, 1000000);
	aeron_async_add_subscription_t *subscribing;
	check(aeron_async_add_subscription(&subscribing, client, server ? there : back, STREAM, NULL, NULL, NULL, NULL),
	      "aeron_async_add_subscription");
	aeron_async_add_exclusive_publication_t *publishing;
	check(aeron_async_add_exclusive_publication(&publishing, client, server ? back : there, STREAM),
	      "aeron_async_add_exclusive_publication");
	int done;
	while ((done = aeron_async_add_subscription_poll(&wire->from, subscribing)) == 0)
		work();
	check(done, "a subscription");
	while ((done = aeron_async_add_exclusive_publication_poll(&wire->to, publishing)) == 0)
		work();
	check(done, "a publication");
	if (server)
		say_ready();
	double deadline = now() + PATIENCE;
	while (!aeron_exclusive_publication_is_connected(wire->to) || !aeron_subscription_is_connected(wire->from)) {
		idle(wire, work());
		if (now() > deadline)
			die("no connection");
	}
	return wire;
}

static void wire_send(struct wire *wire, const char *bytes, size_t length)
{
	double deadline = 0;
	int64_t done;
	while ((done = aeron_exclusive_publication_offer(wire->to, (const uint8_t *)bytes, length, NULL, NULL)) < 0) {
		if (done != AERON_PUBLICATION_BACK_PRESSURED && done != AERON_PUBLICATION_ADMIN_ACTION)
			die("offer: %lld %s", (long long)done, aeron_errmsg());
		idle(wire, work());
		if (deadline == 0)
			deadline = now() + PATIENCE;
		else if (now() > deadline)
			die("no room for %g s", PATIENCE);
	}
	wire->sent += length;
	if (wire->sent >= TURN) {
		wire->sent = 0;
		work();
	}
}

static void wire_flush(struct wire *wire)
{
	wire->sent = 0;
	work();
}

static void take(void *of, const uint8_t *bytes, size_t length, aeron_header_t *header)
{
	(void)header;
	struct wire *wire = of;
	wire->input[wire->tail++ % INPUT] = (struct input){ touch(bytes, length), length };
}

static int poll_input(struct wire *wire)
{
	return aeron_subscription_poll(wire->from, aeron_fragment_assembler_handler, wire->whole, INPUT);
}

static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length)
{
	if (!wire->whole)
		check(aeron_fragment_assembler_create(&wire->whole, take, wire), "aeron_fragment_assembler_create");
	double deadline = 0;
	while (wire->head == wire->tail) {
		int done = poll_input(wire);
		if (wire->head != wire->tail)
			break;
		done += work();
		if (done == 0 && !wait)
			return false;
		idle(wire, done);
		if (deadline == 0)
			deadline = now() + PATIENCE;
		else if (done == 0 && now() > deadline)
			die("nothing arrived for %g s", PATIENCE);
	}
	struct input *input = &wire->input[wire->head++ % INPUT];
	*mark = input->mark;
	*length = input->length;
	return true;
}

/* What was lost is sent again only as long as somebody does the work. */
static void wire_close(struct wire *wire)
{
	double end = now() + (args.serve ? 0.1 : 0.02);
	while (now() < end)
		idle(wire, work());
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	int done = bench();
	aeron_close(client);
	aeron_driver_close(driver);
	aeron_delete_directory(directory);
	return done;
}
