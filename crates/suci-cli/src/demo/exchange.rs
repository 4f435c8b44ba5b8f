//! Messages from all to all, each byte checked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use suci::{ChannelId, Error, Message, NodeId, OutgoingMessage};

use super::{Cluster, PATIENCE};
use crate::error::{Failure, Result, print};

/// Tag of a checked message, and of the meeting after them.
const CHECKED: u64 = 1;
const MET: u64 = 2;

/// Channels that messages are spread over.
const CHANNELS: u32 = 4;

/// Mostly small, now and then more than a packet, rarely more than the receiver takes without its
/// program's consent.
const LENGTHS: [usize; 8] = [0, 1, 32, 64, 300, 1500, 20_000, 400_000];

/// Sends `count` messages to every other node, and checks as many from each.
pub(super) fn run(cluster: &mut Cluster, count: u64) -> Result<()> {
    let own = cluster.node.id();
    let peers = cluster.peers.clone();
    let begun = Instant::now();
    let left = count.saturating_mul(u64::try_from(peers.len()).unwrap_or(u64::MAX));
    let next = BTreeMap::new();
    let mut exchange = Exchange {
        cluster,
        end: begun + PATIENCE,
        next,
        left,
        early: 0,
        bytes: 0,
    };
    for number in 0..count {
        for &peer in &peers {
            exchange.send(peer, number)?;
        }
        exchange.take_all()?;
    }
    while exchange.left > 0 {
        exchange.cluster.wait(exchange.end)?;
        exchange.take_all()?;
    }
    let Exchange { bytes, early, .. } = exchange;
    let seconds = begun.elapsed().as_secs_f64();
    let (mib, others) = (bytes >> 20, peers.len());
    print(format_args!(
        "node {own}: {left} messages ({mib} MiB) from {others} others arrived, \
         each byte and their order checked, {seconds:.2} s"
    ))?;
    cluster.meet(MET, early)
}

struct Exchange<'a> {
    cluster: &'a mut Cluster,
    end: Instant,
    /// The number of the next message by sender and channel.
    next: BTreeMap<(NodeId, ChannelId), u64>,
    /// Messages still to come.
    left: u64,
    /// Peers that are through already.
    early: usize,
    bytes: usize,
}

impl Exchange<'_> {
    /// Sends one message; while there is no room, it receives.
    fn send(&mut self, peer: NodeId, number: u64) -> Result<()> {
        let content = content(self.cluster.node.id(), peer, number);
        let mut draft = OutgoingMessage::new(content)
            .channel(channel(number))
            .tag(CHECKED);
        loop {
            match self.cluster.node.send(peer, draft) {
                Err(Error::WouldBlock { message, .. }) => draft = *message,
                done => return Ok(done.map(drop)?),
            }
            self.take_all()?;
            // Room does not wake a poll: look often.
            self.cluster.node.poll(Duration::from_millis(1))?;
            if Instant::now() >= self.end {
                return Err(Failure::new(format!(
                    "node {peer} took nothing for {PATIENCE:?}"
                )));
            }
        }
    }

    fn take_all(&mut self) -> Result<()> {
        while let Some(message) = self.cluster.node.try_recv()? {
            if message.tag == MET {
                self.early += 1;
            } else {
                self.check(&message)?;
            }
        }
        Ok(())
    }

    /// Checks that the next message of a channel is exactly the one that was due.
    fn check(&mut self, message: &Message) -> Result<()> {
        let Message {
            from,
            channel,
            payload,
            ..
        } = message;
        let due = self
            .next
            .entry((*from, *channel))
            .or_insert(u64::from(channel.0));
        let number = *due;
        *due = due.saturating_add(u64::from(CHANNELS));
        if message.tag != CHECKED || *payload != content(*from, self.cluster.node.id(), number) {
            let text = format!("message {number} from node {from} is not what was sent: a bug");
            return Err(Failure::new(text));
        }
        self.left = self.left.saturating_sub(1);
        self.bytes = self.bytes.saturating_add(payload.len());
        Ok(())
    }
}

fn channel(number: u64) -> ChannelId {
    ChannelId(u32::try_from(number % u64::from(CHANNELS)).unwrap_or(0))
}

/// Returns the content of message `number` from one node to another: a pure function, so that both
/// know it.
fn content(from: NodeId, to: NodeId, number: u64) -> Vec<u8> {
    let seed = u64::from(from.0) << 40 ^ u64::from(to.0) << 20 ^ number;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let kinds = u64::try_from(LENGTHS.len()).unwrap_or(1);
    let kind = usize::try_from((state >> 32) % kinds).unwrap_or(0);
    let length = LENGTHS.get(kind).copied().unwrap_or(0);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
