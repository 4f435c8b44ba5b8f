//! `suci cat`: bytes from here to there.
//!
//! The sender ends its data with a message that tells how many bytes there were; the receiver
//! answers when it has written them all. That answer, not an acknowledgement by the peer's library,
//! decides both exit statuses.

mod progress;
mod receive;
mod send;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use suci::{Event, LostCause, SharedNode};

use crate::args::CatArgs;
use crate::error::{Context, Failure, Result};
use crate::signals::Signals;

/// Sends or receives.
pub(crate) fn run(args: &CatArgs) -> Result<ExitCode> {
    let done = match (args.listen, &args.to) {
        (Some(address), _) => receive::run(args, address),
        (None, Some(target)) => send::run(args, target),
        // clap asks for one of the two.
        (None, None) => Err(Failure::new("name an address, or --listen ADDR to receive")),
    };
    while SIGNALLED.load(Ordering::SeqCst) {
        // The signal ends the process, which prints nothing else.
        std::thread::park();
    }
    done?;
    Ok(ExitCode::SUCCESS)
}

/// A signal is about to end the process.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// The longest parting of a command that failed, or that a signal ends.
const GOODBYE: Duration = Duration::from_millis(300);

/// Takes leave of the other side when a signal ends the command. Otherwise that side would wait for
/// `--give-up-after` for data that never comes.
fn part_when_signalled(node: &SharedNode) -> Result<()> {
    let (signals, node) = (Signals::catch()?, node.clone());
    let work = move || {
        let signal = signals.wait();
        SIGNALLED.store(true, Ordering::SeqCst);
        let _ = node.close(GOODBYE);
        let _ = signal_hook::low_level::emulate_default_handler(signal.as_raw());
        // Reached only if that failed: the status that a shell would give for the signal.
        std::process::exit(128 + signal.as_raw());
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(work).context("a thread for signals")?;
    Ok(())
}

/// How long one wait lasts, before other events are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The knowledge about the process on the other side.
#[derive(Debug, Default)]
struct Death {
    since: Option<Instant>,
}

impl Death {
    /// Notes an event.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Lost {
                cause: LostCause::ProcessDied,
                ..
            } => self.since = Some(Instant::now()),
            Event::Up { .. } | Event::Lost { .. } => self.since = None,
            _ => {}
        }
    }

    /// Returns true if the process has ended: it was not heard again until the next look. If its
    /// port alone has changed, it is heard.
    fn is_sure(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= LOOK)
    }
}

/// The meaning of a message, in its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// The next bytes.
    Data,
    /// The last message; its payload is the number of bytes.
    End,
    /// All written; the payload is how many.
    Written,
    /// Not all could be written; the payload says why.
    Failed,
    /// Another client is being served.
    Busy,
}

impl Tag {
    fn number(self) -> u64 {
        match self {
            Self::Data => 0,
            Self::End => 1,
            Self::Written => 2,
            Self::Failed => 3,
            Self::Busy => 4,
        }
    }

    fn of(number: u64) -> Option<Self> {
        let all = [
            Self::Data,
            Self::End,
            Self::Written,
            Self::Failed,
            Self::Busy,
        ];
        all.into_iter().find(|tag| tag.number() == number)
    }
}

/// Returns a number as payload.
fn count(bytes: u64) -> Vec<u8> {
    bytes.to_le_bytes().to_vec()
}

/// Returns a payload as number.
fn counted(payload: &[u8]) -> Result<u64> {
    let bytes = payload.try_into().map_err(|_| {
        Failure::new(format!(
            "the other side sent {} bytes for a number: use the same release",
            payload.len()
        ))
    })?;
    Ok(u64::from_le_bytes(bytes))
}
