/* ZeroMQ: PUSH and PULL one way, PAIR where there are answers; high-water marks of 10,000 messages (256 MiB of
 * long ones: more would only be waited for at the end), one I/O thread, payloads handed over without a copy when they are long. What batches is its I/O thread. */
#include "bench.h"
#include <zmq.h>

struct wire {
	void *to, *from;
};

static void *context;
static int wires;

static void *socket_of(int type, bool bind, const char *host, int port)
{
	void *socket = zmq_socket(context, type);
	size_t fit = (256 << 20) / args.longest;
	int water = fit < 10000 ? (int)fit : 10000, linger = -1, patience = (int)(PATIENCE * 1000);
	char at[96];
	snprintf(at, sizeof at, "tcp://%s:%d", host, port);
	zmq_setsockopt(socket, ZMQ_SNDHWM, &water, sizeof water);
	zmq_setsockopt(socket, ZMQ_RCVHWM, &water, sizeof water);
	zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
	zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
	zmq_setsockopt(socket, ZMQ_SNDTIMEO, &patience, sizeof patience);
	if (bind ? zmq_bind(socket, at) : zmq_connect(socket, at))
		die("%s: %s", at, zmq_strerror(zmq_errno()));
	return socket;
}

/* One way messages go by PUSH and PULL, what is answered by PAIR; the last word needs an answer, too, so there
 * is a PAIR in any case, 20,000 ports further up. */
static struct wire *wire_open(bool server, const char *host, int port)
{
	if (!context)
		context = zmq_ctx_new();
	zmq_ctx_set(context, ZMQ_IO_THREADS, 1);
	struct wire *wire = calloc(1, sizeof *wire);
	if (is_workload("stream") || is_workload("broadcast")) {
		void *data = socket_of(server ? ZMQ_PULL : ZMQ_PUSH, server, host, port);
		void *back = socket_of(ZMQ_PAIR, server, host, port + 20000);
		wire->to = server ? back : data;
		wire->from = server ? data : back;
	} else {
		wire->to = wire->from = socket_of(ZMQ_PAIR, server, host, port);
	}
	if (server)
		say_ready();
	wires++;
	return wire;
}

static void keep(void *data, void *hint)
{
	(void)data;
	(void)hint;
}

static void wire_send(struct wire *wire, const char *bytes, size_t length)
{
	zmq_msg_t message;
	if (length >= 1024) {
		zmq_msg_init_data(&message, (void *)bytes, length, keep, NULL);
	} else {
		zmq_msg_init_size(&message, length);
		memcpy(zmq_msg_data(&message), bytes, length);
	}
	int done;
	while ((done = zmq_msg_send(&message, wire->to, args.spin ? ZMQ_DONTWAIT : 0)) < 0)
		if (!(args.spin && zmq_errno() == EAGAIN) && zmq_errno() != EINTR)
			die("send: %s", zmq_strerror(zmq_errno()));
}

static void wire_flush(struct wire *wire)
{
	(void)wire;
}

static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length)
{
	zmq_msg_t message;
	zmq_msg_init(&message);
	int flags = args.spin || !wait ? ZMQ_DONTWAIT : 0;
	while (zmq_msg_recv(&message, wire->from, flags) < 0) {
		if (zmq_errno() == EAGAIN && !wait)
			return false;
		if (!(zmq_errno() == EAGAIN && args.spin) && zmq_errno() != EINTR)
			die("recv: %s", zmq_strerror(zmq_errno()));
	}
	*length = zmq_msg_size(&message);
	*mark = touch(zmq_msg_data(&message), *length);
	zmq_msg_close(&message);
	return true;
}

static void wire_close(struct wire *wire)
{
	if (wire->to != wire->from)
		zmq_close(wire->from);
	zmq_close(wire->to);
	/* Waits until everything has gone. */
	if (--wires == 0)
		zmq_ctx_term(context);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return bench();
}
