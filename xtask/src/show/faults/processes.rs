//! Processes, ports and packet sizes, as the local kernel knows them.

use super::super::Line;
use super::super::tools::tests_of;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "killed-idle",
        must: "a call to a process of this machine that was killed while idle ends at once; a peer that was heard just now is ended by its silence alone; a new address ends the verdict (virtual time)",
        run: |_| tests_of("suci-proto", "absence::f1", &[]),
    },
    Line {
        name: "killed-idle-real",
        must: "the same with real sockets, both kinds of node: each within 1 s",
        run: |_| tests_of("suci", "f17_a_call_", &[]),
    },
    Line {
        name: "nobody",
        must: "nobody has the peer's port: told at once on this machine, after a challenge elsewhere; late reports at round trips of 200 to 900 ms refuse no connection, forged ones end nothing (virtual time)",
        run: |_| tests_of("suci-proto", "absence::f25_", &[]),
    },
    Line {
        name: "nobody-sockets",
        must: "connect to a node without process: ECONNREFUSED within 1 s, each time (suci-sockets)",
        run: |_| tests_of("suci-sockets", "f25_", &[]),
    },
    Line {
        name: "nobody-cdp",
        must: "the same by cdp.h: five within 2 s",
        run: |_| tests_of("suci-capi", "f25_a_node_without_process", &[]),
    },
    Line {
        name: "nobody-preload",
        must: "the same by an unmodified program under the preload library, blocking or not",
        run: |_| tests_of("suci-preload", "f25_a_node_without_process", &[]),
    },
    Line {
        name: "cat-killed",
        must: "suci cat to a receiver of this machine that was killed: fails within 2 s amid a transfer",
        run: |_| tests_of("suci-cli", "f17_f25_a_receiver", &[]),
    },
    Line {
        name: "names",
        must: "a name with several addresses: cat and ping find the peer at each; ping --listen and run --address take the one of this machine",
        run: |_| tests_of("suci-cli", "cat::f25_a", &[]),
    },
];
