//! Messages: received ones as Python sees them, and those to be sent.

use crate::arguments::{channel, flag, seconds, timeout, word};
use crate::buffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};
use std::time::Duration;
use suci::{Data, Kind, OutgoingMessage};

/// A message that was received completely.
///
/// `payload` is a read-only memoryview over the received bytes, without a copy; `bytes(message)`
/// copies them. After `recv_into` it is a view of the program's own buffer.
#[pyclass(frozen, module = "suci")]
pub(crate) struct Message {
    inner: suci::Message,
    /// Made when it is first asked for.
    payload: PyOnceLock<Py<PyMemoryView>>,
    length: usize,
}

impl Message {
    pub(crate) fn new(inner: suci::Message) -> Self {
        Self {
            length: inner.payload.len(),
            inner,
            payload: PyOnceLock::new(),
        }
    }

    /// A message whose payload is in memory of the program.
    pub(crate) fn placed(
        py: Python<'_>,
        mut inner: suci::Message,
        payload: Bound<'_, PyMemoryView>,
    ) -> Self {
        let length = inner.payload.len();
        inner.payload = Data::new();
        let view = PyOnceLock::new();
        // A new cell is empty.
        let _ = view.set(py, payload.unbind());
        Self {
            inner,
            payload: view,
            length,
        }
    }

    pub(crate) fn inner(&self) -> &suci::Message {
        &self.inner
    }
}

#[pymethods]
impl Message {
    /// The ID of the node that sent it.
    #[getter]
    fn source(&self) -> u32 {
        self.inner.from.0
    }

    /// The channel that it came on.
    #[getter]
    fn channel(&self) -> u32 {
        self.inner.channel.0
    }

    /// The sender's tag; 0 if it named none.
    #[getter]
    fn tag(&self) -> u64 {
        self.inner.tag
    }

    /// The meaning of the message; 128 if the sender named none.
    #[getter]
    fn kind(&self) -> u8 {
        self.inner.kind.0
    }

    /// The message's number on its channel, from 0 in every session.
    #[getter]
    fn number(&self) -> u64 {
        self.inner.number
    }

    /// The session with the sender in which it came. A sender that started anew has a new one.
    #[getter]
    fn session(&self) -> u32 {
        self.inner.session.0
    }

    /// The sender's header, 0 to 255 bytes.
    #[getter]
    fn user_header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.user_header)
    }

    /// Whether its sender waits for a reply (`call`).
    #[getter]
    fn is_request(&self) -> bool {
        self.inner.is_request()
    }

    /// The bytes, as a memoryview without a copy.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let view = self.payload.get_or_try_init(py, || {
            buffer::payload(py, self.inner.payload.clone()).map(Bound::unbind)
        })?;
        Ok(view.bind(py).clone())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match self.payload.get(py) {
            Some(view) => {
                let copy = view.bind(py).call_method0("tobytes")?;
                Ok(copy.cast_into::<PyBytes>()?)
            }
            None => Ok(PyBytes::new(py, &self.inner.payload)),
        }
    }

    fn __len__(&self) -> usize {
        self.length
    }

    /// An empty message is one, too.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        let request = if self.is_request() { ", request" } else { "" };
        format!(
            "<suci.Message of {} bytes from node {}, channel {}, tag {}{request}>",
            self.length,
            self.inner.from,
            self.channel(),
            self.tag()
        )
    }
}

/// A message to be sent, and for how long its call may wait.
pub(crate) struct Sending {
    pub(crate) message: OutgoingMessage,
    pub(crate) limit: Option<Duration>,
}

/// Reads the arguments of a call that sends.
pub(crate) fn sending(
    data: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Sending> {
    let mut message = OutgoingMessage::new(buffer::outgoing(data, "data")?);
    let (mut limit, mut notify, mut token) = (None, false, 0);
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        message = match name.as_str() {
            "channel" => message.channel(channel(&value, "channel")?),
            "tag" => message.tag(word(&value, "tag")?),
            "kind" => {
                let kind = crate::arguments::byte(&value, "kind")?;
                message.kind(Kind(kind))
            }
            "user_header" => message.user_header(header(&value)?),
            "deadline" if value.is_none() => message,
            "deadline" => message.deadline(seconds(&value, "deadline")?),
            other => {
                match other {
                    "notify" => notify = flag(&value, "notify")?,
                    "token" => token = word(&value, "token")?,
                    "timeout" => limit = timeout((!value.is_none()).then_some(&value))?,
                    _ => return Err(unknown_option(other)),
                }
                message
            }
        };
    }
    let message = match (notify, token) {
        (true, token) => message.notify(token),
        (false, 0) => message,
        (false, token) => message.token(token),
    };
    Ok(Sending { message, limit })
}

fn unknown_option(name: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "a message has no option '{name}': choose from channel, tag, kind, user_header, notify, token, deadline, timeout"
    ))
}

/// A header is short, so it is copied.
fn header(value: &Bound<'_, PyAny>) -> PyResult<suci::Bytes> {
    let bytes = buffer::outgoing(value, "user_header")?;
    Ok(suci::Bytes::copy_from_slice(&bytes))
}
