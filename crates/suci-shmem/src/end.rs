//! Ends of processes: of this one, and of others that cannot go on without each other.

use crate::dse::message::{CHANNEL, on_message};
use crate::runtime;
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use suci::group::{GroupError, MemberFailure};
use suci::{EndReason, Event, LostCause, Message, Next, NodeId, SharedNode};

/// How long `shmem_global_exit` waits until the others know.
const TELL: Duration = Duration::from_millis(500);

/// How long a process that notices the end of another one waits for a status: that one may have
/// ended because it was told to.
const GRACE: Duration = Duration::from_millis(300);

/// Ends the program with a message: a fault of its, or of a process or network that it depends on.
#[macro_export]
#[doc(hidden)]
macro_rules! fatal {
    ($($text:tt)*) => {
        $crate::end::fail(&format!($($text)*))
    };
}

/// Prints a message and ends all processes.
pub(crate) fn fail(message: &str) -> ! {
    match runtime::started() {
        Some(runtime) => {
            tell(&format!("PE {}: {message}", runtime.fabric.me));
            runtime.exit_all(1)
        }
        None => {
            tell(message);
            exit(1)
        }
    }
}

/// Ends all processes, since a collective operation failed: OpenSHMEM has no errors of operations.
/// The program knows processes and teams, but no groups.
pub(crate) fn fail_by_group(error: GroupError) -> ! {
    let (other, operation, failure) = match error {
        GroupError::Member {
            node,
            operation,
            failure,
            ..
        } => (node, operation, failure),
        GroupError::Argument { problem, .. } => fail(&problem),
        GroupError::Excluded { .. } | GroupError::CutOff { .. } => {
            fail("the other PEs go on without this one, which did not answer for too long")
        }
        error => fail(&error.to_string()),
    };
    match failure {
        // The watcher ends this process if a status comes.
        MemberFailure::Ended(reason) => {
            std::thread::sleep(2 * GRACE);
            fail(&end_of(other, reason))
        }
        MemberFailure::Lost(cause) => {
            std::thread::sleep(2 * GRACE);
            fail(&match cause {
                LostCause::ProcessDied => end_of(other, EndReason::ProcessDied),
                LostCause::NoAnswer => end_of(other, EndReason::Silent),
                cause => format!("PE {other} is not reached ({cause:?}): this process ends, too"),
            })
        }
        // Another process knows more and says it: a status of this one must not end that one
        // before.
        MemberFailure::Reported(by) => {
            std::thread::sleep(GRACE);
            fail(&format!(
                "PE {other} failed in a collective operation ({operation}), as PE {by} says"
            ))
        }
        MemberFailure::Outdated(other) => fail(&format!(
            "PE {other} was started again: no PE can take part a second time"
        )),
        failure => fail(&format!(
            "PE {other} failed in a collective operation ({operation}): {failure}"
        )),
    }
}

/// The message for the end of another process.
fn end_of(other: NodeId, reason: EndReason) -> String {
    let how = match reason {
        EndReason::Closed => "ended without shmem_finalize()".to_owned(),
        EndReason::ProcessDied => "died".to_owned(),
        EndReason::Restarted => {
            "was started again, and no PE can take part a second time (suci run without --restart)"
                .to_owned()
        }
        EndReason::Silent => {
            "does not answer (SHMEM_SILENCE_TIMEOUT sets how many seconds it may be silent)"
                .to_owned()
        }
        reason => format!("is gone ({reason:?})"),
    };
    format!("PE {other} {how}: this process ends, too")
}

/// Prints a line in one piece: lines of several processes do not mix.
fn tell(message: &str) {
    let line = format!("shmem: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Writes out what the program printed, and ends this process without anything else that a program
/// does at its end: its other threads go on meanwhile. One that waits for input has the lock of its
/// stream, for which nobody waits longer than a second.
fn exit(status: c_int) -> ! {
    const LONGEST: Duration = Duration::from_secs(1);
    let (flushed, wait) = std::sync::mpsc::channel();
    let flush = move || {
        // SAFETY: without an argument it flushes all streams, each under its lock.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let _ = flushed.send(());
    };
    let _thread = std::thread::Builder::new().spawn(flush);
    // It fails at once if there is no thread.
    let _ = wait.recv_timeout(LONGEST);
    // SAFETY: it does not return.
    unsafe { libc::_exit(status) }
}

/// Tells the other processes to end with a status, and does so here.
pub(crate) fn exit_all(
    node: &SharedNode,
    others: impl Iterator<Item = NodeId>,
    status: c_int,
) -> ! {
    for other in others {
        let _ = node.send_copy(other, &status.to_le_bytes());
    }
    // On the node's own thread, or if the node is closed, there is nothing to wait for.
    let _ = node.flush(TELL);
    exit(status)
}

/// The thread that hears of the ends of other processes.
pub(crate) struct Watcher {
    /// Whether this process is ending.
    ending: Arc<AtomicBool>,
}

impl Watcher {
    /// Starts it. It ends with the node.
    pub(crate) fn start(node: SharedNode) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&ending);
        // Without it, ends are noticed by the operations that fail.
        let thread = std::thread::Builder::new().name("shmem-watch".into());
        let _ = thread.spawn(move || watch(&node, &watched));
        Self { ending }
    }

    /// From now on others may end. Returns false if that was so before.
    pub(crate) fn expect_ends(&self) -> bool {
        !self.ending.swap(true, Ordering::AcqRel)
    }
}

fn watch(node: &SharedNode, ending: &AtomicBool) {
    while let Ok(next) = node.next() {
        match next {
            Next::Message(message) if message.channel == CHANNEL => on_message(&message),
            Next::Message(message) => exit(status(&message)),
            Next::Event(Event::Ended {
                node: other,
                reason,
                ..
            }) if !ending.load(Ordering::Acquire) => follow(node, other, reason),
            Next::Event(_) => {}
        }
    }
}

/// The status of `shmem_global_exit`.
fn status(message: &Message) -> c_int {
    let bytes = message.payload.as_ref().try_into();
    bytes.map_or(1, c_int::from_le_bytes)
}

/// Ends this process after another one, with the status that it was told, if a message says it.
fn follow(node: &SharedNode, other: NodeId, reason: EndReason) -> ! {
    let begun = Instant::now();
    while let Some(left) = GRACE.checked_sub(begun.elapsed()) {
        if let Ok(Some(Next::Message(message))) = node.next_timeout(left)
            && message.channel != CHANNEL
        {
            exit(status(&message));
        }
    }
    tell(&end_of(other, reason));
    exit(1)
}

unsafe extern "C" {
    /// Calls `function` with the status when the program ends (glibc).
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Finalizes at the end of a program that does not do so itself.
pub(crate) fn at_exit() {
    // SAFETY: the function takes these arguments and stays loaded, as the library's threads run.
    let _ = unsafe { on_exit(end, std::ptr::null_mut()) };
}

unsafe extern "C" fn end(status: c_int, _: *mut c_void) {
    // A child of a fork ends as if the library were not there.
    let Some(runtime) = runtime::started().filter(|runtime| !runtime.is_forked()) else {
        return;
    };
    // The values of this thread that functions of the library may use are gone by now.
    let end = move || match status {
        0 => runtime.finalize(),
        // Others may wait for this process for ever: they hear of its end.
        _ => runtime.abandon(),
    };
    let thread = std::thread::Builder::new().spawn(end);
    let _ = thread.map(std::thread::JoinHandle::join);
}
