//! The sleeping helper: serves a node whose program computes instead of calling it.
//!
//! Ten times a second the helper reads the word of the driver's
//! [`OwnershipLock`](crate::ownership_lock::OwnershipLock), which every use of the driver changes.
//! If the word did not change, no call used the node for that long. The helper then serves the
//! node: it takes the driver by one compare-and-swap, runs a cycle, and sleeps on the socket. When
//! another use has changed the word, the program is back, and the helper stops serving. While a
//! call of the program sleeps, the helper sleeps, too, and checks once a second. A program that
//! calls often pays only for the swap. While messages wait for the program's next call
//! ([`SendCoalescer`](crate::driver::SendCoalescer)), the helper checks a thousand times a second.
//! It does so, too, while messages wait for an answer of a peer, for a timer or for room in the
//! socket: the rest of a message longer than the window leaves while the program computes.

use crate::core::{Core, DriverGuard};
use crate::driver::Poll;
use crate::error::Error;
use crate::sys;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// The helper serves a node that was not called for this long.
const UNATTENDED: Duration = Duration::from_millis(100);

/// Time between checks of a node that lets messages wait for the next call
/// ([`SendCoalescer`](crate::driver::SendCoalescer)). A check takes a few microseconds.
const WATCH: Duration = Duration::from_millis(1);

/// The helper checks that often for this many times after the last message waited: then the node
/// counts as not called for [`UNATTENDED`] at the latest.
const WATCHES: u32 = 100;

/// How often one check of the helper tries to take the driver between two calls. Each try gives the
/// processor away, so a program that calls all the time leaves the driver free within a few.
const TRIES: u32 = 64;

/// How long the helper sleeps while one call lasts. Calls that block wake the helper when they wake
/// up. It notices the end of other long calls (a copy of a gibibyte, a program stopped within a
/// call) by the next check.
const LONG_CALL: Duration = Duration::from_secs(1);

pub(crate) fn spawn(core: Arc<Core>) -> Result<JoinHandle<()>, Error> {
    let thread = std::thread::Builder::new().name("suci-helper".into());
    thread
        .spawn(move || run(&core))
        .map_err(Error::io("starting the helper thread"))
}

/// Ends the helper and waits for it: at most for one driver cycle.
pub(crate) fn stop(core: &Core, helper: JoinHandle<()>) {
    core.stop.store(true, Ordering::SeqCst);
    core.helper_event_fd.signal();
    // A helper that panicked has said so on stderr.
    let _ = helper.join();
}

/// Ends the helper, for whatever reason: sends what waits, and lets nothing wait from then on.
struct StopGuard<'a>(&'a Core);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        let Self(core) = self;
        core.alone.store(true, Ordering::SeqCst);
        // After a panic (of the program's steering function, say), the next call may meet the same
        // panic.
        while !std::thread::panicking() {
            if let Some(mut driver) = core.enter_at(core.lock.word()) {
                return driver.send_accepted_now();
            }
            if core.stop.load(Ordering::SeqCst) {
                return;
            }
            // A call is under way. It may have read `alone` before that was set, and may leave
            // output that waits.
            if sleep_alone(core, UNATTENDED).is_err() {
                std::thread::sleep(UNATTENDED);
            }
        }
    }
}

fn run(core: &Core) {
    let _ending = StopGuard(core);
    let mut watch = Watch::default();
    while !core.stop.load(Ordering::SeqCst) {
        watch.checks = watch.checks.saturating_sub(1);
        if watch.check(core).is_err() {
            return;
        }
        let limit = if watch.checks > 0 { WATCH } else { UNATTENDED };
        let seen = core.lock.word();
        // An error of the sleep must not make this a busy loop.
        let Ok(woken) = sleep_alone(core, limit) else {
            return;
        };
        let word = core.lock.word();
        // A call wakes the helper before it moves the word. So an unmoved word says nothing if the
        // eventfd ended the sleep. Taken for a long call it would delay the answer to a handshake
        // by a second.
        let moved = woken || seen != word;
        // An odd word: the program has been in one call since the last check.
        watch.inside = !moved && word & 1 == 1;
        if moved {
            watch.away = Duration::ZERO;
        } else if watch.inside {
            if watch.checks == 0 {
                // An error ends the sleep early, which costs one more check.
                let sleep = || drop(sleep_alone(core, LONG_CALL));
                core.lock.sleep_while(word, sleep);
            }
        } else {
            watch.away += limit;
            if watch.away >= UNATTENDED {
                watch.away = Duration::ZERO;
                if serve(core, word).is_err() {
                    // The program's next call meets the same error and reports it.
                    return;
                }
            }
        }
    }
}

