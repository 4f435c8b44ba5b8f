//! Suci's errors as the exceptions of `suci._errors`.

use crate::names;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};
use suci::Error;
use suci::group::GroupError;

/// Why a call failed.
pub(crate) enum Failure {
    Node(Error),
    Group(GroupError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Node(error)
    }
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Node(error) => Self::Node(error),
            error => Self::Group(error),
        }
    }
}

impl Failure {
    /// The exception that says it.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        let error = match self {
            Self::Node(error) => return raise(py, &error),
            Self::Group(error) => error,
        };
        let node = match error {
            GroupError::Member { node, .. } => Some(node.0),
            _ => None,
        };
        exception(py, "GroupError", &error.to_string(), |with| {
            with.set_item("node", node)
        })
    }
}

/// The Python module `name`, imported once.
pub(crate) fn module<'py>(
    py: Python<'py>,
    name: &str,
    cache: &PyOnceLock<Py<PyModule>>,
) -> PyResult<Bound<'py, PyModule>> {
    let module = cache.get_or_try_init(py, || py.import(name).map(Bound::unbind))?;
    Ok(module.bind(py).clone())
}

/// An exception of the package, with attributes.
pub(crate) fn exception(
    py: Python<'_>,
    class: &str,
    text: &str,
    attributes: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || {
        let made = module(py, "suci._errors", &ERRORS)?
            .getattr(class)?
            .call1((text,))?;
        let values = PyDict::new(py);
        attributes(&values)?;
        for (name, value) in values {
            made.setattr(name.cast_into::<pyo3::types::PyString>()?, value)?;
        }
        Ok(made)
    };
    make().map_or_else(|failed| failed, PyErr::from_value)
}

/// The exception that says `error`.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let text = error.to_string();
    let of_peer = |class, node: suci::NodeId| {
        exception(py, class, &text, |with| with.set_item("node", node.0))
    };
    match *error {
        Error::UnknownPeer(node) => of_peer("UnknownPeer", node),
        Error::CallToItself(node) => of_peer("PeerError", node),
        Error::NotARequest(node) => of_peer("NotARequest", node),
        Error::ProcessDied(node) => exception(py, "PeerDied", &text, |with| {
            with.set_item("node", node.0)?;
            with.set_item("reason", names::end_reason_named(py, "process-died")?)
        }),
        Error::Ended { node, reason } => exception(py, "PeerEnded", &text, |with| {
            with.set_item("node", node.0)?;
            with.set_item("reason", names::end_reason(py, reason)?)
        }),
        Error::WouldBlock { to, .. } => of_peer("WouldBlock", to),
        Error::Unread { to, .. } => of_peer("Unread", to),
        Error::Suspended { to, .. } => of_peer("PeerSuspended", to),
        Error::Closing { to, .. } => of_peer("PeerClosing", to),
        Error::Channels { to, .. } | Error::FinishedChannel { to, .. } => {
            of_peer("ChannelUnavailable", to)
        }
        Error::NotPermitted { to, .. } => of_peer("NotPermitted", to),
        Error::Refused { node, reason } => exception(py, "CallRefused", &text, |with| {
            with.set_item("node", node.0)?;
            with.set_item("reason", reason)
        }),
        Error::ReplyTooLong { node, length } => exception(py, "ReplyTooLong", &text, |with| {
            with.set_item("node", node.0)?;
            with.set_item("length", length)
        }),
        Error::NeedsAnswer { from, length, .. } => exception(py, "NeedsAnswer", &text, |with| {
            with.set_item("node", from.0)?;
            with.set_item("length", length)
        }),
        Error::NotFlushed { ref peers } => exception(py, "NotFlushed", &text, |with| {
            let counts = PyDict::new(py);
            for (node, messages) in peers {
                counts.set_item(node.0, messages)?;
            }
            with.set_item("peers", counts)
        }),
        _ => exception(py, class_of(error), &text, |_| Ok(())),
    }
}

/// The class of an error that has no attributes.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::TimedOut { .. } => "TimedOut",
        Error::Closed => "Closed",
        Error::Forked => "Forked",
        Error::BufferTooShort { .. } => "BufferTooShort",
        Error::TooLong { .. }
        | Error::HeaderTooLong { .. }
        | Error::Reserved { .. }
        | Error::ReservedKind { .. }
        | Error::ReservedChannel { .. }
        | Error::Incoming(_) => "MessageError",
        Error::AddressInUse { .. }
        | Error::Bind { .. }
        | Error::Book(_)
        | Error::Key(_)
        | Error::NotSealed
        | Error::PlainOnNetwork { .. }
        | Error::NoRoom { .. }
        | Error::Unreachable { .. }
        | Error::Config(_)
        | Error::Missing { .. }
        | Error::Variable { .. }
        | Error::Launcher { .. }
        | Error::Peer(_)
        | Error::NotInBook { .. }
        | Error::Threads(_) => "ConfigurationError",
        _ => "Error",
    }
}

/// Turns the library's results into Python's.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, &error))
    }
}
