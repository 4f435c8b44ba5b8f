//! Keys, containers, statistics and commands.

use super::super::tools::tests_of;
use super::super::{Figure, Line};
use crate::error::Result;
use crate::exec;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "container",
        must: "suci run as process 1: no orphan stays; another user, nothing to write, a key 0440 root:group: it runs; no 127.0.0.1: the remedy",
        run: |_| tests_of("suci-cli", "f36_", &[]),
    },
    Line {
        name: "secret-volume",
        must: "a key file of root is read by a group of the process, by no other, and keeps its mode",
        run: |_| tests_of("suci", "security::file", &[]),
    },
    Line {
        name: "key-memory",
        must: "a key that was taken out is nowhere in memory, stacks and heap, in debug and in release",
        run: |_| key_memory(),
    },
    Line {
        name: "forked-child",
        must: "a child that drops its handles keeps neither descriptors nor ports; so suci_node_free, cdp_end",
        run: |_| forked_child(),
    },
    Line {
        name: "no-statistics",
        must: "/dev/shm full, missing, or its folder another user's: the node and suci stat say so",
        run: |_| tests_of("suci-cli", "statistics_that_cannot_be_written", &[]),
    },
    Line {
        name: "refused-callers",
        must: "ping and cat --listen say whom they refused and why, each once",
        run: |_| tests_of("suci-cli", "a_listening_command_says_whom", &[]),
    },
    Line {
        name: "socket-activation",
        must: "a socket of systemd is taken by the node of its address",
        run: |_| tests_of("suci-cli", "a_socket_of_systemd", &[]),
    },
    Line {
        name: "remedies",
        must: "no port, no descriptor, no address: each error names its own remedy",
        run: |_| tests_of("suci-cli", "names_the_remedy_of", &[]),
    },
    Line {
        name: "key-texts",
        must: "a byte order mark is skipped, UTF-16 and SUCI_KEY_FILE= are named",
        run: |_| key_texts(),
    },
];

const KEY_MEMORY: &str = "a_key_that_was_taken_out_is_nowhere_in_memory";

/// The same search in the process that each profile makes: they keep other copies on the stack.
fn key_memory() -> Result<Figure> {
    let debug = [
        "test",
        "-q",
        "--locked",
        "-p",
        "suci",
        "--test",
        "key_memory",
    ];
    let said = exec::capture(exec::cargo(debug).args(["--", KEY_MEMORY, "--nocapture"]))?;
    let figure = said.lines().find_map(|line| line.split_once("figure: "));
    let (_, debug) = figure.unwrap_or(("", "nothing was said"));
    let release = tests_of("suci", KEY_MEMORY, &[])?;
    Ok(Figure::new(
        release.holds && figure.is_some(),
        format!("debug: {debug}; release: {}", release.text),
    ))
}

fn forked_child() -> Result<Figure> {
    both(
        tests_of("suci", "f24_a_fork_leaves_the_parent_alone", &[])?,
        tests_of("suci-capi", "programs_do_what_they_check", &[])?,
    )
}

fn key_texts() -> Result<Figure> {
    both(
        tests_of("suci", "the_mark_of_an_editor", &[])?,
        tests_of("suci", "wrong_variables_are_named", &[])?,
    )
}

fn both(one: Figure, other: Figure) -> Result<Figure> {
    let text = format!("{}; {}", one.text, other.text);
    Ok(Figure::new(one.holds && other.holds, text))
}