/// Sends the output that waits for the program's next call.
#[derive(Debug, Default)]
struct Watch {
    /// The number of checks that still follow each other by [`WATCH`].
    checks: u32,
    /// The last hold seen, and the last that is known to be over.
    seen: u32,
    over: u32,
    /// How long the program has not called.
    away: Duration,
    /// The program is in the call that it was in at the last check.
    inside: bool,
}

impl Watch {
    /// Sends the output that waited already at the last check.
    fn check(&mut self, core: &Core) -> Result<(), Error> {
        let hold = core.holds.last(self.checks > 0);
        if hold != self.seen {
            self.seen = hold;
            self.checks = WATCHES;
        } else if hold != self.over
            && !self.inside
            && let Some(mut driver) = enter_between(core)
        {
            // If a call is under way, it may add to the output: the next check will tell.
            if driver.hold_number() != Some(hold) {
                self.over = hold;
                return Ok(());
            }
            driver.run_cycle()?;
            // More is to be sent than one cycle sends, now or when a peer answers, and the program
            // is elsewhere. Should it come back for a moment, the next check goes on.
            if driver.has_unsent() {
                drop(driver);
                self.checks = WATCHES;
                return serve(core, core.lock.word());
            }
            self.over = hold;
        }
        Ok(())
    }
}

/// Takes the driver, if no call is under way. A program that calls all the time is mostly inside,
/// each time for a moment.
fn enter_between(core: &Core) -> Option<DriverGuard<'_>> {
    (0..TRIES).find_map(|_| {
        let driver = core.enter_at(core.lock.word());
        if driver.is_none() {
            std::thread::yield_now();
        }
        driver
    })
}

/// Sleeps until a call wakes the helper or `limit` has passed. Returns whether a call did.
fn sleep_alone(core: &Core, limit: Duration) -> std::io::Result<bool> {
    let event_fd = core.helper_event_fd.as_raw_fd();
    let ready = sys::sleep(-1, Some(event_fd), Some(limit))?;
    if ready.signalled && !core.stop.load(Ordering::SeqCst) {
        core.helper_event_fd.clear();
    }
    Ok(ready.signalled)
}

