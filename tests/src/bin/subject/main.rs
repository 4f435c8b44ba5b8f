//! The program under test: a node whose environment is that of `suci run`. It is driven by lines on
//! its standard input, and reports events by lines on its standard output.
//!
//! Settings, as arguments: `silence=MS`, `give_up=MS`, `memory=BYTES`, `send_buffer=BYTES`,
//! `gso=off`, `gro=off`, `unattended`, `prefer=throughput|response`, `controller=lan|cubic`,
//! `backend=udp|af_packet|af_xdp|ethernet`, `faults=SPEC`, `forward`, `listen=ADDRESS`; `every=MS`:
//! looks at its node so often and not in between; `threads`: a `SharedNode` that only receives, and
//! knows `stat` and `close`; `plant=NAME`: with a planted fault, in builds that have them.
//!
//! Commands:
//! * `load TO WINDOW SIZE`: keeps that many messages of that size outstanding, from now on;
//! * `send TO COUNT SIZE`: sends so many, as the library takes them;
//! * `ping TO COUNT SIZE`: so many requests, each when the one before was answered (everybody
//!   answers);
//! * `class TO CLASS`: puts what goes there into that class of priority;
//! * `rest TO`: accepts nothing more for this peer;
//! * `suspend TO`, `resume TO`: suspends the session with this peer, resumes it;
//! * `compute MS`: the program computes, and calls nothing;
//! * `fork`: forks a child that tries to use the node;
//! * `stat`: tells all numbers;
//! * `close`, or the end of the input: closes, and ends successfully if everything arrived.
//!
//! It checks the promises as it goes: every message that arrives has the right bytes and the right
//! place, and every message that it sent gets exactly one outcome. Anything else is a panic.
#![expect(
    clippy::expect_used,
    reason = "a test program: whatever goes wrong must be seen"
)]

mod sink;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use suci::{
    ControllerChoice, Error, Event, Message, Mode, Node, NodeBuilder, NodeId, OutgoingMessage,
    PeerOptions, Priority,
};

use traffic::{Inflow, Outflow};

/// Longest wait for messages and events before commands are looked at again.
const TURN: Duration = Duration::from_millis(10);

/// Messages taken before commands are looked at again.
const TURN_MESSAGES: usize = 1_000;

/// Tags of requests and their answers. Other messages have none.
const REQUEST: u64 = 1;
const ANSWER: u64 = 2;

/// The longest time for closing.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    suci_tests::plant();
    let mut manner = Manner::Eager;
    let mut builder = Node::builder().allow_insecure_network();
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        match name {
            "every" => manner = Manner::Every(milliseconds(value)),
            "threads" => manner = Manner::Threads,
            #[cfg(suci_plant)]
            "plant" => assert!(suci::plant::select(value), "no such fault: {value}"),
            _ => builder = setting(builder, name, value),
        }
    }
    if manner == Manner::Threads {
        return sink::run(builder);
    }
    let node = builder.open().expect("a node");
    let commands = commands();
    let mut subject = Subject {
        node,
        out: BTreeMap::new(),
        incoming: BTreeMap::new(),
        turns: 0,
        held: BTreeSet::new(),
    };
    while subject.obey(&commands) {
        subject.offer();
        match manner {
            Manner::Every(time) => {
                std::thread::sleep(time);
                subject.node.poll(Duration::ZERO).expect("poll");
            }
            _ => drop(subject.node.poll(TURN).expect("poll")),
        }
        subject.take();
        subject.turns += 1;
    }
    subject.close();
}

/// The way in which the program looks after its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Whenever there is something.
    Eager,
    /// Looks at this interval, and not in between.
    Every(Duration),
    /// A thread of the library does.
    Threads,
}

/// Receives the lines of the standard input. Prints `ready` itself: there is a node.
fn commands() -> Receiver<String> {
    println!("ready");
    let (said, commands) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if said.send(line).is_err() {
                break;
            }
        }
    });
    commands
}

fn milliseconds(value: &str) -> Duration {
    Duration::from_millis(value.parse().expect("a number"))
}

