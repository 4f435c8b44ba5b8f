//! REFUSED, sent and received: what each side tells its program.

use super::Engine;
use crate::event::{LostCause, RefusedReason};
use crate::handshake::{ArrivedPacket, Trust, packets};
use crate::log::{DropReason, LogRecord};
use crate::peer::Peer;
use suci_link::arrival::Arrival;
use suci_link::time::Instant;
use suci_link::types::NodeId;
use suci_link::wire::{self, HELLO_LEN, Init, PacketType, Reader, Refused, RefusedCode};

impl Engine {
    /// Handles a packet of another version. The parts of HELLO and REFUSED that this reads are
    /// alike in all versions. HELLO is answered by a shorter REFUSED, at a bounded rate: anybody
    /// may have sent it, from any address. Its sender knows the answer by the token of its attempt.
    pub(super) fn on_other_version(&mut self, now: Instant, arrival: &Arrival, datagram: &[u8]) {
        let Some((header, body)) = wire::open_other_version(datagram) else {
            return;
        };
        let packet = ArrivedPacket {
            now,
            arrival,
            header: &header,
            body,
            datagram,
        };
        if header.kind == PacketType::Refused {
            let refused = Refused::read(body);
            if refused.is_ok_and(|refused| refused.code == RefusedCode::Version) {
                self.on_refused(&packet);
            }
        } else if let Ok(target) = Reader::new(body).u32()
            && datagram.len() >= HELLO_LEN
            && self.may_hint(now)
        {
            let target = NodeId(target);
            self.send_refused(&packet, target, RefusedCode::Version, Trust::Stranger);
            if target == self.shared.identity.node {
                self.tell_mismatch(&packet, RefusedReason::Version);
            }
        }
    }

    /// Sends REFUSED under `asked`, the node ID that the caller asked for: by this ID the caller
    /// finds its attempt, even if it is not ours.
    pub(super) fn send_refused(
        &mut self,
        packet: &ArrivedPacket<'_>,
        asked: NodeId,
        code: RefusedCode,
        trust: Trust,
    ) {
        let (now, arrival, header) = (packet.now, packet.arrival, packet.header);
        let refused = Refused {
            target: NodeId(header.index),
            incarnation: self.shared.identity.incarnation,
            code,
        };
        let bytes = packets::build(asked, PacketType::Refused, 0, header.tag, |b| {
            refused.put(b)
        });
        let reason = RefusedReason::from(code);
        self.shared.log.add_unproven(now, || LogRecord::Refuses {
            peer: NodeId(header.index),
            to: arrival.from,
            reason,
        });
        // For a known node, REFUSED for lack of room is a sign of life.
        if reason.is_for_now() && trust != Trust::Stranger {
            self.shared
                .replies
                .add(arrival.origin(), bytes, &mut self.shared.counters);
        } else {
            self.shared
                .replies
                .add_for_anyone(arrival.origin(), bytes, &mut self.shared.counters);
        }
    }

    /// Refuses an INIT of the other mode or under another key.
    pub(super) fn refuse_init(
        &mut self,
        packet: &ArrivedPacket<'_>,
        init: &Init<'_>,
        code: RefusedCode,
    ) {
        self.shared.counters.handshake_rejected += 1;
        self.send_refused(packet, init.target, code, Trust::Stranger);
        self.tell_mismatch(
            packet,
            match code {
                RefusedCode::NodeKey => RefusedReason::NoNodeKeyHere,
                code => RefusedReason::from(code),
            },
        );
    }

    /// Tells the program why the handshake in `packet` was refused, if it came from where a known
    /// node is, unless this node's connection with it goes on: neither side may get further.
    fn tell_mismatch(&mut self, packet: &ArrivedPacket<'_>, reason: RefusedReason) {
        let (now, from) = (packet.now, packet.arrival.from);
        let Some(key) = self.peer_key(NodeId(packet.header.index)) else {
            return;
        };
        if self.peers.get(key).is_some_and(|peer| peer.may_be_at(from)) {
            self.update(key, |peer, shared| peer.on_mismatch(now, reason, shared));
        }
    }

    /// Handles REFUSED: tells the program; the attempt is repeated later.
    pub(super) fn on_refused(&mut self, packet: &ArrivedPacket<'_>) {
        let (now, header, body) = (packet.now, packet.header, packet.body);
        let key = self.active_key(header);
        let peer = key.and_then(|key| self.peers.get_mut(key));
        let (Ok(refused), Some(peer)) = (Refused::read(body), peer) else {
            return self.reject(packet, DropReason::Unsolicited);
        };
        let key = peer.key;
        if !peer.on_refused(now, header.tag, refused.code, &mut self.shared) {
            return self.reject(packet, DropReason::Unsolicited);
        }
        let reason = RefusedReason::from(refused.code);
        peer.log_refused(now, reason, &mut self.shared.log);
        if reason.is_for_now() {
            peer.put_off(now);
        }
        match refused.code {
            RefusedCode::Key | RefusedCode::NodeKey => {
                peer.on_mismatch(now, reason, &mut self.shared);
            }
            RefusedCode::Wait => {}
            _ => {
                peer.life.note_cause(LostCause::Refused(reason));
                peer.tell_refused(reason, &mut self.shared.notices);
            }
        }
        self.touch(key);
    }
}

impl Peer {
    /// Notes that this node or the peer refused a handshake under the key of the other, or of
    /// another mode or version. While keys are rotated that is no fault, and anybody can send a
    /// HELLO of another version: the connection in use goes on. So the peer is asked for a sign of
    /// life there. The program is told if there is no connection, or none came for as long as it
    /// takes to try all keys.
    ///
    /// While nothing waits for the peer, a HELLO of another version changes nothing: the question
    /// would wait for an answer, and if none came, anybody's HELLO would have ended the session.
    fn on_mismatch(&mut self, now: Instant, reason: RefusedReason, shared: &mut super::Shared) {
        let is_at_rest = self.connection.is_some() && !self.is_waiting();
        if reason == RefusedReason::Version && is_at_rest {
            return;
        }
        self.life.note_cause(LostCause::Refused(reason));
        self.ask_for_sign_of_life();
        let all_refused = self.life.keys_differ(now);
        if self.connection.is_none() || all_refused {
            self.tell_refused(reason, &mut shared.notices);
        }
    }
}
