//! The sleeping helper: serves a node whose program computes instead of calling it.
//!
//! Ten times a second it looks at one word. If the word stood still, nobody called the node for that long:
//! the helper goes on duty, takes the driver by one compare-and-swap, answers what arrived, and
//! sleeps on the socket. It finds out that the program is back when the word is not the one it
//! left, and goes off duty. While a call of the program itself sleeps, the helper naps, and looks once a second. A
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

/// While one call lasts. Calls that block ring the helper when they wake up; of others that took long (a copy of a
/// gibibyte, a program that was stopped in the middle of one) it learns by looking.
const NAP: Duration = Duration::from_secs(1);

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
        if sleep_alone(core, UNATTENDED).is_err() {
            return;
        }
        let word = core.cell.word();
        match judge(seen, word) {
            Program::Active => {}
            // An error ends the nap early, which costs one more look.
            Program::Inside => core.cell.nap(word, || drop(sleep_alone(core, NAP))),
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

fn sleep_alone(core: &Core, limit: Duration) -> std::io::Result<()> {
    let bell = core.helper_bell.as_raw_fd();
    let ready = sys::sleep(-1, Some(bell), false, Some(limit))?;
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

#[cfg(test)]
mod tests {
    use crate::{AddressBook, Draft, Event, Node, NodeId};
    use std::time::{Duration, Instant};

    fn node(id: u32) -> Node {
        let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
        builder
            .listen("127.0.0.1:0".parse().unwrap())
            .open()
            .unwrap()
    }

    /// A call may take long without sleeping, and nobody rings when it is over.
    #[test]
    fn a_program_that_computes_after_one_long_call_is_served() {
        let (mut a, mut b) = (node(0), node(1));
        a.add_peer(b.id(), b.local_addr()).unwrap();
        b.add_peer(a.id(), a.local_addr()).unwrap();
        let turn = b.enter().unwrap();
        std::thread::sleep(super::UNATTENDED * 4);
        drop(turn);
        a.send(b.id(), Draft::new(vec![7]).notify(1)).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        let mut delivered = false;
        while !delivered && Instant::now() < end {
            assert!(
                a.recv_timeout(Duration::from_millis(100))
                    .unwrap()
                    .is_none()
            );
            let events = a.events().unwrap();
            delivered = events
                .into_iter()
                .any(|event| matches!(event, Event::Delivered { .. }));
        }
        assert!(delivered, "b's helper naps on");
    }
}
