//! The time that `close` takes, whichever of the last packets is lost, late or doubled.

use super::*;
use crate::Outcome;
use crate::event::Unreachable;

/// One-way delay.
const DELAY: Duration = Duration::from_millis(1);

/// Time limit of each `close`.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for which a driver answers repeated CLOSEs.
const LINGER: Duration = Duration::from_millis(500);

/// Longest time that a close may take: some round trips and probe timeouts.
const BOUND: Duration = Duration::from_millis(250);

/// The fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Late by five round trips.
    Late,
    Doubled,
    /// Lost, with this many packets after it.
    Burst(usize),
}

/// Two processes on a link with a delay. Each ends once its engine closed and the other can repeat
/// no CLOSE.
struct Ending {
    world: World,
    /// Packets under way, by arrival.
    queue: BTreeMap<(Instant, usize), Packet>,
    packets: usize,
    /// The host whose packets have a fault, the first such packet since a close began, and the
    /// fault.
    fault: Option<(usize, usize, Fault)>,
    /// All packets of this host are lost once its session is over.
    mute: Option<usize>,
    /// How many packets each host sent since a close began.
    sent: [usize; 2],
    closing: bool,
    began: [Option<Instant>; 2],
    closed: [Option<Instant>; 2],
    gone: [bool; 2],
    /// If set, a closed port is reported; true if this machine's kernel makes the report.
    reports: Option<bool>,
    /// The program answers each message unless it closes.
    answers: bool,
    accepted: [usize; 2],
    received: [usize; 2],
    told: [Vec<Event>; 2],
}

impl Ending {
    fn new(world: World) -> Self {
        Self {
            world,
            queue: BTreeMap::new(),
            packets: 0,
            fault: None,
            mute: None,
            sent: [0; 2],
            closing: false,
            began: [None; 2],
            closed: [None; 2],
            gone: [false; 2],
            reports: None,
            answers: false,
            accepted: [0; 2],
            received: [0; 2],
            told: [Vec::new(), Vec::new()],
        }
    }

    /// Sends a message from the host's program, which asks for its outcome.
    fn send(&mut self, host: usize, payload: &'static [u8]) {
        let outgoing = Outgoing {
            notify: true,
            ..message(payload)
        };
        let now = self.world.now;
        let sent = self.world.engines[host].send(now, id(1 - host), outgoing);
        self.accepted[host] += usize::from(sent.is_ok());
    }

