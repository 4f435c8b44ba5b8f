//! Suci itself.

use std::time::Duration;

use suci::{Bytes, Error, Event, Message, Node, NodeId, OutgoingMessage, WaitPolicy, WaitReason};

use super::control::{PATIENCE, Waited, check_servers};
use super::wire::{Mark, Received, Wire, touch};
use crate::args::Waiting;
use crate::error::{Failure, Result};
use crate::node;

/// How long one look for messages lasts, before it is seen whether the other side is still there.
const LOOK: Duration = Duration::from_millis(100);

/// This many looks take [`PATIENCE`].
const LOOKS: u32 = 300;

const _: () = assert!(LOOK.as_millis() * LOOKS as u128 == PATIENCE.as_millis());

/// Returns the library's way of waiting.
pub(super) fn wait(wait: Waiting) -> WaitPolicy {
    match wait {
        Waiting::Adaptive => WaitPolicy::Adaptive,
        Waiting::Sleep => WaitPolicy::Sleep,
        Waiting::Spin => WaitPolicy::Spin(PATIENCE),
    }
}

/// Payloads up to this many bytes the library copies in any case.
const COPIED: usize = 256;

/// Messages taken at once.
const MANY: usize = 256;

/// A node and one of its peers.
pub(super) struct Suci<'a> {
    node: &'a mut Node,
    peer: NodeId,
    /// Messages just taken, not read yet.
    taken: Vec<Message>,
}

/// Builds a data message: the payload, with the number of the mark as its tag.
fn draft(payload: &Bytes, mark: Mark) -> OutgoingMessage {
    OutgoingMessage::new(payload.clone()).tag(u64::from(mark.number()))
}

/// Sends, waiting for room.
pub(super) fn send(node: &mut Node, peer: NodeId, payload: &Bytes, mark: Mark) -> Result<()> {
    match node.send_timeout(peer, draft(payload, mark), LOOK) {
        Ok(_) => Ok(()),
        Err(Error::WouldBlock { message, .. }) => send_late(node, peer, *message),
        Err(error) => Err(error.into()),
    }
}

/// Sends a message for which there was no room at first. It is apart from the function above,
/// because that one is measured.
#[cold]
fn send_late(node: &mut Node, peer: NodeId, mut draft: OutgoingMessage) -> Result<()> {
    for _ in 0..LOOKS {
        check_servers()?;
        match node.send_timeout(peer, draft, LOOK) {
            Ok(_) => return Ok(()),
            Err(Error::WouldBlock { message, .. }) => draft = *message,
            Err(error) => return Err(error.into()),
        }
    }
    Err(silent(node, peer))
}

