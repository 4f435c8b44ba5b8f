// Bad input gets an error, and never ends the process.
#include "node.h"
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

static struct node a;
static fi_addr_t self;
static char buffer[64];

static int asked(void (*change)(struct fi_info *)) {
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    hints->fabric_attr->prov_name = strdup("suci");
    hints->ep_attr->type = FI_EP_RDM;
    change(hints);
    int result = fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info);
    if (!result)
        fi_freeinfo(info);
    fi_freeinfo(hints);
    return result;
}

static void nothing(struct fi_info *hints) { (void)hints; }
static void stream(struct fi_info *hints) { hints->ep_attr->type = FI_EP_MSG; }
static void datagram(struct fi_info *hints) { hints->ep_attr->type = FI_EP_DGRAM; }
static void memory(struct fi_info *hints) { hints->caps = FI_RMA; }
static void automatic(struct fi_info *hints) {
    hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
}
static void too_long(struct fi_info *hints) { hints->tx_attr->inject_size = 1 << 20; }
static void elsewhere(struct fi_info *hints) { hints->domain_attr->name = strdup("eth77"); }
static void no_name(struct fi_info *hints) {
    hints->src_addr = calloc(1, 64);
    hints->src_addrlen = 64;
}
static void short_name(struct fi_info *hints) {
    hints->dest_addr = calloc(1, 4);
    hints->dest_addrlen = 4;
}

static void information(void) {
    EQUAL(asked(nothing), 0);
    void (*refused[])(struct fi_info *) = {stream,   datagram,  memory,  automatic,
                                           too_long, elsewhere, no_name, short_name};
    for (size_t at = 0; at < sizeof refused / sizeof *refused; at++)
        EQUAL(asked(refused[at]), -FI_ENODATA);
}

static void addresses(void) {
    char names[3][64], back[64];
    int errors[3];
    fi_addr_t found[3];
    memcpy(names[0], a.name, 64);
    memset(names[1], 0xff, 64);
    // The same ID at another address.
    memcpy(names[2], a.name, 64);
    names[2][20] ^= 1;
    EQUAL(fi_av_insert(a.av, names, 3, found, FI_SYNC_ERR, errors), 1);
    CHECK(!errors[0] && errors[1] == FI_EINVAL && errors[2] == FI_EADDRINUSE);
    CHECK(found[1] == FI_ADDR_NOTAVAIL && found[2] == FI_ADDR_NOTAVAIL);
    EQUAL(fi_av_insert(a.av, NULL, 1, found, 0, NULL), -FI_EINVAL);
    EQUAL(fi_av_insert(a.av, names, 1, found, FI_SYNC_ERR, NULL), -FI_EINVAL);
    size_t length = 10;
    EQUAL(fi_av_lookup(a.av, self, back, &length), 0);
    CHECK(length == 64 && !memcmp(back, a.name, 10));
    EQUAL(fi_av_lookup(a.av, 1 << 30, back, &length), -FI_EINVAL);
    EQUAL(fi_av_lookup(a.av, self, back, NULL), -FI_EINVAL);
    fi_addr_t unknown = 77;
    EQUAL(fi_av_remove(a.av, &unknown, 1, 0), -FI_EINVAL);
    EQUAL(fi_av_insertsvc(a.av, "127.0.0.1", "no number", found, 0, NULL), -FI_ENODATA);
    EQUAL(fi_av_insertsvc(a.av, NULL, NULL, found, 0, NULL), -FI_EINVAL);
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .name = "shared", .flags = FI_READ};
    struct fid_av *av;
    EQUAL(fi_av_open(a.domain, &attr, &av, NULL), -FI_ENOSYS);
    length = 5;
    EQUAL(fi_getname(&a.ep->fid, back, &length), -FI_ETOOSMALL);
    EQUAL(length, 64);
    length = 5;
    fi_av_straddr(a.av, a.name, back, &length);
    CHECK(!strcmp(back, "suci") && length > 5);
}

