//! Faults of ordinary use: each line is an instance of a kind that was mended.

mod events;
mod openshmem;
mod operation;
mod pictures;
mod processes;
mod seeds;
mod slots;
mod sockets;

use super::Line;

/// The lines by subject.
pub(super) const SUBJECTS: &[&[Line]] = &[
    slots::LINES,
    seeds::LINES,
    events::LINES,
    processes::LINES,
    operation::LINES,
    openshmem::LINES,
    sockets::LINES,
    pictures::LINES,
];
