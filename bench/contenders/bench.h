/* What the C contenders share: the command line, the workloads and the figures that they print. Included once
 * by each program, which defines the functions of "a wire" below. src/work.rs says the same in Rust.
 *
 * A message's first byte is its mark: MARK_DATA, MARK_ASK (the same, but the server answers it), or MARK_LAST
 * (the client sends no more in this phase) and MARK_DONE (the server has received everything), which are messages of
 * one byte. */
#ifndef BENCH_H
#define BENCH_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MARK_DATA, MARK_LAST, MARK_DONE, MARK_ASK };
enum { MAX_SERVERS = 16, IN_FLIGHT = 16, MIX_LONGEST = 8192 };

/* What runs unmeasured before it counts, seconds. */
#define WARM_UP 0.1

/* How long either end waits for the other, seconds. */
#define PATIENCE 20.0

static struct {
	const char *name;	  /* who is measured */
	bool serve;		  /* whether anybody calls this process */
	char host[MAX_SERVERS][64]; /* whom it calls, and then where it serves, each one caller */
	int port[MAX_SERVERS];
	bool serves[MAX_SERVERS];
	int wires;
	const char *workload;
	size_t size, longest;
	int data;
	double seconds;
	bool spin;
	int pin;
} args;

/* ---- what a contender defines ----
 * WIRES_SHARE, before it includes this, if one thread must serve all wires: what makes progress is the process's. */

struct wire;

/* Opens the server's end (at host and port; it calls say_ready when it can be called) or a client's. */
static struct wire *wire_open(bool server, const char *host, int port);
/* Takes a message, waiting for room; may keep it until wire_flush. The bytes stay as they are. */
static void wire_send(struct wire *wire, const char *message, size_t length);
/* Sends what was kept. */
static void wire_flush(struct wire *wire);
/* The next message: passes it to touch. With wait unset: false if there is none yet. */
static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length);
/* Sees to it that everything sent arrives although the process ends. */
static void wire_close(struct wire *wire);

/* ---- what it uses ---- */

