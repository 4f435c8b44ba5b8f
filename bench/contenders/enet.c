/* ENet: reliable packets on one channel, throttle off, socket buffers of 4 MiB. */
#include "bench.h"
#include <enet/enet.h>

enum { INPUT = 4096 };

/* Bytes that wait for acknowledgement at most: its window is 64 KiB, and it sends more while it is in a call. */
static const size_t OUTSTANDING = 512 << 10;

struct wire {
	ENetHost *host;
	ENetPeer *peer;
	ENetPacket *input[INPUT];
	size_t head, tail;
};

static size_t outstanding;

static void acknowledged(ENetPacket *packet)
{
	outstanding -= packet->dataLength;
}

/* Does what is to be done; with `wait` sleeps until something is, 1 ms at most. */
static void service(struct wire *wire, bool wait)
{
	ENetEvent event;
	int done = enet_host_service(wire->host, &event, wait && !args.spin ? 1 : 0);
	for (; done > 0; done = enet_host_check_events(wire->host, &event)) {
		if (event.type == ENET_EVENT_TYPE_CONNECT)
			wire->peer = event.peer;
		else if (event.type == ENET_EVENT_TYPE_DISCONNECT)
			die("the other end has gone");
		else if (event.type == ENET_EVENT_TYPE_RECEIVE)
			wire->input[wire->tail++ % INPUT] = event.packet;
		if (wire->tail - wire->head == INPUT)
			return;
	}
	if (done < 0)
		die("enet_host_service");
}

static struct wire *wire_open(bool server, const char *host, int port)
{
	struct wire *wire = calloc(1, sizeof *wire);
	ENetAddress at = { .port = (uint16_t)port };
	enet_initialize();
	enet_address_set_host_ip(&at, host);
	wire->host = enet_host_create(server ? &at : NULL, 1, 1, 0, 0);
	if (!wire->host)
		die("no host at %s:%d", host, port);
	enet_socket_set_option(wire->host->socket, ENET_SOCKOPT_RCVBUF, 4 << 20);
	enet_socket_set_option(wire->host->socket, ENET_SOCKOPT_SNDBUF, 4 << 20);
	if (server)
		say_ready();
	else
		enet_host_connect(wire->host, &at, 1, 0);
	double deadline = now() + PATIENCE;
	while (!wire->peer) {
		service(wire, true);
		if (now() > deadline)
			die("no connection");
	}
	/* Never dropped, never slowed down: packets are reliable, and the window is bound enough. */
	enet_peer_throttle_configure(wire->peer, ENET_PEER_PACKET_THROTTLE_INTERVAL,
				     ENET_PEER_PACKET_THROTTLE_SCALE, 0);
	enet_peer_timeout(wire->peer, 0, 20000, 30000);
	return wire;
}

static void wire_send(struct wire *wire, const char *bytes, size_t length)
{
	/* Short ones are copied, as everybody would; long ones stay where they are. */
	bool copied = length < 1024;
	ENetPacket *packet = enet_packet_create(
		bytes, length, ENET_PACKET_FLAG_RELIABLE | (copied ? 0 : ENET_PACKET_FLAG_NO_ALLOCATE));
	packet->freeCallback = acknowledged;
	outstanding += length;
	if (enet_peer_send(wire->peer, 0, packet))
		die("enet_peer_send");
	/* Room in the input is kept for what is answered. */
	while (outstanding > OUTSTANDING + length)
		service(wire, true);
}

static void wire_flush(struct wire *wire)
{
	enet_host_flush(wire->host);
}

static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length)
{
	double deadline = 0;
	while (wire->head == wire->tail) {
		service(wire, wait);
		if (wire->head != wire->tail)
			break;
		if (!wait)
			return false;
		if (deadline == 0)
			deadline = now() + PATIENCE;
		else if (now() > deadline)
			die("nothing arrived for %g s", PATIENCE);
	}
	ENetPacket *packet = wire->input[wire->head++ % INPUT];
	*length = packet->dataLength;
	*mark = touch(packet->data, *length);
	enet_packet_destroy(packet);
	return true;
}

static void wire_close(struct wire *wire)
{
	double end = now() + (args.serve ? 0.1 : 0.02);
	while (outstanding && now() < end + 1)
		service(wire, true);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return bench();
}