    /// Queues a packet for delivery, unless it is lost.
    fn carry(&mut self, packet: Packet) {
        if self.mute == Some(packet.from) && self.closed[packet.from].is_some() {
            return;
        }
        let mut copies = vec![DELAY];
        if self.closing {
            let number = self.sent[packet.from];
            self.sent[packet.from] += 1;
            if let Some((from, nth, fault)) = self.fault
                && from == packet.from
            {
                copies = match fault {
                    Fault::Burst(more) if (nth..=nth + more).contains(&number) => vec![],
                    Fault::Late if number == nth => vec![DELAY * 11],
                    Fault::Doubled if number == nth => vec![DELAY, DELAY * 2],
                    _ => copies,
                };
            }
        }
        for delay in copies {
            self.packets += 1;
            let at = (self.world.now + delay, self.packets);
            self.queue.insert(at, packet.clone());
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        if !self.gone[packet.to] {
            self.world.deliver(packet);
        } else if let Some(local) = self.reports
            && !self.gone[packet.from]
        {
            let report = Undelivered {
                to: address(packet.to),
                why: Unreachable::Port,
                local,
                quoted: &packet.bytes,
            };
            let now = self.world.now;
            self.world.engines[packet.from].on_undelivered(now, &report);
        }
    }

    /// Runs one cycle of a driver and its program.
    fn run_cycle(&mut self, host: usize) {
        let now = self.world.now;
        if self.gone[host] {
            return;
        }
        let engine = &mut self.world.engines[host];
        engine.begin_cycle(now);
        if engine.next_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now);
        }
        while let Some(message) = self.world.engines[host].recv() {
            drop(message);
            self.received[host] += 1;
            if self.answers {
                self.send(host, b"answer");
            }
        }
        let packets = self.world.outgoing(host);
        let told = self.world.events(host);
        self.told[host].extend(told);
        let engine = &self.world.engines[host];
        if engine.is_closed() {
            let closed = *self.closed[host].get_or_insert(now);
            let idle = engine.next_timeout().is_none();
            self.gone[host] = idle || now >= closed + LINGER;
        }
        packets.into_iter().for_each(|packet| self.carry(packet));
    }

    fn close(&mut self, host: usize) {
        self.closing = true;
        self.began[host] = Some(self.world.now);
        let now = self.world.now;
        self.world.engines[host].close(now, PATIENCE);
    }

    /// Lets time pass until `until`, or until both processes are gone.
    fn run_until(&mut self, until: Instant) {
        loop {
            for host in 0..2 {
                self.run_cycle(host);
            }
            if self.gone == [true; 2] {
                return;
            }
            let arrival = self.queue.keys().next().map(|key| key.0);
            let due = (0..2).filter(|host| !self.gone[*host]);
            let due = due.filter_map(|host| {
                let linger = self.closed[host].map(|at| at + LINGER);
                let at = self.world.engines[host].next_timeout();
                [linger, at].into_iter().flatten().min()
            });
            let soon = self.world.now + Duration::from_micros(10);
            let next = due.min().map(|at| at.max(soon));
            let next = [arrival, next].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next < until) else {
                self.world.now = until;
                return;
            };
            self.world.now = next;
            while let Some(entry) = self.queue.first_entry()
                && entry.key().0 <= next
            {
                let packet = entry.remove();
                self.deliver(&packet);
            }
        }
    }

    /// Returns how long each `close` took.
    fn took(&self) -> [Option<Duration>; 2] {
        [0, 1].map(|host| Some(self.closed[host]?.since(self.began[host]?)))
    }

    /// Checks that no `close` took long, and that outcomes are true of what arrived.
    fn check(&self, case: &str) {
        let took = self.took();
        let in_time = |took: &Option<Duration>| took.is_some_and(|took| took <= BOUND);
        assert!(took.iter().all(in_time), "{case}: {took:?}");
        for host in 0..2 {
            let ends = self.told[host].iter().filter_map(|event| match event {
                Event::Ended { outcomes, .. } => Some(outcomes),
                _ => None,
            });
            let outcomes: Vec<_> = ends.flatten().map(|message| message.outcome).collect();
            let count = |which| outcomes.iter().filter(|it| **it == which).count();
            let sent = self.accepted[host];
            let delivered = sent - count(Outcome::Unknown) - count(Outcome::NotDelivered);
            let perhaps = delivered + count(Outcome::Unknown);
            let received = self.received[1 - host];
            let right = (delivered..=perhaps).contains(&received);
            assert!(right, "{case}: {received} of {sent} received, {outcomes:?}");
        }
    }
}

/// Times between the two closes, in microseconds: from none until the other host has heard the
/// first close.
const APART: [u32; 8] = [0, 500, 1_000, 1_500, 2_000, 3_000, 4_500, 7_000];

/// Closes both hosts, `apart` microseconds from each other, with `messages` messages of each under
/// way.
fn both(apart: u32, messages: usize, prepare: impl FnOnce(&mut Ending)) -> Ending {
    static PAYLOAD: [u8; 3_000] = [7; 3_000];
    let mut ending = Ending::new(connected());
    prepare(&mut ending);
    for host in 0..2 {
        for _ in 0..messages {
            ending.send(host, &PAYLOAD);
        }
    }
    ending.close(0);
    ending.run_until(ending.world.now + Duration::from_micros(apart.into()));
    ending.close(1);
    ending.run_until(ending.world.now + PATIENCE + SECOND);
    ending
}