__attribute__((noreturn, format(printf, 1, 2), unused)) static void die(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fprintf(stderr, "%s: ", args.name);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	_exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((unused)) static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* Reads a message as a program would that uses it: every cache line once. Returns its mark. */
static int touch(const void *message, size_t length)
{
	const volatile unsigned char *bytes = message;
	unsigned char sum = 0;
	for (size_t at = 0; at < length; at += 64)
		sum += bytes[at];
	(void)sum;
	if (length == 0 || bytes[0] > MARK_ASK)
		die("a message of %zu bytes without a mark", length);
	return bytes[0];
}

/* ---- the workloads ---- */

struct half {
	uint64_t messages, bytes;
	double seconds, cpu_seconds;
	double *trips;
	size_t trip_count, trip_room;
};

static bool is_workload(const char *name)
{
	return strcmp(args.workload, name) == 0;
}

static size_t mix_size(uint32_t index)
{
	uint32_t hash = index * 0x9e3779b1u;
	hash ^= hash >> 15;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	uint32_t share = hash % 1000, spread = hash >> 10;
	if (share < 600)
		return 1 + spread % 16;
	if (share < 800)
		return 17 + spread % 16;
	if (share < 980)
		return 33 + spread % 96;
	if (share < 983)
		return 129 + spread % 896;
	return 1025 + spread % 7168;
}

/* src/work.rs and suci perf assert the same sum. */
static void check_mix(void)
{
	uint32_t sum = 0;
	for (uint32_t index = 0; index < 1000; index++)
		sum = sum * 31 + (uint32_t)mix_size(index);
	if (sum != 0x6d0bf796u)
		die("not the mix of the others");
}

static void add_trip(struct half *half, double seconds)
{
	if (half->trip_count == half->trip_room) {
		half->trip_room = half->trip_room ? 2 * half->trip_room : 65536;
		half->trips = realloc(half->trips, half->trip_room * sizeof *half->trips);
		if (!half->trips)
			die("no memory");
	}
	half->trips[half->trip_count++] = seconds * 1e6;
}

static void await_mark(struct wire *wire, int wanted)
{
	int mark;
	size_t length;
	do
		wire_recv(wire, true, &mark, &length);
	while (mark != wanted);
}

/* Messages between two looks at the clock. */
static size_t batch_of(size_t size)
{
	size_t batch = (1 << 20) / size;
	return batch < 1 ? 1 : batch > 256 ? 256 : batch;
}

static void stream(struct wire *wire, const char *payload, double end, struct half *half)
{
	size_t batch = batch_of(args.size);
	do {
		for (size_t i = 0; i < batch; i++)
			wire_send(wire, payload, args.size);
		half->messages += batch;
		half->bytes += batch * args.size;
	} while (now() < end);
}

static void ping(struct wire *wire, const char *payload, double end, struct half *half)
{
	double last = now();
	do {
		wire_send(wire, payload, args.size);
		wire_flush(wire);
		await_mark(wire, MARK_DATA);
		half->messages++;
		half->bytes += args.size;
		double t = now();
		add_trip(half, t - last);
		last = t;
	} while (last < end);
}

static void ask(struct wire *wire, const char *payload, double end, struct half *half)
{
	double sent[IN_FLIGHT];
	uint32_t asked = 0, answered = 0;
	for (;;) {
		double t = now();
		if (t < end) {
			while (asked - answered < IN_FLIGHT) {
				size_t size = mix_size(asked);
				wire_send(wire, payload, size);
				half->bytes += size;
				sent[asked++ % IN_FLIGHT] = t;
			}
			wire_flush(wire);
		} else if (asked == answered) {
			return;
		}
		int mark;
		size_t length;
		bool received = wire_recv(wire, true, &mark, &length);
		t = now();
		while (received) {
			half->messages++;
			half->bytes += length;
			add_trip(half, t - sent[answered++ % IN_FLIGHT]);
			received = asked != answered && wire_recv(wire, false, &mark, &length);
		}
	}
}

static char *payload_of(size_t size, int mark)
{
	char *payload = NULL;
	if (posix_memalign((void **)&payload, 4096, size < 4096 ? 4096 : size))
		die("no memory");
	for (size_t at = 0; at < size; at++)
		payload[at] = (char)(at / 64 % 251);
	payload[0] = (char)mark;
	return payload;
}

/* Says that it was the last message, and hears that everything arrived. */
static void part(struct wire *wire)
{
	static const char last[1] = { MARK_LAST };
	wire_send(wire, last, 1);
	wire_flush(wire);
	await_mark(wire, MARK_DONE);
}

static struct half client_phase(struct wire *wire, const char *payload, double seconds)
{
	struct half half = { 0 };
	double begun = now(), end = begun + seconds;
	bool trips = is_workload("ping-pong") || is_workload("mix");
	if (is_workload("ping-pong"))
		ping(wire, payload, end, &half);
	else if (is_workload("mix"))
		ask(wire, payload, end, &half);
	else
		stream(wire, payload, end, &half);
	if (trips)
		half.seconds = now() - begun;
	part(wire);
	if (!trips)
		half.seconds = now() - begun;
	return half;
}

static struct half server_phase(struct wire *wire, const char *payload)
{
	static const char done[1] = { MARK_DONE }, answer[1] = { MARK_DATA };
	struct half half = { 0 };
	double cpu = cpu_seconds();
	bool echo = is_workload("ping-pong"), mix = is_workload("mix");
	uint32_t index = UINT32_MAX / 2;
	for (;;) {
		int mark;
		size_t length;
		if (!wire_recv(wire, false, &mark, &length)) {
			wire_flush(wire);
			wire_recv(wire, true, &mark, &length);
		}
		if (mark == MARK_LAST)
			break;
		half.messages++;
		half.bytes += length;
		if (echo) {
			wire_send(wire, payload, args.size);
		} else if (mark == MARK_ASK) {
			wire_send(wire, answer, 1);
		} else if (mix) {
			size_t size = mix_size(index++);
			wire_send(wire, payload, size);
			half.bytes += size;
		}
	}
	wire_send(wire, done, 1);
	wire_flush(wire);
	half.cpu_seconds = cpu_seconds() - cpu;
	return half;
}

/* ---- several servers: a thread each ---- */

struct client {
	pthread_t thread;
	struct wire *wire;
	const char *payload, *asking;
	double seconds;
	struct half half;
};

/* Groups of messages to all, the last of a group with a mark that asks for an answer; when all have answered comes
 * the next group. One thread: a group is over when the slowest has it, whoever is served first. */
static struct half data_phase(struct client *clients, double seconds)
{
	struct half half = { 0 };
	double cpu = cpu_seconds(), begun = now(), last = begun;
	do {
		for (int number = 1; number <= args.data; number++) {
			for (int i = 0; i < args.wires; i++) {
				const char *bytes = number == args.data ? clients[i].asking : clients[i].payload;
				wire_send(clients[i].wire, bytes, args.size);
				half.messages++;
				half.bytes += args.size;
			}
		}
		for (int i = 0; i < args.wires; i++)
			wire_flush(clients[i].wire);
		for (int i = 0; i < args.wires; i++)
			await_mark(clients[i].wire, MARK_DATA);
		double t = now();
		add_trip(&half, t - last);
		last = t;
	} while (last < begun + seconds);
	half.seconds = last - begun;
	for (int i = 0; i < args.wires; i++)
		part(clients[i].wire);
	half.cpu_seconds = cpu_seconds() - cpu;
	return half;
}

static void *client_thread(void *argument)
{
	struct client *client = argument;
	client->half = client_phase(client->wire, client->payload, client->seconds);
	return NULL;
}

#ifdef WIRES_SHARE
/* Messages to all in turn, by the one thread whose library serves all wires. */
static struct half shared_phase(struct client *clients, double seconds)
{
	struct half half = { 0 };
	double cpu = cpu_seconds(), begun = now(), end = begun + seconds;
	size_t batch = batch_of(args.size);
	do {
		for (size_t number = 0; number < batch; number++)
			for (int i = 0; i < args.wires; i++)
				wire_send(clients[i].wire, clients[i].payload, args.size);
		half.messages += batch * (size_t)args.wires;
		half.bytes += batch * (size_t)args.wires * args.size;
	} while (now() < end);
	for (int i = 0; i < args.wires; i++)
		part(clients[i].wire);
	half.seconds = now() - begun;
	half.cpu_seconds = cpu_seconds() - cpu;
	return half;
}
#endif

static struct half clients_phase(struct client *clients, double seconds)
{
	if (is_workload("n-data"))
		return data_phase(clients, seconds);
#ifdef WIRES_SHARE
	if (args.wires > 1)
		return shared_phase(clients, seconds);
#endif
	double cpu = cpu_seconds();
	for (int i = 0; i < args.wires; i++) {
		clients[i].seconds = seconds;
		if (args.wires == 1)
			client_thread(&clients[i]);
		else if (pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]))
			die("no thread");
	}
	struct half total = { 0 };
	for (int i = 0; i < args.wires; i++) {
		if (args.wires > 1)
			pthread_join(clients[i].thread, NULL);
		struct half *half = &clients[i].half;
		uint64_t messages = total.messages + half->messages, bytes = total.bytes + half->bytes;
		double longest = total.seconds > half->seconds ? total.seconds : half->seconds;
		total = *half;
		total.messages = messages;
		total.bytes = bytes;
		total.seconds = longest;
	}
	total.cpu_seconds = cpu_seconds() - cpu;
	return total;
}

