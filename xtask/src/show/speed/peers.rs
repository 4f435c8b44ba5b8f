//! Many peers on one socket: what those cost that are silent.

use crate::show::Line;
use crate::show::tools::tests_of;

pub(super) const LINES: &[Line] = &[Line {
    name: "peers-memory",
    must: "10,000 peers on one socket: an idle one costs less than 600 B",
    run: |_| tests_of("suci-proto", "f32_an_idle_peer_costs", &[]),
}];
