//! Many peers on one socket: the cost of silent ones, in memory and to the others.

use crate::show::Line;
use crate::show::tools::tests_of;

/// Figures are judged by the project's promises.
const STRICT: (&str, &str) = ("SUCI_TEST_STRICT", "1");

pub(super) const LINES: &[Line] = &[
    Line {
        name: "peers-memory",
        must: "10,000 peers of one engine: an idle one costs less than 5 KiB, the address book's entry included",
        run: |_| tests_of("suci-proto", "f32_an_idle_peer_costs", &[]),
    },
    Line {
        name: "peers-silent",
        must: "10 of 10,010 peers on one socket in use (loopback, 2 GiB for messages): round trips and rate at most 5 % \
               worse than with 10 in all",
        run: |_| tests_of("suci", "ten_of_ten_thousand_peers", &[STRICT]),
    },
];
