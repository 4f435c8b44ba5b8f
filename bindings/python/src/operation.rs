//! Operations of event loops: futures of the library that Python polls.
//!
//! A future is polled when its task runs, not when it is woken. So a message is taken only by a
//! task that goes on with it, and a task that is cancelled before loses nothing. No thread of
//! Python takes part: a waker notes the operation's key and signals a descriptor, which the loop
//! watches.

use crate::arguments::{self, FOREVER, node_id};
use crate::buffer::{self, WritableBuffer};
use crate::error::{Failure, OrRaise, raise};
use crate::event;
use crate::group::{Answer, Group};
use crate::message::{Message, Sending, sending};
use crate::node::{Core, Node, Wanted, next_object};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use suci::{Error, Event, Next};

/// The result of an operation.
enum Outcome {
    Nothing,
    Message(suci::Message),
    Next(Next),
    Event(Event),
    Group(Py<Group>, Answer),
}

type Work = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send>>;

/// The woken operations of one event loop.
struct Woken {
    keys: Mutex<Vec<u64>>,
    descriptor: OwnedFd,
}

impl Woken {
    fn new() -> io::Result<Self> {
        // SAFETY: the call has no memory arguments.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        let keys = Mutex::default();
        Ok(Self { keys, descriptor })
    }

    fn push(&self, key: u64) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key);
        if keys.len() == 1 {
            let one = 1_u64;
            let fd = self.descriptor.as_raw_fd();
            // SAFETY: the descriptor is open, and the memory is that of an integer of 8 bytes. A
            // write fails only if the counter is full, and the descriptor readable.
            let _ = unsafe { libc::write(fd, (&raw const one).cast(), size_of::<u64>()) };
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0_u64;
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the descriptor is open and does not block, and the memory is that of an integer
        // of 8 bytes.
        let _ = unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
        std::mem::take(&mut keys)
    }
}

struct KeyWaker {
    key: u64,
    woken: Arc<Woken>,
}

impl Wake for KeyWaker {
    fn wake(self: Arc<Self>) {
        self.woken.push(self.key);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.push(self.key);
    }
}

/// The operations of a node in one event loop; suci.aio.Node uses it.
#[pyclass(frozen, module = "suci._suci")]
pub(crate) struct Operations {
    core: Arc<Core>,
    woken: Arc<Woken>,
    last: AtomicU64,
}

impl Operations {
    fn begin<F>(&self, work: F) -> Operation
    where
        F: Future<Output = Result<Outcome, Failure>> + Send + 'static,
    {
        let key = self.last.fetch_add(1, Ordering::Relaxed);
        let woken = Arc::clone(&self.woken);
        Operation {
            key,
            waker: Waker::from(Arc::new(KeyWaker { key, woken })),
            sends: None,
            target: None,
            work: Mutex::new(Some(Box::pin(work))),
        }
    }

    fn begin_send(&self, to: suci::NodeId, message: suci::OutgoingMessage) -> Operation {
        let core = Arc::clone(&self.core);
        self.begin(async move {
            core.shared.send_async(to, message).await?;
            Ok(Outcome::Nothing)
        })
        .that_sends(&self.core)
    }
}

#[pymethods]
impl Operations {
    #[new]
    fn new(node: &Node) -> PyResult<Self> {
        Ok(Self {
            core: Arc::clone(&node.core),
            woken: Arc::new(Woken::new()?),
            last: AtomicU64::new(0),
        })
    }

    /// The descriptor, which is readable while an operation was woken.
    fn fileno(&self) -> i32 {
        self.woken.descriptor.as_raw_fd()
    }

    /// Takes the keys of the woken operations.
    fn woken(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        if self.core.process != std::process::id() {
            // The descriptor and its state belong to the parent.
            return Err(raise(py, &Error::Forked));
        }
        buffer::release(py);
        self.core.received();
        Ok(self.woken.take())
    }

    #[pyo3(signature = (dest, data, options=None))]
    fn send(
        &self,
        dest: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let to = node_id(dest, "dest")?;
        let Sending { message, .. } = sending(data, options)?;
        Ok(self.begin_send(to, message))
    }

    #[pyo3(signature = (request, data, options=None))]
    fn reply(
        &self,
        py: Python<'_>,
        request: &Bound<'_, Message>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let Sending { message, .. } = sending(data, options)?;
        let request = request.get().inner();
        let message = request.reply(message).or_raise(py)?;
        Ok(self.begin_send(request.from, message))
    }

    #[pyo3(signature = (dest, data, options=None))]
    fn call(
        &self,
        dest: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let to = node_id(dest, "dest")?;
        let Sending { message, limit } = sending(data, options)?;
        let core = Arc::clone(&self.core);
        let calling = async move {
            let limit = limit.unwrap_or(FOREVER);
            let reply = core.shared.call_async(to, message, limit).await?;
            Ok(Outcome::Message(reply))
        };
        Ok(self.begin(calling).that_sends(&self.core))
    }

