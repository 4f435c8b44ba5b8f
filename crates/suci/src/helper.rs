//! The sleeping helper: serves a node whose program computes instead of calling it.
//!
//! Ten times a second it looks at one word. If the word stood still, nobody called the node for that long:
//! the helper goes on duty, takes the driver by one compare-and-swap, answers what arrived, and
//! sleeps on the socket. It finds out that the program is back when the word is not the one it
//! left, and goes off duty. While a call of the program itself sleeps, the helper sleeps too, for ever. A
//! program that calls often pays nothing but the swap.

use crate::core::Core;
use crate::error::Error;
use crate::sys;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// A node that nobody called for this long is served.
const UNATTENDED: Duration = Duration::from_millis(100);

/// What the helper found when it looked at the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// It called the node since the last look.
    Active,
    /// One call of it lasts since then.
    Inside,
    /// It is elsewhere.
    Away,
}

pub(crate) fn spawn(core: Arc<Core>) -> Result<JoinHandle<()>, Error> {
    let thread = std::thread::Builder::new().name("suci-helper".into());
    thread
        .spawn(move || run(&core))
        .map_err(Error::io("starting the helper thread"))
}

/// Ends the helper, which needs at most the time of one turn.
pub(crate) fn stop(core: &Core, helper: JoinHandle<()>) {
    core.stop.store(true, Ordering::SeqCst);
    core.helper_bell.ring();
    // A helper that panicked has said so on stderr.
    let _ = helper.join();
}

fn run(core: &Core) {
    let mut seen = core.cell.word();
    while !core.stop.load(Ordering::SeqCst) {
        // Failing to sleep must not become a loop that never does.
        if sleep_alone(core, Some(UNATTENDED)).is_err() {
            return;
        }
        let word = core.cell.word();
        match judge(seen, word) {
            Program::Active => {}
            // It rings when it wakes up. An error ends the nap early, which costs one more look.
            Program::Inside => core.cell.nap(word, || drop(sleep_alone(core, None))),
            Program::Away => {
                if serve(core, word).is_err() {
                    // The program's next call meets the same error and reports it.
                    return;
                }
            }
        }
        seen = core.cell.word();
    }
}

fn judge(seen: u64, word: u64) -> Program {
    match (seen == word, word & 1) {
        (false, _) => Program::Active,
        (true, 1) => Program::Inside,
        (true, _) => Program::Away,
    }
}

fn sleep_alone(core: &Core, limit: Option<Duration>) -> std::io::Result<()> {
    let bell = core.helper_bell.as_raw_fd();
    let ready = sys::sleep(-1, Some(bell), false, limit)?;
    if ready.rung && !core.stop.load(Ordering::SeqCst) {
        core.helper_bell.hush();
    }
    Ok(())
}

/// Serves the node until the program is back. `word` is the one it left.
fn serve(core: &Core, mut word: u64) -> Result<(), Error> {
    let bell = core.helper_bell.as_raw_fd();
    while !core.stop.load(Ordering::SeqCst)
        && let Some(mut turn) = core.enter_at(word)
    {
        turn.turn()?;
        turn.settle()?;
        let (socket, want_write) = turn.interest();
        let limit = turn.idle_time(turn.now());
        drop(turn);
        // Taking and leaving moved the word by one each.
        word = word.wrapping_add(2);
        sys::sleep(socket, Some(bell), want_write, limit).map_err(Error::io("waiting"))?;
    }
    Ok(())
}
