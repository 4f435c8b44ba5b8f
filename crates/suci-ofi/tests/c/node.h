// An endpoint with all that it needs, for tests.
#ifndef NODE_H
#define NODE_H
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

#define EQUAL(a, b)                                                                           \
    do {                                                                                      \
        long long left = (long long)(a), right = (long long)(b);                              \
        if (left != right) {                                                                  \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, left,    \
                    right);                                                                   \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

struct node {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cntr *sent;
    struct fid_ep *ep;
    char name[64];
};

static struct fi_info *get_info(void) {
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
    hints->fabric_attr->prov_name = strdup("suci");
    EQUAL(fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static void open_node(struct node *node, uint64_t cq_flags) {
    memset(node, 0, sizeof *node);
    node->info = get_info();
    EQUAL(fi_fabric(node->info->fabric_attr, &node->fabric, NULL), 0);
    EQUAL(fi_domain(node->fabric, node->info, &node->domain, NULL), 0);
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    EQUAL(fi_av_open(node->domain, &av, &node->av, NULL), 0);
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    EQUAL(fi_cq_open(node->domain, &cq, &node->cq, NULL), 0);
    EQUAL(fi_cntr_open(node->domain, NULL, &node->sent, NULL), 0);
    EQUAL(fi_endpoint(node->domain, node->info, &node->ep, NULL), 0);
    EQUAL(fi_ep_bind(node->ep, &node->av->fid, 0), 0);
    EQUAL(fi_ep_bind(node->ep, &node->cq->fid, FI_SEND | FI_RECV | cq_flags), 0);
    EQUAL(fi_ep_bind(node->ep, &node->sent->fid, FI_SEND), 0);
    EQUAL(fi_enable(node->ep), 0);
    size_t length = sizeof node->name;
    EQUAL(fi_getname(&node->ep->fid, node->name, &length), 0);
    EQUAL(length, 64);
}

static void close_node(struct node *node) {
    EQUAL(fi_close(&node->ep->fid), 0);
    EQUAL(fi_close(&node->cq->fid), 0);
    EQUAL(fi_close(&node->sent->fid), 0);
    EQUAL(fi_close(&node->av->fid), 0);
    EQUAL(fi_close(&node->domain->fid), 0);
    EQUAL(fi_close(&node->fabric->fid), 0);
    fi_freeinfo(node->info);
}

// Reads a completion of `node`, while `other` makes progress, too.
static inline int next(struct node *node, struct node *other, struct fi_cq_tagged_entry *entry,
                fi_addr_t *source) {
    time_t end = time(NULL) + 60;
    while (time(NULL) < end) {
        ssize_t got = fi_cq_readfrom(node->cq, entry, 1, source);
        if (got != -FI_EAGAIN)
            return (int)got;
        if (other)
            fi_cq_read(other->cq, NULL, 0);
    }
    return -FI_EAGAIN;
}

static inline int next_error(struct node *node, struct node *other, struct fi_cq_err_entry *error) {
    struct fi_cq_tagged_entry entry;
    memset(error, 0, sizeof *error);
    EQUAL(next(node, other, &entry, NULL), -FI_EAVAIL);
    EQUAL(fi_cq_readerr(node->cq, error, 0), 1);
    return error->err;
}
#endif