fn setting(builder: NodeBuilder, name: &str, value: &str) -> NodeBuilder {
    let number = || value.parse::<u64>().expect("a number");
    match name {
        "silence" => builder.silence_timeout(milliseconds(value)),
        "give_up" => builder.give_up_after(milliseconds(value)),
        "memory" => builder.memory(number()).max_message(number() / 2),
        "send_buffer" => {
            let bytes = usize::try_from(number()).expect("a size");
            builder.udp(|options| options.send_buffer = bytes)
        }
        "gso" => builder.udp(|options| options.gso = value != "off"),
        "gro" => builder.udp(|options| options.gro = value != "off"),
        "unattended" => builder.unattended(),
        "prefer" if value == "throughput" => builder.mode(Mode::Throughput),
        "prefer" if value == "response" => builder.mode(Mode::Response),
        "controller" if value == "lan" => builder.controller(ControllerChoice::Lan),
        "controller" if value == "cubic" => builder.controller(ControllerChoice::Cubic),
        "forward" => builder.forward(true),
        "listen" => builder.listen(value.parse().expect("an address")),
        "backend" => builder.backend(value.parse().expect("a backend")),
        "faults" => builder.faults(value.parse().expect("a fault specification")),
        _ => panic!("unknown setting {name}"),
    }
}

struct Subject {
    node: Node,
    out: BTreeMap<NodeId, Outflow>,
    incoming: BTreeMap<NodeId, Inflow>,
    /// How often the program looked at its node.
    turns: u64,
    /// Peers to which writing is refused because of suspension, as was told.
    held: BTreeSet<NodeId>,
}

impl Subject {
    /// Does the commands that came meanwhile. Returns false when it is time to close.
    fn obey(&mut self, commands: &Receiver<String>) -> bool {
        loop {
            let line = match commands.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            let node = |at: usize| NodeId(words[at].parse().expect("a node"));
            match words[0] {
                "load" => self.flow(node(1)).load(number(2), number(3)),
                "send" => self.flow(node(1)).send(number(2), number(3)),
                "ping" => self.ping(node(1), number(2), number(3)),
                "class" => {
                    let class = u8::try_from(number(2)).expect("a class");
                    let priority = Priority::new(class, Priority::DEFAULT.weight());
                    let priority = priority.expect("a class");
                    let peer = self.node.peer(node(1));
                    let options = peer.options().expect("a peer");
                    let set = peer.set_options(PeerOptions {
                        priority,
                        ..options
                    });
                    set.expect("a peer");
                }
                "rest" => self.flow(node(1)).rest(),
                "suspend" => self.node.peer(node(1)).suspend().expect("suspend"),
                "resume" => self.node.peer(node(1)).resume().expect("resume"),
                "compute" => compute(Duration::from_millis(number(1))),
                "fork" => self.fork(),
                "stat" => println!("stat {}", self.stat()),
                "close" => return false,
                _ => panic!("unknown command {line}"),
            }
        }
    }

    fn flow(&mut self, to: NodeId) -> &mut Outflow {
        self.out.entry(to).or_default()
    }

    /// Hands the library as many messages as it takes.
    fn offer(&mut self) {
        let Self {
            node, out, held, ..
        } = self;
        node.batch(|batch| {
            for (&to, flow) in out {
                while let Some(draft) = flow.next() {
                    match batch.send(to, draft) {
                        Ok(_) => flow.accepted(),
                        Err(Error::WouldBlock { .. }) => break,
                        Err(Error::Suspended { to, by, .. }) => {
                            if held.insert(to) {
                                println!("event held {to} {by:?}");
                            }
                            break;
                        }
                        Err(error) => panic!("sending to {to}: {error}"),
                    }
                }
            }
        })
        .expect("batch");
    }

    /// Takes messages and events.
    fn take(&mut self) {
        for _ in 0..TURN_MESSAGES {
            let Some(message) = self.node.try_recv().expect("try_recv") else {
                break;
            };
            self.take_message(&message);
        }
        for event in self.node.events().expect("events") {
            self.on_event(event);
        }
    }

    fn take_message(&mut self, message: &Message) {
        let from = message.from;
        if message.tag == REQUEST {
            let answer = OutgoingMessage::new(message.payload.clone()).tag(ANSWER);
            self.node.send(from, answer).expect("room for an answer");
            return;
        }
        self.incoming.entry(from).or_default().take(message);
    }