/// Gives each packet of either host since the first close a fault in run_cycle.
fn check_each(messages: usize, faults: &[Fault]) {
    for apart in APART {
        let plain = both(apart, messages, |_| {});
        for (from, sent) in plain.sent.into_iter().enumerate() {
            for (nth, &fault) in (0..sent).flat_map(|nth| faults.iter().map(move |f| (nth, f))) {
                let fails = |ending: &mut Ending| ending.fault = Some((from, nth, fault));
                let ending = both(apart, messages, fails);
                let case = format!(
                    "{messages} messages, {apart} us apart, packet {nth} of {from} {fault:?}"
                );
                ending.check(&case);
            }
        }
    }
}

#[test]
fn f20_both_close_and_one_packet_is_lost_late_or_doubled() {
    for messages in [0, 1, 4] {
        check_each(messages, &[Fault::Burst(0), Fault::Late, Fault::Doubled]);
    }
}

/// The lost packets may include all answers to CLOSE that its receiver gives while it lingers.
#[test]
fn f20_both_sides_close_and_consecutive_packets_are_lost() {
    for messages in [0, 1, 4] {
        check_each(messages, &[Fault::Burst(1), Fault::Burst(2)]);
    }
}

/// Only a report shows that the peer is gone: its port is closed. Whether the peer's machine or
/// this one makes the report, no packet can still arrive.
#[test]
fn f20_a_close_ends_when_the_port_of_the_peer_is_closed() {
    for (apart, messages, mute) in APART
        .into_iter()
        .flat_map(|apart| [0, 1, 4].map(|messages| (apart, messages)))
        .flat_map(|(apart, messages)| [0, 1].map(|mute| (apart, messages, mute)))
    {
        for local in [true, false] {
            let ending = both(apart, messages, |ending| {
                ending.mute = Some(mute);
                ending.reports = Some(local);
            });
            let case = format!("{messages} messages, {apart} us apart, {mute} mute, local {local}");
            ending.check(&case);
        }
    }
}

/// Both hosts gave the other's slot away, and have no connection: each connects again to send its
/// CLOSE.
#[test]
fn f20_both_close_without_a_connection() {
    for apart in APART {
        for messages in [0, 1] {
            let ending = both(apart, messages, |ending| {
                let now = ending.world.now;
                for (host, engine) in ending.world.engines.iter_mut().enumerate() {
                    let key = engine.peer_key(id(1 - host)).unwrap();
                    let peer = engine.peers.get_mut(key).unwrap();
                    peer.give_up_slot(now, &mut engine.shared);
                }
            });
            ending.check(&format!("{messages} messages, {apart} us apart"));
        }
    }
}

/// One host sends a request and closes its node. The other answers, and answers once more just
/// before it closes `apart` microseconds later.
fn asked(apart: u32) -> Ending {
    let mut ending = Ending::new(connected());
    ending.answers = true;
    for _ in 0..3 {
        ending.send(0, b"question");
    }
    ending.close(0);
    ending.run_until(ending.world.now + Duration::from_micros(apart.into()));
    ending.answers = false;
    ending.send(1, b"late");
    ending.close(1);
    ending.run_until(ending.world.now + PATIENCE + SECOND);
    ending
}

/// An answer that would begin a session is useless: the process that asked is closing.
#[test]
fn f20_a_close_does_not_wait_for_answers_to_a_node_that_closed() {
    for apart in APART.into_iter().chain([50_000, 1_000_000]) {
        let ending = asked(apart);
        let case = format!("{apart} us apart");
        ending.check(&case);
        let last = ending.told[1].iter().rev().find_map(|event| match event {
            Event::Ended { outcomes, .. } => outcomes.last().map(|last| last.outcome),
            _ => None,
        });
        let expected = match apart {
            0..1_500 => None,
            // The answer was sent before CLOSE came.
            1_500..4_000 => Some(Outcome::Unknown),
            _ => Some(Outcome::NotDelivered),
        };
        assert_eq!(last, expected, "{case}");
    }
}