    /// Receives a message; with `buffer`, into that memory.
    #[pyo3(signature = (source=None, channel=None, buffer=None))]
    fn recv(
        &self,
        source: Option<&Bound<'_, PyAny>>,
        channel: Option<&Bound<'_, PyAny>>,
        buffer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        if let Some(buffer) = buffer {
            // Memory that cannot be written to is told before anything is waited for.
            WritableBuffer::new(buffer, "buffer")?;
        }
        let wanted = Wanted::new(source, channel)?;
        let core = Arc::clone(&self.core);
        Ok(self
            .begin(async move {
                if let Some(message) = core.take_returned(wanted) {
                    return Ok(Outcome::Message(message));
                }
                let message = match wanted.filter() {
                    None => core.shared.recv_async().await?,
                    Some(filter) => core.shared.recv_from_async(filter).await?,
                };
                Ok(Outcome::Message(message))
            })
            .placing(&self.core, buffer))
    }

    fn next(&self) -> Operation {
        let core = Arc::clone(&self.core);
        self.begin(async move {
            if let Some(message) = core.take_returned(Wanted::ALL) {
                return Ok(Outcome::Message(message));
            }
            Ok(Outcome::Next(core.shared.next_async().await?))
        })
    }

    fn next_event(&self) -> Operation {
        let core = Arc::clone(&self.core);
        self.begin(async move { Ok(Outcome::Event(core.shared.event_async().await?)) })
    }

    /// Begins the operation `name` of a group, with the arguments of its method in order.
    #[pyo3(signature = (group, name, *arguments))]
    fn group(
        &self,
        group: &Bound<'_, Group>,
        name: &str,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<Operation> {
        let work = group.get().begin_named(group.py(), name, arguments)?;
        let group = group.clone().unbind();
        Ok(self.begin(async move { Ok(Outcome::Group(group, work.await?)) }))
    }

    fn flush(&self) -> Operation {
        let core = Arc::clone(&self.core);
        self.begin(async move {
            core.shared.flush_async().await?;
            Ok(Outcome::Nothing)
        })
    }

    /// Closes the node; nothing if it was closed before.
    fn close(&self, timeout: &Bound<'_, PyAny>) -> PyResult<Option<Operation>> {
        let patience = arguments::seconds(timeout, "timeout")?;
        if !self.core.begin_close() {
            return Ok(None);
        }
        let core = Arc::clone(&self.core);
        Ok(Some(self.begin(async move {
            core.shared.close_async(patience).await?;
            Ok(Outcome::Nothing)
        })))
    }
}

/// One operation that goes on while its task waits.
#[pyclass(frozen, module = "suci._suci")]
pub(crate) struct Operation {
    key: u64,
    waker: Waker,
    /// The node of an operation that sends.
    sends: Option<Arc<Core>>,
    /// Where a received message goes, and the node that keeps it if it does not fit.
    target: Option<(Arc<Core>, Py<PyAny>)>,
    /// Nothing once it is over.
    work: Mutex<Option<Work>>,
}

impl Operation {
    fn that_sends(mut self, core: &Arc<Core>) -> Self {
        self.sends = Some(Arc::clone(core));
        self
    }

    fn placing(mut self, core: &Arc<Core>, buffer: Option<&Bound<'_, PyAny>>) -> Self {
        let target = |buffer: &Bound<'_, PyAny>| (Arc::clone(core), buffer.clone().unbind());
        self.target = buffer.map(target);
        self
    }

    fn take_work(&self) -> Option<Work> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.take()
    }
}

#[pymethods]
impl Operation {
    /// Its name in the result of `woken`.
    #[getter]
    fn key(&self) -> u64 {
        self.key
    }

    /// Returns the result, or Ellipsis (PENDING) while there is none; its key is among those of
    /// `woken` when it is worth to ask again.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // The lock is not held meanwhile: a thread that waits for it would keep this one out of the
        // interpreter.
        let Some(mut work) = self.take_work() else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "this operation is over: begin another one",
            ));
        };
        let mut poll = || work.as_mut().poll(&mut Context::from_waker(&self.waker));
        let polled = match &self.sends {
            Some(core) => py.detach(|| {
                // At its end the message leaves by this thread.
                let _attendance = core.begin_send();
                poll()
            }),
            None => poll(),
        };
        let Poll::Ready(outcome) = polled else {
            *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
            return Ok(py.Ellipsis().into_bound(py));
        };
        drop(work);
        buffer::release(py);
        match outcome.map_err(|failure| failure.raise(py))? {
            Outcome::Nothing => Ok(py.None().into_bound(py)),
            Outcome::Message(message) => {
                let message = match &self.target {
                    Some((core, buffer)) => core.place(message, buffer.bind(py))?,
                    None => Message::new(message),
                };
                Ok(Bound::new(py, message)?.into_any())
            }
            Outcome::Next(next) => next_object(py, next),
            Outcome::Event(event) => event::event(py, event),
            Outcome::Group(group, answer) => group.get().answer(py, answer),
        }
    }

    /// Gives the operation up. What it waited for stays for others.
    fn cancel(&self, py: Python<'_>) {
        drop(self.take_work());
        buffer::release(py);
    }
}