/// Serves the node until the program is back. `word` is the word that the program left.
fn serve(core: &Core, mut word: u64) -> Result<(), Error> {
    let event_fd = core.helper_event_fd.as_raw_fd();
    // Everything that waits leaves now. From here on a call of the program wakes the helper if it
    // leaves output before the helper has noticed that the program is back.
    core.holds.last(false);
    let mut ready = sys::Ready::default();
    while !core.stop.load(Ordering::SeqCst)
        && let Some(mut driver) = core.enter_at(word)
    {
        // The program may come back while there is much to send.
        driver.on_slept(ready);
        driver.run_cycle()?;
        driver.run_cycle_with(Poll::IfTimerDue)?;
        driver.read_clock();
        let (interest, limit) = (driver.interest(), driver.idle_time());
        drop(driver);
        // Taking and leaving moved the word by one each.
        word = word.wrapping_add(2);
        ready = sys::sleep_on(interest, Some(event_fd), limit).map_err(Error::io("waiting"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::clock::Deadline;
    use crate::remote::{Layout, RemoteHost, Rights};
    use crate::{AddressBook, Error, Event, Node, NodeId, OutgoingMessage};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use suci_layers::remote::{Initiator, Layer};

    fn node(id: u32) -> Node {
        let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
        builder
            .listen("127.0.0.1:0".parse().unwrap())
            .open()
            .unwrap()
    }

    /// Two nodes that know each other. Only the program serves the first, as far as there is work.
    fn left_alone() -> (Node, Node) {
        let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
        let listening = builder.listen("127.0.0.1:0".parse().unwrap());
        let (mut a, b) = acquainted(listening.unattended().open().unwrap());
        a.send(b.id(), "hello").unwrap();
        a.flush(Duration::from_secs(30)).unwrap();
        (a, b)
    }

    /// Node 0, and a node 1 that knows it and that it knows.
    fn acquainted(mut a: Node) -> (Node, Node) {
        let mut b = node(1);
        a.add_peer(b.id(), b.local_addr()).unwrap();
        b.add_peer(a.id(), a.local_addr()).unwrap();
        (a, b)
    }

    fn packets(node: &Node) -> u64 {
        node.enter().unwrap().engine.counters().packets_out
    }

    /// Each of these calls comes after the message was accepted, and must not keep it from leaving.
    #[test]
    fn what_waits_for_the_next_call_leaves_before_that_changes_anything() {
        let (mut a, mut b) = left_alone();
        let peer = b.id();
        type Call = fn(&mut Node, NodeId);
        let calls: [(&str, Call); 6] = [
            ("batch", |a, _| drop(a.batch(|_| ()))),
            ("poll", |a, _| drop(a.poll(Duration::ZERO))),
            ("options", |a, peer| {
                let peer = a.peer(peer);
                let rate_cap = Some(1_000);
                let options = peer.options().unwrap();
                drop(peer.set_options(crate::PeerOptions {
                    rate_cap,
                    ..options
                }))
            }),
            ("suspend", |a, peer| drop(a.peer(peer).suspend())),
            ("resume", |a, peer| drop(a.peer(peer).resume())),
            ("abandon", |a, peer| drop(a.peer(peer).reset())),
        ];
        for (name, call) in calls {
            let before = packets(&a);
            a.enter().unwrap().coalescer.expect_burst();
            let sent = a.send(peer, "waits");
            if name == "resume" {
                assert!(sent.is_err(), "suspended");
                call(&mut a, peer);
                continue;
            }
            assert_eq!(packets(&a), before, "{name}");
            assert!(a.enter().unwrap().coalescer.holds_messages(), "{name}");
            call(&mut a, peer);
            assert!(!a.enter().unwrap().coalescer.holds_messages(), "{name}");
            assert!(packets(&a) > before, "{name}");
        }
        for _ in 0..6 {
            let got = b.recv_timeout(Duration::from_secs(30)).unwrap();
            assert!(got.is_some(), "the last was abandoned before it left");
        }
    }

    /// A put is held as a message is, and leaves in one packet with the request of the `quiet`
    /// behind it.
    #[test]
    fn a_put_that_waits_shares_a_packet_with_its_flush() {
        let (a, b) = left_alone();
        let region = b.allocate_region(8, Rights::WRITE).unwrap();
        let before = packets(&a);
        a.enter().unwrap().coalescer.expect_burst();
        let put = |initiator: &mut Initiator| {
            let layout = Layout::contiguous(0, 8).unwrap();
            initiator.put(&region.handle(), layout, vec![7; 8].into(), None)
        };
        let begin = |layer: &mut Layer| put(&mut layer.initiator);
        RemoteHost::begin(&a, b.id(), 8, Deadline::NEVER, begin).unwrap();
        assert!(a.enter().unwrap().coalescer.holds_messages());
        a.layer(0).initiator.quiet().unwrap();
        a.send_requests(0).unwrap();
        // They wait still, unless 20 us have passed.
        if packets(&a) == before {
            a.enter().unwrap().send_accepted_now();
        }
        assert_eq!(packets(&a), before + 1);
    }

    /// A program that calls all the time, but for nothing that sends: the helper takes the driver
    /// between its calls.
    #[test]
    fn what_waits_leaves_between_other_calls() {
        let (mut a, mut b) = acquainted(node(0));
        a.send(b.id(), "hello").unwrap();
        assert!(b.recv_timeout(Duration::from_secs(30)).unwrap().is_some());
        a.flush(Duration::from_secs(30)).unwrap();
        a.enter().unwrap().coalescer.expect_burst();
        let before = packets(&a);
        a.send(b.id(), "waits").unwrap();
        assert_eq!(a.enter().unwrap().engine.counters().packets_out, before);
        let begun = Instant::now();
        while packets(&a) == before && begun.elapsed() < Duration::from_secs(30) {
            a.peer(b.id()).stats().unwrap();
        }
        assert!(packets(&a) > before);
    }

    /// The helper ended, because of an error, say: output that waited for it would wait for ever.
    #[test]
    fn where_the_helper_is_gone_nothing_waits() {
        let (mut a, b) = left_alone();
        a.enter().unwrap().coalescer.expect_burst();
        a.core
            .alone
            .store(true, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..2 {
            let before = packets(&a);
            a.send(b.id(), "goes").unwrap();
            assert!(packets(&a) > before);
        }
        assert!(!a.enter().unwrap().coalescer.allowed);
    }

    /// The helper ends during a call that found it alive and so leaves output to it.
    #[test]
    fn a_helper_that_ends_sends_what_a_call_leaves_then() {
        let (mut a, b) = left_alone();
        a.enter().unwrap().coalescer.expect_burst();
        let before = packets(&a);
        a.send(b.id(), "goes").unwrap();
        let call = a.core.lock.take();
        let core = std::sync::Arc::clone(&a.core);
        let ending = std::thread::spawn(move || drop(super::StopGuard(&core)));
        while !a.core.alone.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::yield_now();
        }
        drop(call);
        ending.join().unwrap();
        assert!(packets(&a) > before);
    }

    /// A program that computes after it sent much: the helper sends the rest of its call's output,
    /// long before it takes the program for away.
    #[test]
    fn the_rest_of_a_large_message_is_sent_while_the_program_computes() {
        let (mut a, mut b) = acquainted(node(0));
        let length = 64 << 20;
        a.send(b.id(), vec![1; length]).unwrap();
        // The peer takes the message.
        let got = b.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(got.map(|message| message.payload.len()), Some(length));
    }

    /// A program that computes after it sent a message that the peer must answer first: the first
    /// message of all waits for the handshake, a large one for the receiver's consent.
    #[test]
    fn messages_that_wait_for_answers_leave_while_the_program_computes() {
        for large in [false, true] {
            // On a busy machine any single message may be late.
            let is_soon = (0..20).any(|_| {
                let (mut a, mut b) = acquainted(node(0));
                if large {
                    a.send(b.id(), "hello").unwrap();
                    assert!(b.recv_timeout(Duration::from_secs(30)).unwrap().is_some());
                    a.flush(Duration::from_secs(30)).unwrap();
                }
                let length = if large { 1 << 20 } else { 1 };
                let begun = Instant::now();
                a.send(b.id(), vec![1; length]).unwrap();
                let got = b.recv_timeout(Duration::from_secs(30)).unwrap();
                assert_eq!(got.map(|message| message.payload.len()), Some(length));
                begun.elapsed() < super::UNATTENDED / 2
            });
            assert!(is_soon, "large: {large}");
        }
    }

    /// Only the program ends a suspension, so the helper does not wait for that.
    #[test]
    fn the_helper_does_not_wait_for_the_program_to_resume() {
        let (mut a, b) = left_alone();
        let peer = b.id();
        a.send(peer, vec![1; 1 << 20]).unwrap();
        assert!(a.enter().unwrap().has_unsent());
        a.peer(peer).suspend().unwrap();
        assert!(!a.enter().unwrap().has_unsent());
        a.peer(peer).resume().unwrap();
        assert!(a.enter().unwrap().has_unsent());
    }

    /// Calls that only ask send nothing, whatever waits to be sent, and however often they come.
    #[test]
    fn calls_that_only_ask_send_nothing() {
        let (mut a, b) = left_alone();
        // Lets messages wait as with a helper: without one these calls send.
        a.enter().unwrap().coalescer.allowed = true;
        let peer = b.id();
        a.send(peer, vec![1; 64 << 20]).unwrap();
        type Ask = fn(&mut Node, NodeId);
        let asks: [(&str, Ask); 8] = [
            ("queue_len", |a, peer| drop(a.peer(peer).queue_len())),
            ("delivered", |a, peer| {
                drop(a.peer(peer).delivered(crate::ChannelId(0)))
            }),
            ("next_event", |a, _| drop(a.next_event())),
            ("events", |a, _| drop(a.events())),
            ("peers", |a, _| drop(a.peers())),
            ("counters", |a, _| drop(a.counters())),
            ("peer_stats", |a, peer| drop(a.peer(peer).stats())),
            ("remote_window", |a, peer| {
                drop(a.peer(peer).remote_window(crate::ChannelId(0)))
            }),
        ];
        let before = packets(&a);
        for (name, ask) in asks {
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(1));
                ask(&mut a, peer);
                assert_eq!(packets(&a), before, "{name}");
            }
        }
        assert!(a.peer(peer).queue_len().unwrap().0 > 0, "much waits");
    }

    /// The helper finds that the program calls all the time, and serves the node between two calls.
    #[test]
    fn a_program_that_only_asks_is_served() {
        let (mut a, mut b) = acquainted(node(0));
        a.send(b.id(), "hello").unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while a.peer(b.id()).queue_len().unwrap().0 > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(a.peer(b.id()).queue_len().unwrap(), (0, 0));
        assert!(b.try_recv().unwrap().is_some());
    }

    #[test]
    fn a_program_whose_sends_all_fail_is_served() {
        let (mut a, mut b) = acquainted(node(0));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let stranger = b.send(NodeId(77), "nobody");
                    assert!(matches!(stranger, Err(Error::UnknownPeer(_))));
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            a.send(NodeId(1), "hello").unwrap();
            let flushed = a.flush(Duration::from_secs(10));
            over.store(true, Ordering::Relaxed);
            flushed.unwrap();
        });
    }

    /// A call may take long without sleeping, and nothing wakes the helper when it is over.
    #[test]
    fn a_program_that_computes_after_one_long_call_is_served() {
        let (mut a, b) = acquainted(node(0));
        let driver = b.enter().unwrap();
        std::thread::sleep(super::UNATTENDED * 4);
        drop(driver);
        a.send(b.id(), OutgoingMessage::new(vec![7]).notify(1))
            .unwrap();
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
        assert!(delivered, "b's helper sleeps on");
    }
}
