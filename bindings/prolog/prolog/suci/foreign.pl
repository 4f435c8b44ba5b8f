/*  The foreign predicates of library(suci).

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(suci_foreign,
          [ node_destination/2,
            packet_put/3,
            packets_send/1,
            node_open/2,
            node_close/2,
            node_is_open/1,
            packet_new/2,
            peer_connect/2,
            peer_suspend/2,
            peer_resume/2,
            peer_retransmit/2,
            peer_remove/2,
            peer_reset/2,
            peer_add/3,
            peer_close/3,
            peer_queue/4,
            peer_window/4,
            peer_answer/5,
            peer_set/3,
            node_peers/2,
            node_recv/6,
            node_next/4,
            node_ready/2,
            node_turn/1,
            node_send/4,
            node_reply/4,
            node_call/6,
            node_broadcast/5,
            node_flush/2,
            peer_stats/3,
            node_counters/3,
            node_info/6,
            book_text/2,
            env_id/1,
            env_size/1,
            library_version/1
          ]).

/** <module> The foreign predicates of library(suci)

Private to library(suci). Their modes stand at their definitions in the folder `c` of the pack.
*/

:- use_foreign_library(foreign(suci4pl)).
