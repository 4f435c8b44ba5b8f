/*
 * install.c - the entry point of the foreign module.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include "suci4pl.h"

install_t install_suci4pl(void);

/* Registers the predicates in the module that loads this one, suci_foreign. */
install_t install_suci4pl(void)
{
    install_node();
    install_payload();
    install_send();
    install_receive();
    install_peer();
    install_stats();
    install_datagram();
    install_wait();
}
