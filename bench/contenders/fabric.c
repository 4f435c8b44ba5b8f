/* libfabric: reliable datagrams (RDM), tagged messages, up to 64 in flight, busy polling. The provider follows
 * from the contender's name: fabric-tcp is tcp;ofi_rxm, fabric-udp is udp;ofi_rxd. One endpoint serves all wires, told
 * apart by their tags: the ports of their servers. */
#define WIRES_SHARE
#include "bench.h"
#include "ring.h"
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum { NAME = 128 };

struct slot {
	struct fi_context2 context;
	struct wire *wire;
};

struct wire {
	fi_addr_t peer;
	uint64_t tag;
	size_t sending;
	struct ring ring;
	struct slot receives[RING_MOST], sends[RING_MOST];
	size_t next_send;
};

static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *tx, *rx;
static size_t inject;

static void check(ssize_t done, const char *what)
{
	if (done)
		die("%s: %s", what, fi_strerror((int)-done));
}

static void cq_failed(struct fid_cq *cq)
{
	struct fi_cq_err_entry error = { 0 };
	fi_cq_readerr(cq, &error, 0);
	die("completion: %s", fi_strerror(error.err));
}

/* Takes what has completed. */
static void progress(void)
{
	struct fi_cq_tagged_entry done[16];
	ssize_t count = fi_cq_read(tx, done, 16);
	if (count == -FI_EAVAIL)
		cq_failed(tx);
	for (ssize_t i = 0; i < count; i++)
		((struct slot *)done[i].op_context)->wire->sending--;
	count = fi_cq_read(rx, done, 16);
	if (count == -FI_EAVAIL)
		cq_failed(rx);
	for (ssize_t i = 0; i < count; i++) {
		struct slot *slot = done[i].op_context;
		ring_arrived(&slot->wire->ring, (size_t)(slot - slot->wire->receives), done[i].len);
	}
}

static void post(struct wire *wire, size_t at)
{
	struct slot *slot = &wire->receives[at];
	ssize_t done;
	slot->wire = wire;
	while ((done = fi_trecv(ep, wire->ring.buffer[at], wire->ring.room, NULL, FI_ADDR_UNSPEC, wire->tag, 0,
				&slot->context)) == -FI_EAGAIN)
		progress();
	check(done, "fi_trecv");
}

static void send_to_peer(struct wire *wire, const char *bytes, size_t length)
{
	ssize_t done;
	if (length <= inject) {
		while ((done = fi_tinject(ep, bytes, length, wire->peer, wire->tag)) == -FI_EAGAIN)
			progress();
		check(done, "fi_tinject");
		return;
	}
	while (wire->sending >= wire->ring.count)
		progress();
	/* Both providers keep nothing in it (no FI_CONTEXT in the mode they ask for). */
	struct slot *slot = &wire->sends[wire->next_send++ % wire->ring.count];
	slot->wire = wire;
	while ((done = fi_tsend(ep, bytes, length, NULL, wire->peer, wire->tag, &slot->context)) == -FI_EAGAIN)
		progress();
	check(done, "fi_tsend");
	wire->sending++;
}

static struct fi_info *information(bool server, const char *host, int port)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	hints->caps = FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = 0;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	bool udp = !strcmp(args.name, "fabric-udp");
	hints->fabric_attr->prov_name = strdup(udp ? "udp;ofi_rxd" : "tcp;ofi_rxm");
	char service[16];
	snprintf(service, sizeof service, "%d", port);
	check(fi_getinfo(FI_VERSION(1, 14), host, service, server ? FI_SOURCE : 0, hints, &info), "fi_getinfo");
	return info;
}

static void endpoint_open(struct fi_info *info)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE, .size = 1024 };
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC };
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	check(fi_av_open(domain, &attr, &av, NULL), "fi_av_open");
	check(fi_cq_open(domain, &cq, &tx, NULL), "fi_cq_open");
	check(fi_cq_open(domain, &cq, &rx, NULL), "fi_cq_open");
	check(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT), "fi_ep_bind");
	check(fi_ep_bind(ep, &rx->fid, FI_RECV), "fi_ep_bind");
	check(fi_enable(ep), "fi_enable");
	inject = info->tx_attr->inject_size;
}

static struct wire *wire_open(bool server, const char *host, int port)
{
	struct wire *wire = calloc(1, sizeof *wire);
	struct fi_info *info = information(server, host, port);
	if (!ep)
		endpoint_open(info);
	wire->tag = (uint64_t)port;
	ring_init(&wire->ring, NAME);
	for (size_t at = 0; at < wire->ring.count; at++)
		post(wire, at);
	char name[NAME];
	size_t length = sizeof name;
	if (server) {
		/* The client's first message is its name. */
		say_ready();
		while (!ring_has(&wire->ring))
			progress();
		char *first = ring_head(&wire->ring, &length);
		if (fi_av_insert(av, first, 1, &wire->peer, 0, NULL) != 1)
			die("fi_av_insert");
		post(wire, ring_pop(&wire->ring));
	} else {
		if (fi_av_insert(av, info->dest_addr, 1, &wire->peer, 0, NULL) != 1)
			die("fi_av_insert");
		check(fi_getname(&ep->fid, name, &length), "fi_getname");
		static char kept[NAME];
		memcpy(kept, name, length);
		send_to_peer(wire, kept, length);
	}
	return wire;
}

static void wire_send(struct wire *wire, const char *bytes, size_t length)
{
	send_to_peer(wire, bytes, length);
}

static void wire_flush(struct wire *wire)
{
	(void)wire;
}

static bool wire_recv(struct wire *wire, bool wait, int *mark, size_t *length)
{
	progress();
	double deadline = 0;
	for (unsigned looks = 1; !ring_has(&wire->ring); looks++) {
		if (!wait)
			return false;
		ring_patience(looks, &deadline);
		progress();
	}
	char *bytes = ring_head(&wire->ring, length);
	*mark = touch(bytes, *length);
	post(wire, ring_pop(&wire->ring));
	return true;
}

static void wire_close(struct wire *wire)
{
	/* Nobody else sends what is on its way. */
	double end = now() + 0.05;
	while (wire->sending || now() < end)
		progress();
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return bench();
}
