//! Helpers that the tests of this program share.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod base;
#[path = "../common/pairs.rs"]
mod pairs;

pub(crate) use base::{LONG, builder, take};
pub(crate) use pairs::{introduce, pair};

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use suci::{Error, Event, Message, Node, NodeId, Peer, PeerOptions, SharedNode};

/// Nodes 0 and 1, served by threads and known to each other.
pub(crate) fn shared_pair() -> (SharedNode, SharedNode) {
    let (a, b) = (
        builder(0).open_threads(1).unwrap(),
        builder(1).open_threads(1).unwrap(),
    );
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    (a, b)
}

/// Takes `count` messages of `from` by a `recv_many`, never more than asked for at once: the first
/// of a channel, each with its number as its bytes, after which none is left.
pub(crate) fn take_many(
    from: NodeId,
    count: u32,
    mut recv_many: impl FnMut(&mut Vec<Message>, usize, Duration) -> Result<usize, Error>,
) -> Vec<Message> {
    let mut messages = Vec::new();
    assert_eq!(recv_many(&mut messages, 0, LONG).unwrap(), 0);
    while messages.len() < count as usize {
        let before = messages.len();
        let taken = recv_many(&mut messages, 300, LONG).unwrap();
        assert!((1..=300).contains(&taken), "{taken}");
        assert_eq!(messages.len(), before + taken);
    }
    for (number, message) in (0..count).zip(&messages) {
        assert_eq!(&message.payload[..], number.to_le_bytes());
        assert_eq!((message.from, message.number), (from, number.into()));
    }
    assert_eq!(recv_many(&mut messages, 9, Duration::ZERO).unwrap(), 0);
    messages
}

/// The first event that is `wanted`, which must come; those before it are passed over.
pub(crate) fn await_event(node: &mut Node, wanted: impl Fn(&Event) -> bool) -> Event {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        while let Some(event) = node.next_event().unwrap() {
            if wanted(&event) {
                return event;
            }
        }
        node.poll(Duration::from_millis(10)).unwrap();
    }
    panic!("no such event");
}

/// Carries packets between two nodes until it is dropped.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<UdpSocket>>,
}

impl Relay {
    /// Makes two nodes known to each other as if both were at the relay's address.
    pub(crate) fn introduce(a: &mut Node, b: &mut Node) -> Self {
        let (relay, at) = Self::between([a.local_addr(), b.local_addr()]);
        a.add_peer(b.id(), at).unwrap();
        b.add_peer(a.id(), at).unwrap();
        relay
    }

    /// Returns a relay between two addresses, and its own address.
    pub(crate) fn between(ends: [SocketAddr; 2]) -> (Self, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wait = Some(Duration::from_millis(10));
        socket.set_read_timeout(wait).unwrap();
        let at = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut packet = [0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut packet) {
                    let to = if from == ends[0] { ends[1] } else { ends[0] };
                    // A packet that the socket does not take is lost, as on any network.
                    let _ = socket.send_to(&packet[..len], to);
                }
            }
            socket
        });
        let thread = Some(thread);
        (Self { stop, thread }, at)
    }

    /// Carries nothing more. Its port stays bound for as long as the socket is kept; otherwise the
    /// system would report that the port is closed.
    pub(crate) fn silence(mut self) -> UdpSocket {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Changes one thing that a program decides about a peer.
pub(crate) fn set_option(
    peer: Peer<'_>,
    change: impl FnOnce(&mut PeerOptions),
) -> Result<(), Error> {
    let mut options = peer.options()?;
    change(&mut options);
    peer.set_options(options)
}
