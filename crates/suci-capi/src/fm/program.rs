//! The node of this process, its handlers, and the handler that runs now.

use crate::environment::unset;
use crate::error::{BUSY, ENDED, ERRNO_BIT, Failure, QUEUE_FULL, TOO_LONG, UNKNOWN_PEER};
use crate::handle::forks;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use suci::active::{ActiveError, ActiveMessage, ActiveMessages, Replies};
use suci::{Bytes, EndReason, Error, Event, Node, NodeId, Outcome, env};

/// `FM_handler`.
pub(super) type BufferHandler = Option<unsafe extern "C" fn(*const c_void, usize)>;
/// `FM_handler_4`.
pub(super) type WordsHandler = Option<unsafe extern "C" fn(u64, u64, u64, u64)>;

/// Failures that wait to be told.
const MOST_FAILURES: usize = 1_024;

/// How long `FM_finalize` waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the node may have addresses beyond loopback without a key.
static INSECURE_NETWORK: AtomicBool = AtomicBool::new(false);

struct Program {
    node: Node,
    active: ActiveMessages<'static>,
    /// Failures that the next calls that extract tell.
    failures: VecDeque<Failure>,
}

// SAFETY: a `Node` may move between threads, and the handlers hold nothing but functions of C and
// their numbers.
unsafe impl Send for Program {}

/// The node of this process, once it is opened.
static PROGRAM: Mutex<Option<Program>> = Mutex::new(None);

/// The ID of the node (lower half) and the number of nodes (upper half); negative if none is open.
/// Handlers ask for it, while a call has the lock.
static ABOUT: AtomicI64 = AtomicI64::new(-1);

/// A handler that runs now in this thread.
#[derive(Clone, Copy)]
struct Running {
    replies: *mut Replies,
    from: NodeId,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
    /// Messages of this thread's call that have another form than their handlers.
    static FAULTS: RefCell<VecDeque<Failure>> = const { RefCell::new(VecDeque::new()) };
}

fn lock() -> Result<MutexGuard<'static, Option<Program>>, Failure> {
    if RUNNING.get().is_some() {
        let text = "a handler may send, but must not call this: return from the handler first";
        return Err(Failure::new(BUSY, text));
    }
    match PROGRAM.try_lock() {
        Ok(program) => Ok(program),
        Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => {
            let text = "another thread is inside: one thread at a time may call";
            Err(Failure::new(BUSY, text))
        }
    }
}

fn not_open() -> Failure {
    let text = "the node is not open: call FM_initialize() first";
    Failure::new(ERRNO_BIT | libc::EBADF, text)
}

fn with<T>(call: impl FnOnce(&mut Program) -> Result<T, Failure>) -> Result<T, Failure> {
    let mut program = lock()?;
    call(program.as_mut().ok_or_else(not_open)?)
}

fn failure(error: ActiveError) -> Failure {
    let text = error.to_string();
    match error {
        ActiveError::Node(error) => error.into(),
        ActiveError::QueueFull { .. } => Failure::new(QUEUE_FULL, text),
        ActiveError::HandlersFull { .. } => Failure::new(ERRNO_BIT | libc::ENOBUFS, text),
        ActiveError::Dropped { source, .. } => Failure::new(Failure::from(source).code(), text),
        ActiveError::NoHandler { .. } => Failure::new(ERRNO_BIT | libc::ENOSYS, text),
        ActiveError::Malformed { .. } => Failure::new(ERRNO_BIT | libc::EBADMSG, text),
        _ => Failure::argument(text),
    }
}

// ---- beginning and end

/// Returns why the node is open, if it is.
fn is_open() -> Failure {
    let text = "the node is open: call FM_initialize() once, and what it is to know before";
    Failure::new(BUSY, text)
}

pub(super) fn allow_insecure_network() -> Result<(), Failure> {
    if lock()?.is_some() {
        return Err(is_open());
    }
    INSECURE_NETWORK.store(true, Ordering::Relaxed);
    Ok(())
}

pub(super) fn initialize() -> Result<(), Failure> {
    let mut program = lock()?;
    if program.is_some() {
        return Err(is_open());
    }
    // From now on forks are counted.
    forks();
    let size = env::size()?.ok_or_else(|| unset(env::SIZE))?;
    let mut builder = Node::builder();
    if INSECURE_NETWORK.load(Ordering::Relaxed) {
        builder = builder.allow_insecure_network();
    }
    let node = builder.open()?;
    ABOUT.store(
        i64::from(size) << 32 | i64::from(node.id().0),
        Ordering::Relaxed,
    );
    *program = Some(Program {
        node,
        active: ActiveMessages::new(),
        failures: VecDeque::new(),
    });
    Ok(())
}

pub(super) fn finalize() -> Result<(), Failure> {
    let mut program = lock()?.take().ok_or_else(not_open)?;
    ABOUT.store(-1, Ordering::Relaxed);
    Ok(program.node.close(PATIENCE)?)
}

/// Returns the ID of the node and the number of nodes.
pub(super) fn about() -> Result<(c_int, c_int), Failure> {
    let about = ABOUT.load(Ordering::Relaxed);
    if about < 0 {
        return Err(not_open());
    }
    Ok((about as u32 as c_int, (about >> 32) as c_int))
}

// ---- handlers

fn number(handler: c_int) -> Result<u16, Failure> {
    u16::try_from(handler)
        .map_err(|_| Failure::argument(format!("handler is {handler}: pass 0 to 65535")))
}

fn no_function() -> Failure {
    Failure::argument("function is null: pass the handler")
}

