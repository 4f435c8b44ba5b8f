//! The log: lines of text to a descriptor of the program.
//!
//! The library logs by `tracing`. This is a subscriber that writes each event as one line. It runs
//! on the thread that logs, which may be an I/O thread of a node: so it never waits for the
//! descriptor, and leaves lines out instead.

use crate::error::{Failure, LOG_TAKEN};
use crate::guard::guard;
use std::ffi::c_int;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber, set_global_default};
use tracing::{Event, Level, Metadata};

/// The descriptor; -1 without a log.
static FD: AtomicI32 = AtomicI32::new(-1);

/// The longest line: a pipe takes as many bytes at once or none (`PIPE_BUF`).
const LONGEST: usize = 4_096;

/// Writes the library's events to [`FD`].
struct Lines;

impl Subscriber for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_ours(metadata) {
            // The descriptor may come and go.
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        FD.load(Ordering::Relaxed) >= 0 && is_ours(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line(format!("{} {}", metadata.target(), metadata.level()));
        event.record(&mut line);
        line.write(FD.load(Ordering::Relaxed));
    }

    // The library has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "suci" && *metadata.level() <= Level::DEBUG
}

/// A line in the making.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let Self(line) = self;
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(line, " {value:?}"),
            name => write!(line, " {name}={value:?}"),
        };
    }
}

impl Line {
    /// Writes the line, if the descriptor takes it at once.
    fn write(self, fd: c_int) {
        let Self(line) = self;
        let mut line = line.replace(['\n', '\r'], " ");
        line.truncate(line.floor_char_boundary(LONGEST - 1));
        line.push('\n');
        let mut ready = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `ready` is one entry and outlives the call, which does not wait.
        let count = unsafe { libc::poll(&raw mut ready, 1, 0) };
        // A pipe or socket that nobody reads any more is ready, too, but has an error beside it:
        // writing would raise SIGPIPE.
        if count == 1 && ready.revents == libc::POLLOUT {
            // SAFETY: the bytes outlive the call. A line that cannot be written is left out.
            unsafe { libc::write(fd, line.as_ptr().cast(), line.len()) };
        }
    }
}

/// Sets the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn suci_log_to(fd: c_int) -> c_int {
    /// True if the subscriber could be installed, which a process can do once.
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    guard(|| {
        if fd >= 0 && !INSTALLED.get_or_init(|| set_global_default(Lines).is_ok()) {
            let text =
                "the process has another tracing subscriber: read the log there, or install none";
            return Err(Failure::new(LOG_TAKEN, text));
        }
        FD.store(fd.max(-1), Ordering::Relaxed);
        Ok(())
    })
}
