//! Events, as the dataclasses of `suci._events`.

use crate::names;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use suci::{EndReason, Error, Event, MessageOutcome, NodeId};

/// Makes the dataclass `$class` of the given fields, in its order.
macro_rules! made {
    ($py:expr, $class:literal, $($field:expr),+) => {
        names::events($py)?.getattr(pyo3::intern!($py, $class))?.call1(($($field,)+))
    };
}

pub(crate) fn event(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyAny>> {
    match event {
        Event::Up { node, session } => made!(py, "Up", node.0, session.0),
        Event::Lost { node, cause } => made!(py, "Lost", node.0, names::lost_cause(py, cause)?),
        Event::Quiet { node } => made!(py, "Quiet", node.0),
        Event::Suspended { node, by } => made!(py, "Suspended", node.0, names::side(py, by)?),
        Event::Resumed { node, by } => made!(py, "Resumed", node.0, names::side(py, by)?),
        Event::Delivered {
            node,
            channel,
            number,
            token,
        } => made!(py, "Delivered", node.0, channel.0, number, token),
        Event::NotDelivered {
            node,
            channel,
            number,
            token,
            reason,
        } => {
            let number = (number != suci::UNNUMBERED).then_some(number);
            made!(py, "NotDelivered", node.0, channel.0, number, token, reason)
        }
        Event::Writable { node, class } => made!(py, "Writable", node.0, class),
        Event::ChannelFinished { node, channel } => {
            made!(py, "ChannelFinished", node.0, channel.0)
        }
        Event::MemberJoined { node } => made!(py, "MemberJoined", node.0),
        Event::MemberLeft { node } => made!(py, "MemberLeft", node.0),
        Event::MemberFailed { node } => made!(py, "MemberFailed", node.0),
        Event::Refused { node, reason } => {
            made!(
                py,
                "Refused",
                node.0,
                names::refused(reason),
                reason.to_string()
            )
        }
        Event::Incoming {
            node,
            channel,
            number,
            total,
            tag,
            kind,
            user_header,
        } => {
            let header = PyBytes::new(py, &user_header);
            made!(
                py, "Incoming", node.0, channel.0, number, total, tag, kind.0, header
            )
        }
        Event::Ended {
            node,
            session,
            sessions,
            reason,
            outcomes,
        } => {
            let text = Error::Ended { node, reason }.to_string();
            let name = names::end_reason(py, reason)?;
            let outcomes = self::outcomes(py, &outcomes)?;
            let missing = missing(reason);
            made!(
                py, "Ended", node.0, session.0, sessions, name, outcomes, missing, text
            )
        }
    }
}

fn missing(reason: EndReason) -> u64 {
    match reason {
        EndReason::CutShort { missing } => missing,
        _ => 0,
    }
}

fn outcomes<'py>(py: Python<'py>, all: &[MessageOutcome]) -> PyResult<Bound<'py, PyTuple>> {
    let list = PyList::empty(py);
    for one in all {
        let outcome = names::outcome(py, one.outcome)?;
        let (channel, number) = (one.channel.0, one.number);
        list.append(made!(
            py,
            "MessageOutcome",
            channel,
            number,
            one.token,
            one.notify,
            outcome
        )?)?;
    }
    Ok(list.to_tuple())
}

/// The node, channel and number that an event `Incoming` names.
pub(crate) fn announced(
    event: &Bound<'_, PyAny>,
) -> PyResult<(NodeId, suci::ChannelId, suci::MessageNumber)> {
    let class = names::events(event.py())?.getattr("Incoming")?;
    if !event.is_instance(&class)? {
        let name = event.get_type().name()?;
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "event must be an Incoming, as next() returns it, not {name}"
        )));
    }
    let number = event.getattr("number")?.extract()?;
    Ok((
        NodeId(event.getattr("node")?.extract()?),
        suci::ChannelId(event.getattr("channel")?.extract()?),
        number,
    ))
}