/// Runs a function of C, during which `FM_send` and others know the message.
fn run(replies: &mut Replies, message: &ActiveMessage, call: impl FnOnce()) {
    let replies: *mut Replies = replies;
    let from = message.from;
    RUNNING.set(Some(Running { replies, from }));
    call();
    RUNNING.set(None);
}

fn note_fault(message: &ActiveMessage, wanted: &str, call: &str) {
    let text = format!(
        "a message of node {} for handler {}, which takes {wanted}, was dropped: send it by {call}()",
        message.from,
        message.handler()
    );
    let fault = Failure::new(ERRNO_BIT | libc::EPROTO, text);
    FAULTS.with_borrow_mut(|faults| faults.push_back(fault));
}

pub(super) fn set_buffer_handler(handler: c_int, function: BufferHandler) -> Result<(), Failure> {
    let function = function.ok_or_else(no_function)?;
    set_handler(handler, move |replies, message| {
        if !message.words().is_empty() {
            return note_fault(&message, "a buffer", "FM_send");
        }
        let bytes: &[u8] = &message.payload;
        run(replies, &message, || {
            // SAFETY: a handler of C, as fm.h asks; the bytes live until it returned.
            unsafe { function(bytes.as_ptr().cast(), bytes.len()) }
        });
    })
}

pub(super) fn set_words_handler(handler: c_int, function: WordsHandler) -> Result<(), Failure> {
    let function = function.ok_or_else(no_function)?;
    set_handler(handler, move |replies, message| {
        match (message.words(), message.payload.is_empty()) {
            (&[i0, i1, i2, i3], true) => run(replies, &message, || {
                // SAFETY: a handler of C, as fm.h asks.
                unsafe { function(i0, i1, i2, i3) }
            }),
            _ => note_fault(&message, "four words", "FM_send_4"),
        }
    })
}

fn set_handler(
    handler: c_int,
    function: impl FnMut(&mut Replies, ActiveMessage) + 'static,
) -> Result<(), Failure> {
    let handler = number(handler)?;
    with(|program| {
        program.active.set_handler(handler, function);
        Ok(())
    })
}

// ---- messages

/// Sends a message: on behalf of the handler that runs now, if one does.
pub(super) fn send(
    dest: c_int,
    handler: c_int,
    words: &[u64],
    payload: Bytes,
) -> Result<(), Failure> {
    let (_, size) = about()?;
    let handler = number(handler)?;
    let to = u32::try_from(dest).ok().filter(|_| dest < size);
    let to = to.map(NodeId).ok_or_else(|| {
        let text = format!(
            "dest is {dest}: the nodes are 0 to {}",
            size.saturating_sub(1)
        );
        Failure::new(UNKNOWN_PEER, text)
    })?;
    let sent = match RUNNING.get() {
        Some(Running { replies, .. }) => {
            // SAFETY: `run` set it for as long as it borrows the replies, in this thread; nothing
            // else uses them while the handler is in here.
            unsafe { &mut *replies }.send(to, handler, words, payload)
        }
        None => {
            return with(|program| {
                let Program { node, active, .. } = program;
                active
                    .send(node, to, handler, words, payload)
                    .map_err(failure)
            });
        }
    };
    sent.map_err(failure)
}

/// Runs handlers: of messages that are there, or, with a limit, waits for one.
pub(super) fn extract(most: u32, limit: Option<Duration>) -> Result<c_int, Failure> {
    with(|program| {
        program.tell_failure()?;
        let most = c_int::try_from(most).unwrap_or(c_int::MAX);
        let at_most = most.cast_unsigned() as usize;
        let Program { node, active, .. } = program;
        let handled = match limit {
            None => active.extract(node, at_most),
            Some(limit) => active.extract_timeout(node, at_most, limit),
        };
        program.take_events()?;
        let faults = FAULTS.take();
        let handled = handled.map_err(failure)?.saturating_sub(faults.len());
        program.failures.extend(faults);
        if handled == 0 {
            program.tell_failure()?;
        }
        // At most `most`.
        Ok(handled as c_int)
    })
}

impl Program {
    fn tell_failure(&mut self) -> Result<(), Failure> {
        self.failures.pop_front().map_or(Ok(()), Err)
    }

    /// Takes the events of the node. Those that tell of messages that did not arrive become
    /// failures.
    fn take_events(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.node.next_event()? {
            let failure = match event {
                Event::NotDelivered { node, .. } => {
                    let text = format!(
                        "node {node} refused a message that is longer than it takes: send it in parts"
                    );
                    Failure::new(TOO_LONG, text)
                }
                Event::Ended {
                    node,
                    reason,
                    outcomes,
                    ..
                } => {
                    let undelivered = outcomes
                        .iter()
                        .filter(|outcome| outcome.outcome != Outcome::Delivered)
                        .count();
                    let is_planned = matches!(reason, EndReason::Closed | EndReason::ClosedHere);
                    if undelivered == 0 && is_planned {
                        continue;
                    }
                    let ended = Error::Ended { node, reason };
                    let text =
                        format!("{ended}; {undelivered} messages to it may not have arrived");
                    Failure::new(ENDED, text)
                }
                _ => continue,
            };
            if self.failures.len() < MOST_FAILURES {
                self.failures.push_back(failure);
            }
        }
        Ok(())
    }
}

/// Returns the sender of the message whose handler runs.
pub(super) fn source() -> Result<c_int, Failure> {
    let running = RUNNING.get().ok_or_else(|| {
        Failure::argument("no handler runs: call FM_source() inside of a handler")
    })?;
    Ok(running.from.0.cast_signed())
}
