//! Takes packets out of the socket and hands them to the engine.

use super::{Context, Process};
use crate::invariants;
use crate::oracle::Violation;
use crate::packet::Packet;
use crate::tap;
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::NodeId;
use suci_proto::{Arrival, Engine, LinkState};

/// Datagrams that a kernel joins at most.
const JOINED: usize = 64;

/// Parts per million of trains after which a process is interrupted, and how long at most.
const INTERRUPTED: u32 = 20_000;
const LONGEST_INTERRUPT: Duration = Duration::from_millis(1);

impl Process {
    pub(super) fn drain_socket(&mut self, cx: &mut Context<'_>) -> Result<usize, Violation> {
        let mut count = 0;
        while let Some((mut at, packet)) = self.socket.take(cx.now) {
            let mut train = vec![packet];
            // A kernel joins packets that come at about the same time. Here it may be any time, so
            // the last arrival counts: the others waited for it.
            while self.joins_next(cx.sealed, &train)
                && let Some((last, packet)) = self.socket.take(cx.now)
            {
                train.push(packet);
                at = last;
            }
            count += train.len();
            self.hand(cx, at, &train)?;
            if cx.interrupts && cx.rng.chance(INTERRUPTED) {
                cx.tally.interrupts += 1;
                cx.now += Duration::from_nanos(cx.rng.range(0, nanos(LONGEST_INTERRUPT)));
            }
            self.stop_now_and_then(cx);
        }
        Ok(count)
    }

    /// Returns true if the kernel hands up the next packet together with those of `train`. For half
    /// of the processes it joins none, and packets that the oracle judges one by one stay alone.
    fn joins_next(&self, sealed: bool, train: &[Packet]) -> bool {
        let ([first, ..], Some(last), Some(next)) = (train, train.last(), self.socket.peek())
        else {
            return false;
        };
        let same = (next.from, next.ecn) == (first.from, first.ecn);
        let fits = last.bytes.len() == first.bytes.len() && next.bytes.len() <= first.bytes.len();
        // A sealed packet that was damaged counts as one that the engine has no use for.
        let alone = |packet: &Packet| self.is_repeated(packet) || sealed && packet.fate.damaged;
        let copy = train.iter().any(|packet| packet.order == next.order);
        let joins = self.id.is_multiple_of(2) && !self.insider && train.len() < JOINED;
        joins && same && fits && !copy && !alone(first) && !alone(next)
    }

    /// Returns true if the engine took this packet before.
    fn is_repeated(&self, packet: &Packet) -> bool {
        is_data(packet) && self.handed.contains(&packet.order)
    }

    /// Returns true if a session with the node is open.
    fn is_up(&self, node: Option<NodeId>) -> bool {
        let stats = node.and_then(|node| self.engine.peer_stats(node));
        stats.is_some_and(|stats| stats.link == LinkState::Up)
    }

    /// Hands packets that came together to the engine.
    pub(super) fn hand(
        &mut self,
        cx: &mut Context<'_>,
        at: Instant,
        train: &[Packet],
    ) -> Result<(), Violation> {
        let Some(first) = train.first() else {
            return Ok(());
        };
        for packet in train {
            // A damaged or invented packet carries no messages; a repeated packet carries the same
            // as the first.
            cx.oracle.handed(self.id, &packet.carries);
            if !packet.fate.damaged && !packet.fate.hostile {
                self.heard.entry(packet.sender).or_insert(cx.now);
            }
        }
        // An attacker's packet with the address of another node comes together with that node's.
        let honest = train.iter().find(|packet| !packet.fate.hostile);
        let sender = cx.nodes.get(honest.unwrap_or(first).source);
        let sender = sender.copied().map(NodeId);
        self.touched.extend(sender);
        let arrival = Arrival {
            to: None,
            from: first.from,
            ecn: first.ecn,
            at,
        };
        let again = self.is_repeated(first);
        // Data on an INIT is taken if that opens the session, and comes again otherwise.
        let opens = is_init(first) && !self.is_up(sender);
        let before = invariants::refused(&self.engine, cx.sealed);
        let session = |engine: &Engine| sender.and_then(|node| engine.session(node));
        let present = session(&self.engine);
        let mut bytes: Vec<u8> = train.iter().flat_map(|p| p.bytes.iter().copied()).collect();
        self.engine
            .handle_train(cx.now, &arrival, first.bytes.len(), &mut bytes);
        // Data belongs to the present session, unless the packet before it begins the next one.
        let after = session(&self.engine);
        let session = if is_data(first) { present } else { after };
        let (session, surely) = (session.unwrap_or_default(), session == after);
        if again {
            let refused = invariants::refused(&self.engine, cx.sealed);
            invariants::repeated(refused > before, first.order)?;
        } else if invariants::refused(&self.engine, cx.sealed) == before {
            for packet in train.iter().filter(|packet| is_data(packet)) {
                self.handed.insert(packet.order);
                cx.oracle.taken(self.id, &packet.carries, session, surely);
            }
            if opens && self.is_up(sender) {
                cx.oracle.taken(self.id, &first.carries, session, surely);
            }
            if self.insider && is_data(first) {
                self.contradict(cx, &arrival, first);
            }
        }
        Ok(())
    }

    /// A peer that breaks the protocol: bytes that arrived are sent again as others, in a packet of
    /// its own that the real peer never sent. The first bytes must win (F07); the session ends as
    /// soon as the acknowledgement of that packet reaches the real peer (F05).
    fn contradict(&mut self, cx: &mut Context<'_>, arrival: &Arrival, packet: &Packet) {
        const AHEAD: u64 = 4_000;
        // A liar would need the keys of the connection.
        if cx.sealed || !cx.oracle.is_part(&packet.carries) {
            return;
        }
        let head = tap::head(&packet.bytes).filter(|head| head.number < u64::MAX - AHEAD);
        let Some(head) = head else { return };
        let mut body = packet.bytes.slice(tap::HEADER..).to_vec();
        let Some(last) = body.last_mut() else { return };
        *last = !*last;
        let mut bytes = tap::forge(
            tap::Head {
                number: head.number + AHEAD,
                ..head
            },
            &body,
        );
        cx.tally.hostile += 1;
        self.insider = false;
        cx.trace
            .note(cx.now, 11, format_args!("process {} is lied to", self.id));
        self.engine.handle_datagram(cx.now, arrival, &mut bytes);
    }
}

/// Returns true if it opens a connection, as it was sent.
fn is_init(packet: &Packet) -> bool {
    packet.bytes.first() == Some(&tap::INIT) && !packet.fate.damaged
}

/// Returns true if it is a packet of a connection, as it was sent.
fn is_data(packet: &Packet) -> bool {
    packet.bytes.first() == Some(&tap::DATA) && !packet.fate.damaged
}
