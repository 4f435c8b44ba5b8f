//! Messages, events and outcomes, on both kinds of node.

use super::super::Line;
use super::super::tools::tests_of;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "events-table",
        must: "each row of the table of calls that take messages and events holds on both kinds of node",
        run: |_| tests_of("suci", "each_row_of_the_table", &[]),
    },
    Line {
        name: "events-outcomes",
        must: "6,000 channels to a peer that permits fewer: each message has one outcome, flush counts the rest",
        run: |_| tests_of("suci", "has_one_outcome", &[]),
    },
    Line {
        name: "events-channels",
        must: "no channel is refused before the peer says how many it permits",
        run: |_| tests_of("suci-proto", "channels_", &[]),
    },
    Line {
        name: "events-room",
        must: "after the answers to a broadcast that filled the queue none is refused",
        run: |_| tests_of("suci", "an_answer_comes_after_the_room", &[]),
    },
    Line {
        name: "events-refused",
        must: "refused for Key or Mode: Lost after silence_timeout, Ended after give_up_after",
        run: |_| tests_of("suci-proto", "a_peer_that_refuses_for_good", &[]),
    },
    Line {
        name: "events-panic",
        must: "a batch that panics: the helper sends what it accepted",
        run: |_| tests_of("suci", "a_batch_that_panics", &[]),
    },
    Line {
        name: "events-book",
        must: "a book without the node itself, also an empty one, is refused unless an address is named",
        run: |_| tests_of("suci", "a_book_without_the_node_itself", &[]),
    },
];
