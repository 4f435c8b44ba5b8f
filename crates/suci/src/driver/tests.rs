use super::*;
use crate::message::OutgoingMessage;
use crate::statistics::NodeInfo;
use crate::wait::PRECISE;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use suci_net::memory::{Hub, Memory};
use suci_net::{Capabilities, Counters, Ready, SendOutcome, Train};
use suci_proto::security::Security;
use suci_proto::types::Incarnation;
use suci_proto::{AcceptPolicy, Config, Identity};

mod keys;
mod urgent;

/// The answers that a socket gives instead of sending, and the segments of each attempt.
#[derive(Default)]
struct Script {
    answers: VecDeque<SendOutcome>,
    /// Trains that the socket has room for; without a value, any number.
    room: Option<usize>,
    attempts: Vec<(usize, usize)>,
    segments: usize,
    /// Looks for datagrams, and trains, as they came.
    order: Vec<&'static str>,
    /// Receives that may block.
    blocking: usize,
    /// This many of the receives find only reports, and no datagram.
    reports: usize,
    /// How soon the backend wants to be called.
    due_in: Option<Duration>,
    /// How long each poll for datagrams takes, and each train.
    slowness: Duration,
    slow_trains: Duration,
    /// Datagrams that come during each poll.
    noise: usize,
    /// The backend does not say when datagrams arrived.
    unstamped: bool,
    /// The socket fails from now on.
    broken: bool,
}

/// How long a receive could block.
const LIMIT: Duration = Duration::from_millis(8);

/// An in-memory backend that answers as it is told.
struct Moody {
    inner: Memory,
    script: Arc<Mutex<Script>>,
}

impl Moody {
    /// Makes `count` datagrams of one byte arrive here, from ourselves.
    fn hear_noise(&mut self, count: usize) {
        let slices = [IoSlice::new(&[0])];
        let noise = Train::single(self.local_addr(), suci_net::Ecn::NotEct, &slices);
        for _ in 0..count {
            assert_eq!(self.inner.send(&noise).unwrap(), SendOutcome::Sent(1));
        }
    }
}

