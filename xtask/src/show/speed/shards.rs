//! Whether threads help.

use crate::show::Line;
use crate::show::tools::tests_of;

/// Figures are judged by the project's promises.
const STRICT: (&str, &str) = ("SUCI_TEST_STRICT", "1");

pub(super) const LINES: &[Line] = &[
    Line {
        name: "shards-receive",
        must: "the receive path alone, recorded packets through the in-memory backend: 2 threads at least 1.9 x 1",
        run: |_| tests_of("suci", "the_receive_path_alone_scales", &[STRICT]),
    },
    Line {
        name: "shards-senders",
        must: "two senders to 1 and 2 threads over loopback: reported",
        run: |_| tests_of("suci", "two_senders_to_one_and_two_threads", &[STRICT]),
    },
];
