//! Time limits of calls that wait, and what ends a wait early.

use crate::entry::{Entry, Host};
use crate::error::{Failure, WOKEN};
use crate::handle::Entered;
use crate::lent::Releases;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use suci::{Error, SharedNode};

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Not at all.
    Now,
    /// For this long.
    For(Duration),
    Never,
}

impl Limit {
    pub(crate) fn new(timeout: i64) -> Self {
        match u64::try_from(timeout) {
            Ok(0) => Self::Now,
            Ok(nanos) => Self::For(Duration::from_nanos(nanos)),
            Err(_) => Self::Never,
        }
    }

    /// The same as a duration; as good as for ever, if there is no limit.
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::For(limit) => limit,
            Self::Never => Duration::MAX,
        }
    }

    /// Returns a clock for the rest of it.
    pub(crate) fn start(self) -> Rest {
        match self {
            Self::For(limit) => Rest(self, Instant::now().checked_add(limit)),
            Self::Now | Self::Never => Rest(self, None),
        }
    }
}

/// The rest of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest(Limit, Option<Instant>);

impl Rest {
    pub(crate) fn left(self) -> Limit {
        let Self(limit, end) = self;
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            None => limit,
            Some(Duration::ZERO) => Limit::Now,
            Some(left) => Limit::For(left),
        }
    }
}

#[cold]
pub(crate) fn woken() -> Failure {
    let text = "the wait was ended by suci_wake: call again to go on waiting";
    Failure::new(WOKEN, text)
}

/// A kind of result that a call waits for. Implementations leave wakes and limits to the caller.
pub(crate) trait Wanted {
    type Item;

    /// True if released memory is such a result.
    const HEARS_RELEASES: bool;

    /// Takes one from what this crate keeps itself.
    fn kept(&mut self, entry: &Entry) -> Option<Self::Item>;

    /// Takes one from the node without waiting.
    fn look(&mut self, host: Host<'_>) -> Result<Option<Self::Item>, Error>;

    /// Waits for one.
    fn wait(
        &mut self,
        host: Host<'_>,
        entry: &Entry,
        limit: Limit,
    ) -> Result<Option<Self::Item>, Error>;
}

/// Takes what is wanted; waits for it within the limit.
#[inline]
pub(crate) fn take<W: Wanted>(
    node: &mut Entered,
    timeout: i64,
    wanted: &mut W,
) -> Result<W::Item, Failure> {
    let limit = Limit::new(timeout);
    if limit == Limit::Now {
        return look(node, wanted);
    }
    if let Some(item) = wanted.kept(node.entry()) {
        return Ok(item);
    }
    if W::HEARS_RELEASES && node.entry().releases.is_used() && !node.entry().is_shared() {
        return listen(node, limit, wanted);
    }
    let (host, entry) = node.parts();
    match wanted.wait(host, entry, limit) {
        Ok(Some(item)) => Ok(item),
        Ok(None) => Err(Failure::timed_out()),
        Err(Error::Woken) => {
            node.entry().take_woken();
            Err(woken())
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits at a caller-driven node, also for the release of memory.
#[cold]
fn listen<W: Wanted>(node: &mut Entered, limit: Limit, wanted: &mut W) -> Result<W::Item, Failure> {
    let rest = limit.start();
    loop {
        node.entry().listen();
        if let Some(item) = wanted.kept(node.entry()) {
            node.entry().unlisten();
            return Ok(item);
        }
        let (host, entry) = node.parts();
        let result = wanted.wait(host, entry, rest.left());
        node.entry().unlisten();
        match result {
            Ok(Some(item)) => return Ok(item),
            Err(Error::Woken) if node.entry().take_woken() => return Err(woken()),
            Err(Error::Woken) => {}
            // Memory that was released in the last moment waits for the next call.
            Ok(None) => return Err(Failure::timed_out()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes what is wanted if it is there now.
fn look<W: Wanted>(node: &mut Entered, wanted: &mut W) -> Result<W::Item, Failure> {
    if let Some(item) = wanted.kept(node.entry()) {
        return Ok(item);
    }
    match wanted.look(node.host()) {
        Ok(Some(item)) => return Ok(item),
        Ok(None) => {}
        Err(Error::Woken) => {
            node.entry().take_woken();
            return Err(woken());
        }
        Err(error) => return Err(error.into()),
    }
    // Looking may have released memory.
    match wanted.kept(node.entry()) {
        Some(item) => Ok(item),
        None if node.entry().take_woken() => Err(woken()),
        None => Err(Failure::timed_out()),
    }
}

/// Unparks the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// The end of a wait at a threaded node.
pub(crate) enum Heard<T> {
    Ready(T),
    /// Memory with this cookie was released.
    Released(u64),
}

/// Waits at a threaded node for `future`, a wake, or the release of memory.
pub(crate) fn hear<T>(
    node: &SharedNode,
    releases: &Releases,
    future: impl Future<Output = Result<T, Error>>,
    limit: Limit,
) -> Result<Option<Heard<T>>, Error> {
    let rest = limit.start();
    let task = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&task);
    let (mut future, mut wake) = (pin!(future), pin!(node.woken_async()));
    let result = loop {
        releases.register(&task);
        if let Some(cookie) = releases.take() {
            break Ok(Some(Heard::Released(cookie)));
        }
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            break result.map(|item| Some(Heard::Ready(item)));
        }
        if wake.as_mut().poll(&mut context).is_ready() {
            break Err(Error::Woken);
        }
        match rest.left() {
            Limit::Now => break Ok(None),
            Limit::For(left) => std::thread::park_timeout(left),
            Limit::Never => std::thread::park(),
        }
    };
    releases.unregister(&task);
    result
}