static void operations(void) {
    struct iovec parts[100] = {0};
    struct fi_msg message = {.msg_iov = parts, .iov_count = 100, .addr = self};
    EQUAL(fi_sendmsg(a.ep, &message, 0), -FI_EINVAL);
    EQUAL(fi_sendmsg(a.ep, NULL, 0), -FI_EINVAL);
    EQUAL(fi_recvmsg(a.ep, &message, 0), -FI_EINVAL);
    EQUAL(fi_sendv(a.ep, NULL, NULL, 3, self, NULL), -FI_EINVAL);
    EQUAL(fi_send(a.ep, NULL, 9, NULL, self, NULL), -FI_EINVAL);
    EQUAL(fi_send(a.ep, buffer, SIZE_MAX, NULL, self, NULL), -FI_EINVAL);
    EQUAL(fi_send(a.ep, buffer, 5ull << 30, NULL, self, NULL), -FI_EMSGSIZE);
    EQUAL(fi_inject(a.ep, buffer, 1 << 20, self), -FI_EMSGSIZE);
    EQUAL(fi_recv(a.ep, NULL, 9, NULL, self, NULL), -FI_EINVAL);
    EQUAL(fi_recv(a.ep, buffer, 9, NULL, 99, NULL), -FI_EINVAL);
    EQUAL(fi_send(a.ep, buffer, 9, NULL, 99, NULL), -FI_EINVAL);
    EQUAL(fi_send(a.ep, buffer, 9, NULL, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
    message.iov_count = 1;
    EQUAL(fi_sendmsg(a.ep, &message, 1ull << 62), -FI_EBADFLAGS);
    EQUAL(fi_recvmsg(a.ep, &message, FI_DISCARD), -FI_EBADFLAGS);
    EQUAL(fi_recvmsg(a.ep, &message, FI_CLAIM), -FI_EINVAL);
    EQUAL(fi_recvmsg(a.ep, &message, FI_PEEK | FI_CLAIM), -FI_EINVAL);
    EQUAL(a.ep->rma->read(a.ep, buffer, 8, NULL, self, 0, 0, NULL), -FI_ENOSYS);
    EQUAL(a.ep->atomic->write(a.ep, buffer, 1, NULL, self, 0, 0, FI_INT64, FI_SUM, NULL),
          -FI_ENOSYS);
    EQUAL(fi_shutdown(a.ep, 0), -FI_ENOSYS);
    EQUAL(fi_cq_read(a.cq, NULL, 1), -FI_EINVAL);
    EQUAL(fi_cq_readerr(a.cq, NULL, 0), -FI_EINVAL);
    struct fi_cq_err_entry failed = {0};
    EQUAL(fi_cq_readerr(a.cq, &failed, 0), -FI_EAGAIN);
}

static void objects(void) {
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fi_cq_attr attr = {.format = 99};
    EQUAL(fi_cq_open(a.domain, &attr, &cq, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_obj = FI_WAIT_FD};
    EQUAL(fi_cq_open(a.domain, &attr, &cq, NULL), -FI_ENOSYS);
    EQUAL(a.domain->ops->cq_open(a.domain, NULL, &cq, NULL), -FI_EINVAL);
    EQUAL(a.domain->ops->cq_open(NULL, &attr, &cq, NULL), -FI_EINVAL);
    EQUAL(a.domain->ops->cq_open((void *)a.cq, &attr, &cq, NULL), -FI_EINVAL);
    EQUAL(fi_domain(a.fabric, NULL, &domain, NULL), -FI_EINVAL);
    EQUAL(fi_endpoint(a.domain, NULL, &ep, NULL), -FI_EINVAL);
    EQUAL(fi_endpoint(a.domain, a.info, &ep, NULL), -FI_EMFILE);
    EQUAL(a.ep->fid.ops->bind(&a.ep->fid, NULL, 0), -FI_EINVAL);
    EQUAL(fi_ep_bind(a.ep, &a.domain->fid, 0), -FI_EINVAL);
    EQUAL(fi_ep_bind(a.ep, &a.av->fid, 0), -FI_EOPBADSTATE);
    EQUAL(fi_close(&a.cq->fid), -FI_EBUSY);
    EQUAL(fi_close(&a.av->fid), -FI_EBUSY);
    EQUAL(fi_close(&a.sent->fid), -FI_EBUSY);
    EQUAL(fi_close(&a.domain->fid), -FI_EBUSY);
    EQUAL(fi_close(&a.fabric->fid), -FI_EBUSY);
    // An object of another domain.
    struct node other;
    open_node(&other, 0);
    EQUAL(fi_close(&a.ep->fid), 0);
    EQUAL(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
    EQUAL(fi_ep_bind(ep, &other.cq->fid, FI_SEND), -FI_EDOMAIN);
    EQUAL(fi_ep_bind(ep, &a.cq->fid, 1 << 3), -FI_EBADFLAGS);
    EQUAL(fi_enable(ep), -FI_ENOAV);
    EQUAL(fi_send(ep, buffer, 9, NULL, self, NULL), -FI_EOPBADSTATE);
    EQUAL(fi_ep_bind(ep, &a.av->fid, 0), 0);
    EQUAL(fi_enable(ep), -FI_ENOCQ);
    size_t least = 1;
    EQUAL(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, 3), -FI_EINVAL);
    EQUAL(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 999, &least, 8), -FI_ENOPROTOOPT);
    EQUAL(fi_getopt(&ep->fid, 5, 0, &least, &least), -FI_ENOPROTOOPT);
    close_node(&other);
    // Closed objects.
    a.ep = ep;
    struct node closed = a;
    close_node(&a);
    EQUAL(fi_close(&closed.ep->fid), -FI_EBADF);
    EQUAL(fi_send(closed.ep, buffer, 9, NULL, self, NULL), -FI_EBADF);
    EQUAL(fi_cq_read(closed.cq, buffer, 1), -FI_EBADF);
    EQUAL(fi_cntr_read(closed.sent), 0);
    EQUAL(fi_av_insert(closed.av, closed.name, 1, &self, 0, NULL), -FI_EBADF);
    EQUAL(fi_endpoint(closed.domain, NULL, &ep, NULL), -FI_EBADF);
    EQUAL(fi_domain(closed.fabric, NULL, &domain, NULL), -FI_EBADF);
}

int main(void) {
    information();
    open_node(&a, 0);
    EQUAL(fi_av_insert(a.av, a.name, 1, &self, 0, NULL), 1);
    addresses();
    operations();
    objects();
    return 0;
}