/// Sends one payload to all, waiting for room where there is none.
pub(super) fn send_to_all(
    node: &mut Node,
    peers: &[NodeId],
    payload: &Bytes,
    mark: Mark,
) -> Result<()> {
    for (peer, sent) in node.broadcast(peers, draft(payload, mark))? {
        match sent {
            Ok(_) => {}
            Err(Error::WouldBlock { .. }) => send(node, peer, payload, mark)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the next message of any peer, with its sender; nothing if none came for a while.
fn recv(node: &mut Node) -> Result<Option<(NodeId, Received)>> {
    match node.recv_timeout(LOOK)? {
        Some(message) => read(message).map(Some),
        None => check_servers().map(|()| None),
    }
}

/// Returns the next message of any peer, and fails if `whom` stays silent. A peer that continues to
/// acknowledge is not silent: it may answer only after it received everything.
pub(super) fn await_any(node: &mut Node, whom: NodeId) -> Result<(NodeId, Received)> {
    let (mut looks, mut unacknowledged) = (0, unacknowledged(node, whom)?);
    while looks < LOOKS {
        if let Some(received) = recv(node)? {
            return Ok(received);
        }
        let before = std::mem::replace(&mut unacknowledged, self::unacknowledged(node, whom)?);
        looks = if before == unacknowledged {
            looks + 1
        } else {
            0
        };
    }
    Err(silent(node, whom))
}

/// Returns the unacknowledged messages and bytes for a peer. They are zero for a peer that is
/// unknown before it calls.
fn unacknowledged(node: &Node, peer: NodeId) -> Result<(u64, u64)> {
    match node.peer(peer).queue_len() {
        Err(Error::UnknownPeer(_)) => Ok((0, 0)),
        length => Ok(length?),
    }
}

/// Reads a message as a program would, and returns its properties.
fn read(message: Message) -> Result<(NodeId, Received)> {
    let mark = u8::try_from(message.tag).ok().and_then(Mark::of);
    let mark = mark.ok_or_else(|| {
        Failure::new(format!(
            "node {} sent what suci perf does not: use the same release",
            message.from
        ))
    })?;
    touch(&message.payload);
    let length = message.payload.len();
    Ok((message.from, Received { mark, length }))
}

/// Returns the packets handed to the network so far.
pub(super) fn packets(node: &Node) -> Result<u64> {
    Ok(node.counters()?.packets_out)
}

/// Returns how long messages to `peers` waited so far.
pub(super) fn waits(node: &Node, peers: &[NodeId]) -> Result<Waited> {
    let mut sum = Waited::default();
    for &peer in peers {
        let stats = node.peer(peer).stats()?;
        let waits = stats.map(|stats| stats.waits).unwrap_or_default();
        for (total, reason) in sum.iter_mut().zip(WaitReason::ALL) {
            *total = total.saturating_add(waits.get(reason).nanos);
        }
    }
    Ok(sum)
}

/// Returns the reason why nothing moves.
fn silent(node: &mut Node, peer: NodeId) -> Failure {
    let events = match node.events() {
        Ok(events) => events,
        Err(error) => return error.into(),
    };
    let why = events.into_iter().find_map(|event| match event {
        Event::Ended { reason, .. } => Some(node::ended(reason)),
        Event::Refused { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    let why = why.unwrap_or_else(|| "check the firewall for UDP".to_owned());
    let known = known(node, peer);
    Failure::new(format!(
        "node {peer} was silent for {PATIENCE:?}: {why} ({known})"
    ))
}

/// Returns the state of a silent peer, as the node knows it, for the error message.
fn known(node: &Node, peer: NodeId) -> String {
    let stats = match node.peer(peer).stats() {
        Ok(Some(stats)) => stats,
        Ok(None) => return "it has never called".to_owned(),
        Err(error) => return error.to_string(),
    };
    let (traffic, link) = (stats.traffic, format!("{:?}", stats.link).to_lowercase());
    let waiting = stats.waiting.map_or("nothing", WaitReason::name);
    format!(
        "the session is {link}; {} packets went and {} came, {} were lost, {} probes; {} messages \
         are queued and wait for {waiting}; {} B of {} are in flight; round trip {:?}",
        traffic.packets_sent,
        traffic.packets_received,
        traffic.packets_lost,
        traffic.probes,
        stats.queued_messages,
        stats.in_flight,
        stats.congestion_window,
        stats.rtt
    )
}

impl<'a> Suci<'a> {
    pub(super) fn new(node: &'a mut Node, peer: NodeId) -> Self {
        let taken = Vec::with_capacity(MANY);
        Self { node, peer, taken }
    }
}

/// Sends messages to their peers as one batch, or as several when there is no room.
pub(super) fn send_together<'p>(
    node: &mut Node,
    mut all: impl Iterator<Item = (NodeId, &'p Bytes, Mark)>,
) -> Result<()> {
    loop {
        let fill = |batch: &mut suci::Batch<'_>| {
            all.find(|&(peer, payload, mark)| {
                let accepted = match mark {
                    Mark::Data if payload.len() <= COPIED => batch.send_copy(peer, payload),
                    _ => batch.send(peer, draft(payload, mark)),
                };
                accepted.is_err()
            })
        };
        match node.batch(fill)? {
            // Full, or something worse that this will name.
            Some((peer, refused, mark)) => send(node, peer, refused, mark)?,
            None => return Ok(()),
        }
    }
}

impl Wire for Suci<'_> {
    fn send(&mut self, payload: &Bytes, mark: Mark) -> Result<()> {
        send(self.node, self.peer, payload, mark)
    }

    fn send_together<'p>(&mut self, all: impl Iterator<Item = (&'p Bytes, Mark)>) -> Result<()> {
        let peer = self.peer;
        send_together(self.node, all.map(|(payload, mark)| (peer, payload, mark)))
    }

    fn recv(&mut self) -> Result<Option<Received>> {
        Ok(recv(self.node)?.map(|(_, received)| received))
    }

    fn recv_many(&mut self, received: &mut Vec<Received>) -> Result<()> {
        self.node.recv_many(&mut self.taken, MANY, LOOK)?;
        for message in self.taken.drain(..) {
            received.push(read(message)?.1);
        }
        Ok(())
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        let message = self.node.try_recv()?.map(read).transpose()?;
        Ok(message.map(|(_, received)| received))
    }

    fn unacknowledged(&mut self) -> Result<(u64, u64)> {
        unacknowledged(self.node, self.peer)
    }

    fn silent(&mut self) -> Failure {
        silent(self.node, self.peer)
    }

    fn packets(&mut self) -> Result<u64> {
        packets(self.node)
    }

    fn waits(&mut self) -> Result<Waited> {
        waits(self.node, &[self.peer])
    }
}
