//! Waits: without the interpreter, and ended by signals.

use crate::buffer;
use crate::error::{Failure, raise};
use crate::node::{Core, ends_elsewhere};
use pyo3::prelude::*;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use suci::{Error, SharedNode};

/// A wait comes back to the interpreter this often, so that the handlers of signals run (^C), and
/// buffers that Suci has released are given back.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Waits for `future`, for at most `limit`. Returns nothing when that is over. Other threads of the
/// interpreter run meanwhile.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    node: &SharedNode,
    limit: Option<Duration>,
    future: impl Future<Output = Result<T, impl Into<Failure> + Send>> + Send,
) -> PyResult<Option<T>> {
    let mut future = pin!(future);
    // Mostly a message is there.
    let mut no_waker = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut no_waker) {
        Poll::Ready(done) => done.map(Some).map_err(|error| error.into().raise(py)),
        Poll::Pending => go_on(py, node, limit, future),
    }
}

/// As [`wait`], for a call that sends, and mostly finds room at once.
pub(crate) fn wait_to_send<T: Send>(
    py: Python<'_>,
    core: &Core,
    limit: Option<Duration>,
    future: impl Future<Output = Result<T, impl Into<Failure> + Send>> + Send,
) -> PyResult<Option<T>> {
    let mut future = pin!(future);
    let begun = py.detach(|| {
        // At its end the message leaves by this thread.
        let _attendance = core.begin_send();
        let mut no_waker = Context::from_waker(Waker::noop());
        future.as_mut().poll(&mut no_waker)
    });
    match begun {
        Poll::Ready(done) => done.map(Some).map_err(|error| error.into().raise(py)),
        Poll::Pending => go_on(py, &core.shared, limit, future),
    }
}

/// Goes on with a wait that found nothing at once.
fn go_on<T: Send>(
    py: Python<'_>,
    node: &SharedNode,
    limit: Option<Duration>,
    mut future: Pin<&mut (impl Future<Output = Result<T, impl Into<Failure> + Send>> + Send)>,
) -> PyResult<Option<T>> {
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        let poll = |cx: &mut Context<'_>| future.as_mut().poll(cx);
        let polled = py.detach(|| suci::sockets::block_on(node, Some(slice), poll));
        buffer::release(py);
        let polled = polled.map(|done| done.map(|done| done.map_err(Into::into)));
        match polled {
            Ok(Some(Ok(done))) => return Ok(Some(done)),
            // The exit handler closed the node. A daemon thread must not print that while the
            // interpreter goes away, so it stays here, as the interpreter itself would have it.
            Ok(Some(Err(Failure::Node(Error::Closed)))) if ends_elsewhere() => py.detach(|| {
                loop {
                    std::thread::park();
                }
            }),
            Ok(Some(Err(failure))) => return Err(failure.raise(py)),
            Err(error) => return Err(raise(py, &error)),
            Ok(None) => {}
        }
        py.check_signals()?;
        if left.is_some_and(|left| left <= slice) {
            return Ok(None);
        }
    }
}