    /// Asks and waits for the answer, again and again; tells median and 99th percentile in
    /// microseconds.
    fn ping(&mut self, to: NodeId, count: u64, size: u64) {
        let payload = suci::Bytes::from(vec![7; usize::try_from(size).expect("a size")]);
        let mut times = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            let request = OutgoingMessage::new(payload.clone()).tag(REQUEST);
            self.node.send(to, request).expect("room for a request");
            loop {
                let message = self.node.recv_timeout(PATIENCE).expect("recv");
                let message = message.expect("an answer in time");
                if message.tag == ANSWER {
                    break;
                }
                self.take_message(&message);
            }
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
        println!("event pinged {:.1} {:.1}", at(50), at(99));
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Delivered { node, token, .. } => self.flow(node).delivered(token),
            Event::Up { node, .. } => println!("event up {node}"),
            Event::Lost { node, cause } => println!("event lost {node} {cause:?}"),
            Event::Suspended { node, by } => println!("event suspended {node} {by:?}"),
            Event::Resumed { node, by } => {
                self.held.remove(&node);
                println!("event resumed {node} {by:?}");
            }
            Event::Ended {
                node,
                reason,
                outcomes,
                ..
            } => {
                let [delivered, not_delivered, unknown] = self.flow(node).ended(&outcomes);
                self.incoming.entry(node).or_default().session_ended();
                println!(
                    "event ended {node} {reason:?} delivered={delivered} \
                     not_delivered={not_delivered} unknown={unknown}"
                );
            }
            Event::Refused { node, reason } => println!("event refused {node} {reason:?}"),
            other => panic!("unexpected: {other:?}"),
        }
    }

    /// A child of a fork must find the node unusable, at once, and must not disturb the parent.
    fn fork(&mut self) {
        // SAFETY: the child calls the node, which must answer with an error before it touches
        // anything, and leaves by _exit.
        match unsafe { libc::fork() } {
            0 => {
                let refused = matches!(self.node.try_recv(), Err(Error::Forked))
                    && matches!(self.node.poll(TURN), Err(Error::Forked));
                // SAFETY: ends the child without running anything of its parent's.
                unsafe { libc::_exit(i32::from(!refused)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for our own child; the pointer is valid.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                println!("event forked {status}");
            }
        }
    }

    fn stat(&self) -> serde_json::Value {
        let by_node = |number: &dyn Fn(NodeId) -> u64| -> serde_json::Value {
            let peers = self.node.peers().expect("peers");
            peers
                .into_iter()
                .map(|peer| (peer.node.to_string(), number(peer.node)))
                .collect()
        };
        let out = |node| self.out.get(&node);
        let incoming = |node| self.incoming.get(&node);
        let counters = self.node.counters().expect("counters");
        let socket = self.node.socket_counters().expect("socket counters");
        let stats = |node| self.node.peer(node).stats().expect("peer_stats");
        serde_json::json!({
            "accepted": by_node(&|node| out(node).map_or(0, Outflow::total_accepted)),
            "delivered": by_node(&|node| out(node).map_or(0, Outflow::total_delivered)),
            "received": by_node(&|node| incoming(node).map_or(0, |from| from.messages)),
            "bytes": by_node(&|node| incoming(node).map_or(0, |from| from.bytes)),
            "mtu": by_node(&|node| stats(node).map_or(0, |stats| stats.mtu as u64)),
            "marks_stopped": by_node(&|node| {
                stats(node).map_or(0, |stats| stats.marks_stopped.into())
            }),
            "acks_sent": by_node(&|node| stats(node).map_or(0, |stats| stats.traffic.acks_sent)),
            "packets_received": by_node(&|node| {
                stats(node).map_or(0, |stats| stats.traffic.packets_received)
            }),
            "rtt_us": by_node(&|node| micros(stats(node).map(|stats| stats.rtt))),
            "min_rtt_us": by_node(&|node| micros(stats(node).map(|stats| stats.min_rtt))),
            "jain": self.node.share_stats().expect("share_stats")[0].jain,
            "turns": self.turns,
            "malformed": counters.malformed,
            "wrong_version": counters.wrong_version,
            "bad_checksum": counters.bad_checksum,
            "unknown_connection": counters.unknown_connection,
            "packets_lost": counters.packets_lost,
            "protocol_errors": counters.protocol_errors,
            "forwarded": counters.routes.forwarded,
            "route_no_credit": counters.routes.no_credit,
            "route_hop_limit": counters.routes.hop_limit,
            "route_not_allowed": counters.routes.not_allowed,
            "socket_full": counters.socket_full,
            "gaps": counters.gaps,
            "trains_sent": socket.trains_sent,
            "gso_refused": socket.gso_refused,
            "unreachable": socket.unreachable + socket.recv_errors,
            "recv_drops": socket.recv_drops,
        })
    }

    fn close(mut self) {
        let closed = self.node.close(PATIENCE);
        self.take_rest();
        closed.expect("everything arrives before the end");
    }

    /// Takes the messages that had arrived before the close.
    fn take_rest(&mut self) {
        while let Ok(Some(message)) = self.node.try_recv() {
            if message.tag != REQUEST {
                self.take_message(&message);
            }
        }
    }
}

fn micros(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    })
}

/// Keeps a core busy and calls nothing of the library.
fn compute(time: Duration) {
    let end = Instant::now() + time;
    let mut value = 1_u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            value = std::hint::black_box(value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
        }
    }
}
