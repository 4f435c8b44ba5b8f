//! Words for the library's values: those that Python programs compare with, of `suci._events`.

use crate::error::module;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use suci::{EndReason, LinkState, LostCause, Mode, Outcome, RefusedReason, Side, Unreachable};

/// The module of events and facts.
pub(crate) fn events(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    static EVENTS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    module(py, "suci._events", &EVENTS)
}

/// A value of one of the module's enumerations.
fn value<'py>(py: Python<'py>, class: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    events(py)?.getattr(class)?.call1((name,))
}

pub(crate) fn end_reason_named<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    value(py, "EndReason", name)
}

pub(crate) fn end_reason(py: Python<'_>, reason: EndReason) -> PyResult<Bound<'_, PyAny>> {
    let name = match reason {
        EndReason::Closed => "closed",
        EndReason::CutShort { .. } => "cut-short",
        EndReason::ClosedHere => "closed-here",
        EndReason::Restarted => "restarted",
        EndReason::Reset => "reset",
        EndReason::PeerEnded => "peer-ended",
        EndReason::Silent => "silent",
        EndReason::ProcessDied => "process-died",
        EndReason::Protocol(_) => "protocol",
        EndReason::PeerProtocol(_) => "peer-protocol",
        EndReason::Revoked => "revoked",
        EndReason::RevokedThere => "revoked-there",
    };
    end_reason_named(py, name)
}

pub(crate) fn lost_cause(py: Python<'_>, cause: LostCause) -> PyResult<Bound<'_, PyAny>> {
    let name = match cause {
        LostCause::NoAnswer => "no-answer",
        LostCause::Unreachable(Unreachable::Port) => "no-socket",
        LostCause::Unreachable(Unreachable::Host) => "no-host",
        LostCause::Unreachable(Unreachable::Network) => "no-network",
        LostCause::Unreachable(Unreachable::Prohibited) => "prohibited",
        LostCause::Unreachable(Unreachable::Other) => "unreachable",
        LostCause::Refused(_) => "refused",
        LostCause::ProcessDied => "process-died",
    };
    value(py, "LostCause", name)
}

pub(crate) fn outcome(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyAny>> {
    let name = match outcome {
        Outcome::Delivered => "delivered",
        Outcome::NotDelivered => "not-delivered",
        Outcome::Unknown => "unknown",
    };
    value(py, "Outcome", name)
}

pub(crate) fn side(py: Python<'_>, side: Side) -> PyResult<Bound<'_, PyAny>> {
    let name = match side {
        Side::Here => "here",
        Side::There => "there",
    };
    value(py, "Side", name)
}

pub(crate) fn link(py: Python<'_>, link: LinkState) -> PyResult<Bound<'_, PyAny>> {
    let name = match link {
        LinkState::Idle => "idle",
        LinkState::Connecting => "connecting",
        LinkState::Up => "up",
        LinkState::Lost => "lost",
        LinkState::Quiet => "quiet",
    };
    value(py, "Link", name)
}

/// A short name of a reason; the event's `text` explains it.
pub(crate) fn refused(reason: RefusedReason) -> String {
    let name = format!("{reason:?}");
    let name = name.split('(').next().unwrap_or_default();
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

pub(crate) const MODES: [(&str, Mode); 3] = [
    ("adaptive", Mode::Adaptive),
    ("throughput", Mode::Throughput),
    ("response", Mode::Response),
];

pub(crate) fn mode(mode: Mode) -> &'static str {
    let named = MODES.iter().find(|(_, named)| *named == mode);
    named.map_or("adaptive", |(name, _)| name)
}