impl Backend for Moody {
    fn capabilities(&self) -> Capabilities {
        let max_segments = self.script.lock().unwrap().segments;
        Capabilities {
            max_segments,
            block_limit: Some(LIMIT),
            ..self.inner.capabilities()
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let mut script = self.script.lock().unwrap();
        if script.broken {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let total: usize = train.slices.iter().map(|slice| slice.len()).sum();
        assert_eq!(total, train.len);
        script.order.push("train");
        script
            .attempts
            .push((train.len.div_ceil(train.segment.max(1)), train.slices.len()));
        match script.answers.pop_front() {
            Some(SendOutcome::NoGso) => {
                script.segments = 1;
                Ok(SendOutcome::NoGso)
            }
            Some(answer) => Ok(answer),
            None if script.room == Some(0) => Ok(SendOutcome::Again),
            None => {
                script.room = script.room.map(|room| room - 1);
                std::thread::sleep(script.slow_trains);
                self.inner.send(train)
            }
        }
    }

    fn recv(
        &mut self,
        max: usize,
        sink: &mut dyn FnMut(&suci_net::Meta, &mut [u8]),
    ) -> io::Result<usize> {
        let (slowness, noise, unstamped) = {
            let mut script = self.script.lock().unwrap();
            if script.broken {
                return Err(io::ErrorKind::NotConnected.into());
            }
            script.order.push("poll");
            (script.slowness, script.noise, script.unstamped)
        };
        std::thread::sleep(slowness);
        let mut hand_on = |meta: &suci_net::Meta, bytes: &mut [u8]| {
            let arrived = meta.arrived.filter(|_| !unstamped);
            sink(&suci_net::Meta { arrived, ..*meta }, bytes);
        };
        let got = self.inner.recv(max, &mut hand_on)?;
        self.hear_noise(noise);
        Ok(got)
    }

    fn recv_blocking(
        &mut self,
        sink: &mut dyn FnMut(&suci_net::Meta, &mut [u8]),
    ) -> io::Result<Option<usize>> {
        let mut script = self.script.lock().unwrap();
        script.blocking += 1;
        if let Some(left) = script.reports.checked_sub(1) {
            script.reports = left;
            return Ok(Some(0));
        }
        self.inner.recv_blocking(sink)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.inner.wait(timeout, want_write)
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        self.inner.path_mtu(dest)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn due_in(&self) -> Option<Duration> {
        self.script.lock().unwrap().due_in
    }

    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
}

/// A driver at `address`, and its socket's mood.
fn driver(hub: &Hub, node: u32, address: SocketAddr) -> (Driver, Arc<Mutex<Script>>) {
    driver_with(hub, node, address, Security::Plain)
}

/// As [`driver`], of this mode.
fn driver_with(
    hub: &Hub,
    node: u32,
    address: SocketAddr,
    security: Security,
) -> (Driver, Arc<Mutex<Script>>) {
    let script = Arc::new(Mutex::new(Script {
        segments: 64,
        ..Script::default()
    }));
    let backend = Moody {
        inner: hub.endpoint(address).unwrap(),
        script: Arc::clone(&script),
    };
    let identity = Identity {
        node: NodeId(node),
        incarnation: Incarnation(u128::from(node) + 1),
    };
    let config = Config {
        accept: AcceptPolicy::Anyone,
        ack_on_poll: true,
        max_datagram: 1_472,
        security,
        ..Config::default()
    };
    let seed = [u8::try_from(node).unwrap(); 32];
    let engine = Engine::new(config, identity, seed, 8 << 20, Clock.now()).unwrap();
    (
        Driver::new(engine, Box::new(backend), Arc::default()),
        script,
    )
}

/// Asking whether there is news takes none: the end of a session follows its last message.
#[test]
fn to_ask_for_news_lets_no_end_overtake_the_last_message() {
    let (mut a, _, mut b) = connected();
    a.push(NodeId(1), "last".into()).unwrap();
    let now = Clock.now();
    a.engine
        .close_peer(now, NodeId(1), Duration::from_secs(30))
        .unwrap();
    let ended = |driver: &mut Driver| {
        std::iter::from_fn(|| driver.engine.poll_event())
            .any(|event| matches!(event, Event::Ended { .. }))
    };
    until(&mut a, &mut b, |a, _| ended(a));
    assert!(b.has_message_or_event());
    assert!(!ended(&mut b), "a message waits");
    assert!(b.has_message_or_event() && b.take_message().is_some());
    assert!(b.has_message_or_event() && ended(&mut b));
    assert!(!b.has_message_or_event());
}

/// A message that was accepted or taken stays so if the socket fails. The next call that needs the
/// socket fails.
#[test]
fn an_error_of_the_socket_takes_nothing_back() {
    let (mut a, script, mut b) = connected();
    b.push(NodeId(0), "arrived".into()).unwrap();
    b.output_now().unwrap();
    a.run_cycle().unwrap();
    script.lock().unwrap().broken = true;
    std::thread::sleep(2 * STALE);
    let sent = a.send(None, 8, |driver| driver.push(NodeId(1), "accepted".into()));
    assert_eq!(sent.unwrap(), 1);
    assert_eq!(a.engine.queue_len(NodeId(1)).0, 1);
    assert!(a.take_message().is_some());
    a.after_taking(1);
    assert!(a.run_cycle().is_err());
    script.lock().unwrap().broken = false;
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
}

/// A long output does not keep others from being heard. A wait polls the socket in between and
/// does not sleep; another call ends the output. The next call polls the socket before it sends
/// the rest.
#[test]
fn while_much_is_sent_others_are_heard() {
    let (mut a, script, mut b) = settled();
    let send = |from: &mut Driver, to: u32, payload: Vec<u8>| {
        from.push(NodeId(to), payload.into()).unwrap();
    };
    let slow = |trains| {
        let mut script = script.lock().unwrap();
        script.slow_trains = trains;
        std::mem::take(&mut script.attempts).len()
    };
    // The window grows.
    send(&mut a, 1, vec![1; 2_000_000]);
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    for waits in [true, false] {
        until(&mut a, &mut b, |a, b| is_settled(a) && is_settled(b));
        send(&mut b, 0, b"question".into());
        b.output_now().unwrap();
        // No message is so long that it asks first.
        (0..20).for_each(|_| send(&mut a, 1, vec![1; 20_000]));
        slow(3 * STALE);
        if waits {
            a.run_cycle_with(Poll::IfTimerDue).unwrap();
            assert_eq!(slow(3 * STALE), 1);
            assert!(a.tx_incomplete && !a.engine.has_message());
            assert_eq!(a.idle_time(), Some(Duration::ZERO));
            a.waiter.begin(WaitPolicy::Sleep, Awaited::Progress);
            a.wait_and_run_cycle(Deadline::NEVER).unwrap();
        } else {
            a.output_now().unwrap();
            assert_eq!(slow(3 * STALE), 1);
            a.send_accepted_now();
        }
        assert!(a.tx_incomplete);
        assert_eq!(slow(Duration::ZERO), 1);
        assert!(a.take_message().is_some());
        let mut taken = 0;
        until(&mut a, &mut b, |_, b| {
            taken += usize::from(b.take_message().is_some());
            taken == 20
        });
    }
}

/// A call transmits for as long as one output may last: here for one train. The helper sends what
/// is left, if no other call comes.
#[test]
fn a_call_transmits_for_a_bounded_time() {
    let (mut a, script, mut b) = settled();
    let large = || OutgoingMessage::from(vec![1; 2_000_000]);
    a.push(NodeId(1), large()).unwrap();
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    until(&mut a, &mut b, |a, b| is_settled(a) && is_settled(b));
    b.push(NodeId(0), "question".into()).unwrap();
    b.output_now().unwrap();
    a.run_cycle().unwrap();
    assert!(a.has_message());
    (0..20).for_each(|_| drop(a.push(NodeId(1), vec![1; 20_000].into())));
    type Call = fn(&mut Driver);
    let calls: [(&str, Call); 3] = [
        ("cycle", |a| a.run_cycle().unwrap()),
        ("output", |a| a.output_now().unwrap()),
        ("send", |a| {
            a.send(None, 4, |a| a.push(NodeId(1), "more".into()))
                .unwrap();
        }),
    ];
    for (name, call) in calls {
        let hold = a.hold_number();
        script.lock().unwrap().slow_trains = 3 * STALE;
        script.lock().unwrap().attempts.clear();
        call(&mut a);
        script.lock().unwrap().slow_trains = Duration::ZERO;
        assert_eq!(script.lock().unwrap().attempts.len(), 1, "{name}");
        assert!(a.tx_incomplete && a.hold_number() > hold, "{name}");
    }
    until(&mut a, &mut b, |a, b| {
        b.take_message();
        a.is_flushed()
    });
    assert!(!a.has_unsent(), "nothing waits for the peer any more");
    assert_eq!(a.hold_number(), None);
}

/// Such a call sends not even acknowledgements: the helper sees that something has to be sent.
#[test]
fn a_call_that_only_asks_takes_what_arrived_and_sends_nothing() {
    let (mut a, script, mut b) = settled();
    b.push(NodeId(0), "question".into()).unwrap();
    b.output_now().unwrap();
    a.push(NodeId(1), vec![1; 20_000].into()).unwrap();
    script.lock().unwrap().attempts.clear();
    for _ in 0..3 {
        std::thread::sleep(2 * STALE);
        a.read_clock();
        a.input_if_stale().unwrap();
        assert!(a.has_message() && a.hold_number().is_some());
        assert_eq!(script.lock().unwrap().attempts.len(), 0);
    }
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
}

/// Two drivers with a connection; the mood is that of the first one's socket.
fn connected() -> (Driver, Arc<Mutex<Script>>, Driver) {
    connected_with(Duration::ZERO)
}

/// As [`connected`], where each train of the first driver takes `slow_trains` to arrive.
fn connected_with(slow_trains: Duration) -> (Driver, Arc<Mutex<Script>>, Driver) {
    let hub = Hub::new(8 << 20).with_mtu(1_472);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (mut a, script) = driver(&hub, 0, address(1));
    script.lock().unwrap().slow_trains = slow_trains;
    let (mut b, _) = driver(&hub, 1, address(2));
    a.engine
        .add_peer(Clock.now(), NodeId(1), address(2))
        .unwrap();
    a.push(NodeId(1), "first".into()).unwrap();
    a.output_now().unwrap();
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    until(&mut a, &mut b, |a, _| a.is_flushed());
    script.lock().unwrap().attempts.clear();
    (a, script, b)
}

/// Drives both until `done`. Probes and repetitions need real time, a little.
fn until(a: &mut Driver, b: &mut Driver, mut done: impl FnMut(&mut Driver, &mut Driver) -> bool) {
    let end = Deadline::after(Duration::from_secs(30));
    while !done(a, b) {
        assert!(!end.is_over(), "nothing came of it");
        a.run_cycle().unwrap();
        b.run_cycle().unwrap();
    }
}

#[test]
fn f26_a_full_socket_is_not_loss() {
    let (mut a, script, mut b) = connected();
    script
        .lock()
        .unwrap()
        .answers
        .extend([SendOutcome::Again; 3]);
    a.push(NodeId(1), "patience".into()).unwrap();
    a.output_now().unwrap();
    assert_eq!(
        script.lock().unwrap().attempts.len(),
        1,
        "a full socket is not tried twice"
    );
    assert!(
        a.interest().write,
        "it waits until the socket can be written"
    );
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    until(&mut a, &mut b, |a, _| a.is_flushed());
    let counters = a.engine.counters();
    assert_eq!((counters.socket_full, counters.packets_lost), (3, 0));
    assert!(!a.interest().write);
}

/// A driver asks for the rest before each sleep.
#[test]
fn f26_the_rest_stays_while_the_socket_is_full_and_then_goes_once() {
    let (mut a, script, mut b) = settled();
    let arrived = b.engine.counters().datagrams_in;
    script.lock().unwrap().attempts.clear();
    script.lock().unwrap().room = Some(2);
    a.max_segments = 1;
    let payload = vec![7; 6_000];
    a.push(NodeId(1), payload.clone().into()).unwrap();
    let attempts = || script.lock().unwrap().attempts.len();
    while !a.want_write {
        a.output_rest().unwrap();
    }
    for _ in 0..3 {
        a.output_rest().unwrap();
        assert_eq!(attempts(), 3, "the third found no room");
        assert!(a.interest().write && a.engine.has_output());
    }
    script.lock().unwrap().room = None;
    a.output_now().unwrap();
    assert!(!a.interest().write);
    a.output_rest().unwrap();
    // Nothing serves the sender meanwhile, which could repeat lost packets.
    let end = Deadline::after(Duration::from_secs(30));
    let message = loop {
        b.run_cycle().unwrap();
        if let Some(message) = b.take_message() {
            break message;
        }
        assert!(!end.is_over(), "nothing was lost");
    };
    assert_eq!(message.payload, payload);
    let counters = b.engine.counters();
    let came = counters.datagrams_in - arrived;
    assert_eq!(came, attempts() as u64 - 1, "all but the one refused");
    assert_eq!((came, counters.duplicates), (5, 0));
    assert_eq!(a.engine.counters().socket_full, 1);
}

#[test]
fn f28_refused_segmentation_sends_single_packets() {
    let (mut a, script, mut b) = connected();
    script.lock().unwrap().answers.push_back(SendOutcome::NoGso);
    let payload = vec![7; 20_000];
    a.push(NodeId(1), payload.clone().into()).unwrap();
    a.output_now().unwrap();
    until(&mut a, &mut b, |_, b| {
        b.take_message().is_some_and(|m| m.payload == payload)
    });
    let attempts = script.lock().unwrap().attempts.clone();
    assert!(attempts[0].0 > 1, "the first was a train");
    assert!(
        attempts[1..].iter().all(|&(segments, _)| segments == 1),
        "{attempts:?}"
    );
    assert_eq!(
        a.engine.counters().packets_lost,
        0,
        "nothing of it counts as lost"
    );
}

#[test]
fn f25_an_unreachable_hint_is_counted_and_repeated() {
    let (mut a, script, mut b) = connected();
    script
        .lock()
        .unwrap()
        .answers
        .push_back(SendOutcome::Unreachable(io::ErrorKind::ConnectionRefused));
    a.push(NodeId(1), "again".into()).unwrap();
    a.output_now().unwrap();
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    assert_eq!(a.engine.counters().unreachable, 1);
}

#[test]
fn f27_a_smaller_route_gets_smaller_packets() {
    let (mut a, script, mut b) = connected();
    script
        .lock()
        .unwrap()
        .answers
        .push_back(SendOutcome::TooBig);
    let payload = vec![7; 20_000];
    a.push(NodeId(1), payload.clone().into()).unwrap();
    a.output_now().unwrap();
    until(&mut a, &mut b, |_, b| {
        b.take_message().is_some_and(|m| m.payload == payload)
    });
    assert_eq!(a.engine.counters().too_big, 1);
    assert!(a.engine.peer_stats(NodeId(1)).unwrap().mtu < 1_472);
}

/// Otherwise the message would wait for ever, without a reason for its user.
#[test]
fn f27_a_route_too_narrow_for_any_packet_is_told_once() {
    let (mut a, script, _b) = connected();
    let answers = std::iter::repeat_n(SendOutcome::TooBig, 10);
    script.lock().unwrap().answers.extend(answers);
    a.push(NodeId(1), vec![7; 20_000].into()).unwrap();
    for _ in 0..100 {
        a.output_now().unwrap();
        a.engine
            .handle_timeout(Clock.now() + Duration::from_secs(1));
    }
    let told = std::iter::from_fn(|| a.engine.poll_event());
    let narrow = Event::Refused {
        node: NodeId(1),
        reason: suci_proto::RefusedReason::Narrow,
    };
    assert_eq!(told.filter(|event| *event == narrow).count(), 1);
}

/// Receives that might have blocked while `driver` waited once, for at most `limit`.
fn blocking_of_a_wait(driver: &mut Driver, script: &Mutex<Script>, limit: Duration) -> usize {
    let before = script.lock().unwrap().blocking;
    driver.waiter.begin(WaitPolicy::Sleep, Awaited::Progress);
    driver.wait_and_run_cycle(Deadline::after(limit)).unwrap();
    script.lock().unwrap().blocking - before
}

/// As [`connected`]; acknowledgements are settled, so that the first driver has nothing precise
/// due.
fn settled() -> (Driver, Arc<Mutex<Script>>, Driver) {
    let (mut a, script, mut b) = connected();
    until(&mut a, &mut b, |a, _| is_settled(a));
    (a, script, b)
}

fn is_settled(driver: &Driver) -> bool {
    let next = driver.engine.next_timeout();
    next.is_none_or(|at| at > Clock.now() + PRECISE)
}

#[test]
fn waiting_begins_with_a_receive_that_blocks_and_goes_on_with_one_long_sleep() {
    let (mut a, script, mut b) = settled();
    assert_eq!(blocking_of_a_wait(&mut a, &script, 3 * LIMIT), 1);
    assert_eq!(
        blocking_of_a_wait(&mut a, &script, LIMIT),
        0,
        "the last one was in vain"
    );
    b.push(NodeId(0), "good morning".into()).unwrap();
    b.output_now().unwrap();
    a.run_cycle().unwrap();
    assert!(a.take_message().is_some());
    until(&mut a, &mut b, |a, b| b.is_flushed() && is_settled(a));
    assert_eq!(
        blocking_of_a_wait(&mut a, &script, 3 * LIMIT),
        1,
        "something came: it may go on"
    );
}

/// A timed sleep that brought nothing is the last one for a while. A program that chose how to wait
/// takes none.
#[test]
fn the_receiver_of_a_stream_takes_timed_sleeps_until_it_is_over() {
    let (mut a, script, _b) = settled();
    let in_stream = || {
        let mut waiter = Waiter::new(Some(LIMIT));
        waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
        waiter.on_receive(Some(Duration::ZERO));
        waiter
    };
    a.waiter = Waiter::new(Some(LIMIT));
    let wait = |a: &mut Driver, way| {
        let before = script.lock().unwrap().blocking;
        a.waiter.begin(way, Awaited::Message);
        let limit = Deadline::after(3 * LIMIT);
        a.read_clock();
        a.await_input(limit).unwrap();
        script.lock().unwrap().blocking - before
    };
    assert_eq!(
        wait(&mut a, WaitPolicy::Adaptive),
        1,
        "nothing is known yet"
    );
    for (way, blocking) in [(WaitPolicy::Sleep, 1), (WaitPolicy::Adaptive, 0)] {
        a.waiter = in_stream();
        assert_eq!(wait(&mut a, way), blocking, "{way:?}");
    }
    assert_eq!(wait(&mut a, WaitPolicy::Adaptive), 1, "it is over");
    // A datagram that is already there is taken at once.
    a.waiter = in_stream();
    a.last_poll.drained = false;
    assert_eq!(wait(&mut a, WaitPolicy::Adaptive), 1);
}

#[test]
fn a_message_comes_before_anything_is_sent_and_its_acknowledgement_before_the_next_sleep() {
    let (mut a, script, mut b) = settled();
    b.push(NodeId(0), "question".into()).unwrap();
    b.output_now().unwrap();
    script.lock().unwrap().attempts.clear();
    let limit = Deadline::after(3 * LIMIT);
    a.waiter.begin(WaitPolicy::Sleep, Awaited::Message);
    a.read_clock();
    a.wait_for_message(limit, false).unwrap();
    assert!(a.take_message().is_some());
    assert_eq!(script.lock().unwrap().attempts.len(), 0);
    a.run_cycle_with(Poll::IfTimerDue).unwrap();
    assert_eq!(script.lock().unwrap().attempts.len(), 1);
}

#[test]
fn a_wait_does_not_block_past_what_is_due_soon() {
    let (mut a, script, _b) = settled();
    assert_eq!(
        blocking_of_a_wait(&mut a, &script, LIMIT / 2),
        0,
        "the program's own limit is nearer than the receive's"
    );
    script.lock().unwrap().due_in = Some(PRECISE / 2);
    assert_eq!(
        blocking_of_a_wait(&mut a, &script, 3 * LIMIT),
        0,
        "something precise is due"
    );
    script.lock().unwrap().due_in = None;
    script.lock().unwrap().answers.push_back(SendOutcome::Again);
    a.push(NodeId(1), "full".into()).unwrap();
    a.output_now().unwrap();
    assert_eq!(
        blocking_of_a_wait(&mut a, &script, 3 * LIMIT),
        0,
        "the socket can perhaps be written first"
    );
}

/// Others look at the numbers ten times a second, and care for no millisecond.
#[test]
fn numbers_to_be_shown_soon_keep_no_receive_from_blocking() {
    let (mut a, script, _b) = settled();
    let about = NodeInfo {
        node: NodeId(0),
        local: a.backend.local_addr(),
    };
    let (publisher, _file) = Publisher::anonymous(about, Clock.now()).unwrap();
    a.publishers.publisher = Some(publisher);
    assert!(a.idle_time().is_some_and(|idle| idle < PRECISE));
    assert_eq!(blocking_of_a_wait(&mut a, &script, 3 * LIMIT), 1);
    let shown = a.idle_time();
    assert!(
        shown.is_none_or(|idle| idle >= PRECISE),
        "in the same cycle"
    );
}

/// A report of the network, say, behind which an acknowledgement may wait.
#[test]
fn a_receive_of_reports_alone_does_not_show_an_empty_socket() {
    let (mut a, script, _b) = settled();
    script.lock().unwrap().reports = 1;
    a.last_poll.drained = true;
    let seen_empty = a.last_poll.drained_at;
    assert_eq!(blocking_of_a_wait(&mut a, &script, 3 * LIMIT), 1);
    assert!(!a.last_poll.drained && a.last_poll.drained_at == seen_empty);
    assert_eq!(
        blocking_of_a_wait(&mut a, &script, 3 * LIMIT),
        1,
        "the last one did not last to its end"
    );
    assert!(a.last_poll.drained && a.last_poll.drained_at > seen_empty);
}

/// Sends `count` messages, each of which fills a packet, and takes them.
fn exchange(
    a: &mut Driver,
    b: &mut Driver,
    count: usize,
    then: impl FnOnce(&mut Driver, &mut Driver),
) {
    for _ in 0..count {
        b.push(NodeId(0), vec![7; 1_400].into()).unwrap();
    }
    then(a, b);
    let mut received = 0;
    until(a, b, |a, b| {
        received += std::iter::from_fn(|| a.take_message()).count();
        received == count && b.is_flushed()
    });
}

/// Polls the socket; each receive lasts this long. Returns how many datagrams it took.
fn long_poll(a: &mut Driver, script: &Mutex<Script>, follows: Follows, lasts: Duration) -> usize {
    let before = a.engine.counters().datagrams_in;
    let now = a.read_clock();
    a.engine.begin_cycle(now);
    a.last_poll.expects_many = true;
    script.lock().unwrap().slowness = lasts;
    a.drain(follows).unwrap();
    script.lock().unwrap().slowness = Duration::ZERO;
    usize::try_from(a.engine.counters().datagrams_in - before).unwrap()
}

/// A call that waits for a message gets it although others keep coming. A due timer waits for all
/// datagrams that were there; so does a program that leaves messages unread.
#[test]
fn a_poll_ends_when_the_program_has_something_to_do() {
    let (mut a, script, mut b) = connected();
    // The window grows.
    exchange(&mut a, &mut b, 200, |_, _| {});
    for (follows, unread) in [
        (Follows::Output, 0),
        (Follows::Output, 1),
        (Follows::Timers, 0),
    ] {
        let count = input::BULK + 2;
        exchange(&mut a, &mut b, unread + count, |a, b| {
            // The pacer may want a moment.
            let end = Deadline::after(Duration::from_secs(30));
            let sent = b.engine.counters().packets_out + (unread + count) as u64;
            while b.engine.counters().packets_out < sent {
                assert!(!end.is_over(), "the window holds them all");
                b.run_cycle().unwrap();
            }
            for _ in 0..unread {
                let now = a.read_clock();
                a.engine.begin_cycle(now);
                a.last_poll.expects_many = false;
                a.drain(Follows::Output).unwrap();
                assert!(a.engine.has_message());
            }
            let taken = long_poll(a, &script, follows, input::MIN_POLL_TIME);
            let early = follows == Follows::Output && unread == 0;
            assert_eq!(taken, if early { input::BULK } else { count });
        });
    }
}

/// A datagram may arrive after a poll of the socket began. The round trip that it ends lasted until
/// it arrived.
#[test]
fn a_round_trip_ends_no_earlier_than_its_acknowledgement_arrived() {
    let (least, mut shortest) = (Duration::from_millis(20), Duration::MAX);
    for stamped in [true, false] {
        let (mut a, script, mut b) = connected_with(least);
        script.lock().unwrap().unstamped = !stamped;
        for _ in 0..4 {
            // Each of its packets is in flight for this long. A poll that begins meanwhile finds
            // the answer.
            let began = a.read_clock() + least / 2;
            a.push(NodeId(1), "asks".into()).unwrap();
            a.output().unwrap();
            b.run_cycle().unwrap();
            assert!(b.take_message().is_some());
            b.run_cycle().unwrap();
            a.now = began;
            a.engine.begin_cycle(began);
            a.last_poll.expects_many = true;
            a.drain(Follows::Output).unwrap();
            until(&mut a, &mut b, |a, _| a.is_flushed());
            let stats = a.engine.peer_stats(NodeId(1)).unwrap();
            shortest = shortest.min(stats.min_rtt);
        }
    }
    assert!(shortest >= least, "{shortest:?}");
}

/// While packets arrive as fast as they are taken, a due timer waits only for those that were
/// already there.
#[test]
fn a_poll_before_timers_ends_with_what_was_there_when_it_began() {
    let (mut a, script, mut b) = connected();
    script.lock().unwrap().noise = input::BULK + 2;
    a.run_cycle().unwrap();
    script.lock().unwrap().noise = input::BULK;
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(
        long_poll(&mut a, &script, Follows::Timers, input::MIN_POLL_TIME),
        2 * input::BULK
    );
    script.lock().unwrap().noise = 0;
    until(&mut a, &mut b, |a, _| a.last_poll.drained);
}

/// Datagrams may be made to cost much, and calls have time limits.
#[test]
fn a_poll_ends_after_a_while_whatever_comes() {
    let (mut a, script, mut b) = connected();
    script.lock().unwrap().noise = 3 * input::MIN_DATAGRAMS;
    a.run_cycle().unwrap();
    script.lock().unwrap().noise = 0;
    let (most_time, before_time) = (input::MAX_POLL_TIME, input::MAX_POLL_TIME_BEFORE_TIMERS / 8);
    for (follows, lasts, most) in [
        (Follows::Output, most_time, input::BULK),
        (Follows::Timers, before_time, input::MIN_DATAGRAMS),
    ] {
        assert_eq!(long_poll(&mut a, &script, follows, lasts), most);
        assert_eq!(
            a.idle_time(),
            Some(Duration::ZERO),
            "the next cycle takes the rest"
        );
    }
    until(&mut a, &mut b, |a, _| a.last_poll.drained);
}