/* ---- all to all ---- */

/* Groups of messages to all others. Whoever has the groups of all others begins its next one, so nobody is ahead by more
 * than one. The last message of the last group is marked by the one whom nobody calls. */
static struct half exchange(struct client *clients, const char *ending, double seconds)
{
	struct half half = { 0 };
	double cpu = cpu_seconds(), begun = now(), last = begun;
	bool over = false;
	while (!over) {
		over = !args.serve && last >= begun + seconds;
		for (int number = 1; number <= args.data; number++) {
			bool end = over && number == args.data;
			for (int i = 0; i < args.wires; i++)
				wire_send(clients[i].wire, end ? ending : clients[i].payload, args.size);
		}
		for (int i = 0; i < args.wires; i++)
			wire_flush(clients[i].wire);
		for (int i = 0; i < args.wires; i++) {
			for (int number = 0; number < args.data; number++) {
				int mark;
				size_t length;
				wire_recv(clients[i].wire, true, &mark, &length);
				half.messages++;
				half.bytes += length;
				over |= mark == MARK_LAST;
			}
		}
		double t = now();
		add_trip(&half, t - last);
		last = t;
	}
	half.seconds = last - begun;
	half.cpu_seconds = cpu_seconds() - cpu;
	return half;
}

/* ---- the command line and the figures ---- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* By one write, since two ends may share a pipe. */
static void print_half(const struct half *half)
{
	char line[256];
	int length = snprintf(line, sizeof line,
			      "{\"messages\":%llu,\"bytes\":%llu,\"seconds\":%.9f,\"cpu_seconds\":%.9f",
			      (unsigned long long)half->messages, (unsigned long long)half->bytes,
			      half->seconds, half->cpu_seconds);
	if (half->trip_count) {
		size_t count = half->trip_count;
		qsort(half->trips, count, sizeof *half->trips, ascending);
		length += snprintf(line + length, sizeof line - (size_t)length, ",\"p50\":%.3f,\"p99\":%.3f",
				   half->trips[(count * 50 + 99) / 100 - 1],
				   half->trips[(count * 99 + 99) / 100 - 1]);
	}
	length += snprintf(line + length, sizeof line - (size_t)length, "}\n");
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		die("standard output");
}

