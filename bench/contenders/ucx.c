/* UCX over TCP: tagged messages (ucp), up to 64 in flight, busy polling. One worker serves all wires, told apart by
 * their tags: the ports of their servers. */
#define WIRES_SHARE
#include "bench.h"
#include "ring.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <ucp/api/ucp.h>

struct slot {
	struct ring *ring;
	size_t at;
};

struct wire {
	ucp_tag_t tag;
	ucp_ep_h ep;
	ucp_conn_request_h caller;
	struct ring ring;
	struct slot slots[RING_MOST];
	void *sending[RING_MOST];
	size_t next_send;
};

static ucp_worker_h worker;

static void check(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		die("%s: %s", what, ucs_status_string(status));
}

static void called(ucp_conn_request_h request, void *argument)
{
	((struct wire *)argument)->caller = request;
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *argument)
{
	check(status, "receive");
	struct slot *slot = argument;
	ring_arrived(slot->ring, slot->at, info->length);
	ucp_request_free(request);
}

static void post(struct wire *wire, size_t at)
{
	wire->slots[at] = (struct slot){ &wire->ring, at };
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = received,
		.user_data = &wire->slots[at],
	};
	void *request = ucp_tag_recv_nbx(worker, wire->ring.buffer[at], wire->ring.room, wire->tag,
					 (ucp_tag_t)-1, &param);
	if (UCS_PTR_IS_ERR(request))
		die("receive: %s", ucs_status_string(UCS_PTR_STATUS(request)));
}

static void listen_for(struct wire *wire, const struct sockaddr_in *at)
{
	ucp_listener_h listener;
	ucp_listener_params_t params = {
		.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
		.sockaddr = { (const struct sockaddr *)at, sizeof *at },
		.conn_handler = { called, wire },
	};
	check(ucp_listener_create(worker, &params, &listener), "listen");
	say_ready();
	while (!wire->caller)
		ucp_worker_progress(worker);
}

static void worker_open(void)
{
	ucp_context_h context;
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
	ucp_worker_params_t alone = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				      .thread_mode = UCS_THREAD_MODE_SINGLE };
	setenv("UCX_TLS", "tcp", 1);
	check(ucp_init(&params, NULL, &context), "ucp_init");
	check(ucp_worker_create(context, &alone, &worker), "ucp_worker_create");
}

static struct wire *wire_open(bool server, const char *host, int port)
{
	struct wire *wire = calloc(1, sizeof *wire);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	inet_pton(AF_INET, host, &at.sin_addr);
	wire->tag = (ucp_tag_t)port;
	if (!worker)
		worker_open();
	ucp_ep_params_t ep = { 0 };
	if (server) {
		listen_for(wire, &at);
		ep.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
		ep.conn_request = wire->caller;
	} else {
		ep.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
		ep.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
		ep.sockaddr.addr = (struct sockaddr *)&at;
		ep.sockaddr.addrlen = sizeof at;
	}
	check(ucp_ep_create(worker, &ep, &wire->ep), "ucp_ep_create");
	ring_init(&wire->ring, 1);
	for (size_t i = 0; i < wire->ring.count; i++)
		post(wire, i);
	return wire;
}

static void finish(void **request)
{
	if (!*request)
		return;
	while (ucp_request_check_status(*request) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	check(ucp_request_check_status(*request), "send");
	ucp_request_free(*request);
	*request = NULL;
}

static void wire_send(struct wire *wire, const char *bytes, size_t length)
{
	void **request = &wire->sending[wire->next_send++ % wire->ring.count];
	ucp_request_param_t param = { 0 };
	finish(request);
	*request = ucp_tag_send_nbx(wire->ep, bytes, length, wire->tag, &param);
	if (UCS_PTR_IS_ERR(*request))
		die("send: %s", ucs_status_string(UCS_PTR_STATUS(*request)));
}

static void wire_flush(struct wire *wire)
{
	(void)wire;
}

static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length)
{
	double deadline = 0;
	ucp_worker_progress(worker);
	for (unsigned looks = 1; !ring_has(&wire->ring); looks++) {
		if (!wait)
			return false;
		ring_patience(looks, &deadline);
		ucp_worker_progress(worker);
	}
	char *bytes = ring_head(&wire->ring, length);
	*mark = touch(bytes, *length);
	post(wire, ring_pop(&wire->ring));
	return true;
}

static void wire_close(struct wire *wire)
{
	ucp_request_param_t param = { 0 };
	for (size_t at = 0; at < wire->ring.count; at++)
		finish(&wire->sending[at]);
	void *request = ucp_ep_flush_nbx(wire->ep, &param);
	if (!UCS_PTR_IS_ERR(request))
		finish(&request);
	double end = now() + 0.05;
	while (now() < end)
		ucp_worker_progress(worker);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return bench();
}
