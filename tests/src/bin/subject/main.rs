//! The program under test: a node whose environment is that of `suci run`, driven by lines on its
//! standard input, telling what happens by lines on its standard output.
//!
//! Settings, as arguments: `silence=MS`, `give_up=MS`, `memory=BYTES`, `send_buffer=BYTES`, `gso=off`,
//! `gro=off`, `unattended`, `faults=SPEC`.
//!
//! Commands:
//! * `load TO WINDOW SIZE`: keeps that many messages of that size outstanding, from now on;
//! * `send TO COUNT SIZE`: sends so many, as the library takes them;
//! * `rest TO`: accepts nothing more for this peer;
//! * `compute MS`: the program computes, and calls nothing;
//! * `fork`: forks a child that tries to use the node;
//! * `stat`: tells all numbers;
//! * `close`, or the end of the input: closes, and ends successfully if everything arrived.
//!
//! It checks what it is promised as it goes: every message that arrives has the right bytes and the
//! right place, and every message that it sent gets exactly one outcome. Anything else is a panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program: whatever goes wrong must be seen"
)]

mod traffic;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use suci::{Error, Event, Node, NodeBuilder, NodeId};

use traffic::{Inflow, Outflow};

/// Longest wait for messages and events before commands are looked at again.
const TURN: Duration = Duration::from_millis(10);

/// Messages taken before commands are looked at again.
const TURN_MESSAGES: usize = 1_000;

/// How long closing may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    let builder = std::env::args().skip(1).fold(Node::builder(), setting);
    let node = builder.plain_on_network().open().expect("a node");
    println!("ready");
    let (said, commands) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if said.send(line).is_err() {
                break;
            }
        }
    });
    let mut subject = Subject {
        node,
        out: BTreeMap::new(),
        incoming: BTreeMap::new(),
    };
    while subject.obey(&commands) {
        subject.offer();
        subject.node.poll(TURN).expect("poll");
        subject.take();
    }
    subject.close();
}

fn setting(builder: NodeBuilder, argument: String) -> NodeBuilder {
    let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
    let number = || value.parse::<u64>().expect("a number");
    let time = || Duration::from_millis(number());
    match name {
        "silence" => builder.silence_timeout(time()),
        "give_up" => builder.give_up_after(time()),
        "memory" => builder.memory(number()).max_message(number() / 2),
        "send_buffer" => {
            let bytes = usize::try_from(number()).expect("a size");
            builder.udp(|options| options.send_buffer = bytes)
        }
        "gso" => builder.udp(|options| options.gso = value != "off"),
        "gro" => builder.udp(|options| options.gro = value != "off"),
        "unattended" => builder.unattended(),
        "faults" => builder.faults(value.parse().expect("a fault specification")),
        _ => panic!("unknown setting {argument}"),
    }
}

struct Subject {
    node: Node,
    out: BTreeMap<NodeId, Outflow>,
    incoming: BTreeMap<NodeId, Inflow>,
}

impl Subject {
    /// Does what was commanded meanwhile. False when it is time to close.
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
                "rest" => self.flow(node(1)).rest(),
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

    /// Hands the library what it takes.
    fn offer(&mut self) {
        let Self { node, out, .. } = self;
        node.batch(|batch| {
            for (&to, flow) in out {
                while let Some(draft) = flow.next() {
                    match batch.send(to, draft) {
                        Ok(_) => flow.accepted(),
                        Err(Error::WouldBlock { .. }) => break,
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
            self.incoming
                .entry(message.from)
                .or_default()
                .take(&message);
        }
        for event in self.node.events().expect("events") {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Delivered { node, token, .. } => self.flow(node).delivered(token),
            Event::Up { node } => println!("event up {node}"),
            Event::Lost { node } => println!("event lost {node}"),
            Event::Ended {
                node,
                reason,
                outcomes,
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

    /// A child of a fork must find the node unusable, at once, and harm nobody.
    fn fork(&mut self) {
        // SAFETY: the child calls the node, which must answer with an error before it touches anything,
        // and leaves by _exit.
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
                .map(|node| (node.to_string(), number(node)))
                .collect()
        };
        let out = |node| self.out.get(&node);
        let incoming = |node| self.incoming.get(&node);
        let counters = self.node.counters().expect("counters");
        let socket = self.node.socket_counters().expect("socket counters");
        let stats = |node| self.node.peer_stats(node).expect("peer_stats");
        serde_json::json!({
            "accepted": by_node(&|node| out(node).map_or(0, Outflow::total_accepted)),
            "delivered": by_node(&|node| out(node).map_or(0, Outflow::total_delivered)),
            "received": by_node(&|node| incoming(node).map_or(0, |from| from.messages)),
            "bytes": by_node(&|node| incoming(node).map_or(0, |from| from.bytes)),
            "mtu": by_node(&|node| stats(node).map_or(0, |stats| stats.mtu as u64)),
            "malformed": counters.malformed,
            "wrong_version": counters.wrong_version,
            "bad_checksum": counters.bad_checksum,
            "unknown_connection": counters.unknown_connection,
            "packets_lost": counters.packets_lost,
            "protocol_errors": counters.protocol_errors,
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

    /// What had arrived before the close is still there.
    fn take_rest(&mut self) {
        while let Ok(Some(message)) = self.node.try_recv() {
            self.incoming
                .entry(message.from)
                .or_default()
                .take(&message);
        }
    }
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