static void split_address(const char *text, char host[64], int *port)
{
	const char *colon = strrchr(text, ':');
	if (!colon || colon - text >= 64)
		die("no address: %s", text);
	memcpy(host, text, colon - text);
	host[colon - text] = 0;
	*port = atoi(colon + 1);
}

static void parse(int argc, char **argv)
{
	args.name = argc > 1 ? argv[1] : argv[0];
	for (int i = 2; i + 1 < argc; i += 2) {
		const char *option = argv[i], *value = argv[i + 1];
		if (!strcmp(option, "--serve") || !strcmp(option, "--call")) {
			bool serve = !strcmp(option, "--serve");
			char *rest = strdup(value), *next;
			while (args.wires < MAX_SERVERS && (next = strsep(&rest, ","))) {
				split_address(next, args.host[args.wires], &args.port[args.wires]);
				args.serves[args.wires++] = serve;
			}
			args.serve |= serve;
		} else if (!strcmp(option, "--workload")) {
			args.workload = value;
		} else if (!strcmp(option, "--size")) {
			args.size = strtoul(value, NULL, 10);
		} else if (!strcmp(option, "--data")) {
			args.data = atoi(value);
		} else if (!strcmp(option, "--seconds")) {
			args.seconds = strtod(value, NULL);
		} else if (!strcmp(option, "--wait")) {
			args.spin = !strcmp(value, "spin");
		} else if (!strcmp(option, "--pin")) {
			args.pin = atoi(value);
		} else {
			die("unknown option %s", option);
		}
	}
	if (!args.workload || args.wires == 0)
		die("--workload, and --serve or --call, are missing");
	args.longest = args.size;
	if (is_workload("mix"))
		args.longest = MIX_LONGEST;
}

static int bench(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(args.pin, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		die("processor %d: %s", args.pin, strerror(errno));
	check_mix();
	char *payload = payload_of(args.longest, MARK_DATA), *asking = payload_of(args.longest, MARK_ASK);
	struct client clients[MAX_SERVERS] = { 0 };
	for (int i = 0; i < args.wires; i++) {
		clients[i].payload = payload;
		clients[i].asking = asking;
		clients[i].wire = wire_open(args.serves[i], args.host[i], args.port[i]);
	}
	struct half half;
	if (is_workload("all-to-all")) {
		char *ending = payload_of(args.longest, MARK_LAST);
		exchange(clients, ending, WARM_UP);
		half = exchange(clients, ending, args.seconds);
	} else if (args.serve) {
		server_phase(clients[0].wire, payload);
		half = server_phase(clients[0].wire, payload);
	} else {
		clients_phase(clients, WARM_UP);
		half = clients_phase(clients, args.seconds);
	}
	for (int i = 0; i < args.wires; i++)
		wire_close(clients[i].wire);
	print_half(&half);
	return 0;
}
#endif
