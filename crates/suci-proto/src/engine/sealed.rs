//! Sealed mode: opening packets that came together, the handshake messages in INIT and ACCEPT, and
//! fresh handshakes for connections whose keys may not be used any more.
//!
//! Nothing in a packet changes any state before the packet was opened. A packet that cannot be
//! opened is counted, and answered as one for an unknown connection: at a limited rate by UNKNOWN.

use super::Engine;
use super::handshake::NoEntry;
use crate::event::EndReason;
use crate::handshake::packets::{Opened, message};
use crate::handshake::{ArrivedPacket, Renewal};
use crate::log::DropReason;
use crate::peer::Peer;
use suci_link::arrival::Arrival;
use suci_link::planted;
use suci_link::security::{KeyKind, Sealing, Security};
use suci_link::time::Instant;
use suci_link::types::NodeId;
use suci_link::wire::{
    CLOSE_REVOKED, ContiguousPackets, CrcScope, Header, Init, PacketType, RefusedCode,
    SealedHeader, is_data, tail,
};

/// Returns the header of a sealed packet as that of a plain one. Its tag is the end of the packet.
fn as_data(sealed: &SealedHeader, datagram: &[u8]) -> Header {
    Header {
        kind: PacketType::Data,
        scope: CrcScope::Datagram,
        index: sealed.index,
        number: sealed.number,
        tag: tail(datagram),
    }
}

fn arrived<'a>(now: Instant, arrival: &'a Arrival, header: &'a Header) -> ArrivedPacket<'a> {
    ArrivedPacket {
        now,
        arrival,
        header,
        body: &[],
        datagram: &[],
    }
}

impl Engine {
    /// As [`handle_train`](Self::handle_train), in sealed mode.
    #[inline(never)]
    pub(super) fn take_sealed_train(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        segment: usize,
        bytes: &mut [u8],
    ) {
        let mut rest = bytes;
        loop {
            let first = segment.min(rest.len());
            let (datagram, behind) = rest.split_at(first);
            let taken = if is_data(datagram) {
                self.take_sealed(now, arrival, segment, rest)
            } else {
                rest.len() - self.take_first(now, arrival, datagram, behind).len()
            };
            rest = rest.get_mut(taken.max(1)..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Takes the first datagrams of `bytes`, sealed packets of one connection. Returns their bytes.
    fn take_sealed(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        segment: usize,
        bytes: &mut [u8],
    ) -> usize {
        let first = segment.min(bytes.len());
        let datagram = bytes.get(..first).unwrap_or_default();
        let sealed = match SealedHeader::read(datagram) {
            Ok(sealed) => sealed,
            Err(error) => {
                self.on_no_packet(now, arrival.from, error);
                return first;
            }
        };
        let header = as_data(&sealed, datagram);
        let packet = arrived(now, arrival, &header);
        let key = self.shared.indices.peer(sealed.index);
        let Some(key) = key.filter(|key| self.peers.sealed(*key, sealed.index).is_some()) else {
            self.on_sealed_stranger(&packet, key);
            return first;
        };
        let opened = self.open_packets(now, key, sealed.index, segment, bytes);
        if opened == 0 {
            self.shared.counters.bad_checksum += 1;
            let peer = self.peers.sealed(key, sealed.index);
            let sealing = peer.and_then(|peer| peer.connection.as_ref()?.link.sealing.as_deref());
            if sealing.is_some_and(Sealing::is_worn_out) {
                self.renew_keys_at(now, key, Renewal::Revoke);
            }
            self.hint_unknown(&packet, DropReason::NotAuthentic);
            return first;
        }
        let opened_bytes = bytes.get(..opened).unwrap_or_default();
        self.take_opened(now, arrival, key, segment, opened_bytes);
        opened
    }

    /// Handles a packet whose index means nothing, or belongs to a connection that is being made.
    /// Nobody can open the latter before ACCEPT came: it changes nothing.
    fn on_sealed_stranger(&mut self, packet: &ArrivedPacket<'_>, key: Option<usize>) {
        let peer = key.and_then(|key| self.peers.active(key));
        let early = peer.is_some_and(|peer| peer.offers_index(packet.header.index));
        let reason = match early {
            true => DropReason::BeforeAccept,
            false => DropReason::UnknownConnection,
        };
        self.shared.counters.unknown_connection += 1;
        self.hint_unknown(packet, reason);
    }

    /// Opens in place the packets at the front of `bytes` that belong to the connection with this
    /// index, up to the first that is not authentic. Returns their bytes.
    fn open_packets(
        &mut self,
        now: Instant,
        key: usize,
        index: u32,
        segment: usize,
        bytes: &mut [u8],
    ) -> usize {
        let mut opened = 0_usize;
        for datagram in bytes.chunks_mut(segment) {
            let Ok(header) = SealedHeader::read(datagram) else {
                break;
            };
            let peer = self
                .peers
                .sealed(key, index)
                .filter(|_| header.index == index);
            let sealing = peer.and_then(|peer| peer.connection.as_ref()?.link.sealing.as_deref());
            let is_open = sealing.is_some_and(|sealing| sealing.open(&header, datagram).is_ok());
            if !is_open && !planted("unauthentic-taken") {
                break;
            }
            // Only an authentic packet makes its peer active.
            if let Some(peer) = self.peers.get_mut(key)
                && let Some(connection) = &mut peer.connection
                && let Some(sealing) = &mut connection.link.sealing
            {
                sealing.on_opened(now, header.phase);
            }
            opened = opened.saturating_add(datagram.len());
        }
        opened
    }

    /// Takes the packets in `bytes`, all of them opened: the peer's at `key`.
    fn take_opened(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        key: usize,
        segment: usize,
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        while let Ok(sealed) = SealedHeader::read(rest) {
            let (datagram, behind) = rest.split_at(segment.min(rest.len()));
            let mut packets = ContiguousPackets::opened(sealed.number, datagram, behind);
            let is_there = self.peers.sealed(key, sealed.index).is_some();
            if let Some(peer) = self.peers.get_mut(key).filter(|_| is_there) {
                peer.release_previous(&mut self.shared.shares);
                peer.receive(now, arrival, &mut packets, &mut self.shared);
                self.on_received(key);
            } else {
                // A packet before it ended the connection.
                let header = as_data(&sealed, datagram);
                self.on_sealed_stranger(&arrived(now, arrival, &header), None);
            }
            rest = packets.rest();
        }
    }

    /// Reads the handshake message of an INIT, a `packet` from `source`, the hash of a network
    /// prefix that its cookie proved, before the INIT changes any state.
    ///
    /// # Errors
    /// The code of REFUSED that answers it: the other mode, or another key. That answer tells its
    /// receiver nothing that silence would not: to guess a key of 256 bits is hopeless either way.
    /// An INIT beyond the limits of handshake work is dropped unread.
    pub(super) fn open_init(
        &mut self,
        packet: &ArrivedPacket<'_>,
        source: u64,
        init: &Init<'_>,
    ) -> Result<Opened, NoEntry> {
        let now = packet.now;
        let message = message(&init.params, init.ride, packet.datagram);
        let (makes, (message, context)) = match (&self.shared.config.security, message) {
            (Security::Plain, _) if init.params.sealed.is_none() => return Ok(None),
            (Security::Sealed(makes), Some(message))
                if init.params.node_keys == (makes.kind() == KeyKind::Node) =>
            {
                (makes, message)
            }
            _ => return Err(NoEntry::Refused(RefusedCode::Mode)),
        };
        let is_allowed = self.handshake_work.may_read(now, source);
        if !is_allowed && !planted("handshake-work-unlimited") {
            return Err(NoEntry::Ignored(DropReason::Throttled));
        }
        let kind = makes.kind();
        let opened = makes.respond(NodeId(packet.header.index), &context, message);
        opened.map(Some).map_err(|_| {
            self.handshake_work.on_failure(now, source);
            NoEntry::Refused(match kind {
                KeyKind::Cluster => RefusedCode::Key,
                KeyKind::Node => RefusedCode::NodeKey,
            })
        })
    }

    /// Counts the cost of an INIT from `source` whose message a key fitted: a key exchange if the
    /// INIT was answered. Otherwise it counts as one that no key fits, so that a sender that
    /// repeats it cannot have it read without end.
    pub(super) fn count_handshake(
        &mut self,
        now: Instant,
        source: u64,
        admitted: &Result<(), NoEntry>,
    ) {
        match admitted {
            Ok(()) | Err(NoEntry::Ignored(DropReason::NoKeys)) => {
                self.handshake_work.on_exchange(now);
            }
            Err(_) => self.handshake_work.on_failure(now, source),
        }
    }

    /// Returns true if packets are sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.shared.config.security.is_sealed()
    }

    /// Makes a fresh handshake with every peer that has keys of this node or may have, and stops
    /// using the present keys as `renewal` says. Messages that wait or are under way are kept. Does
    /// nothing in plain mode.
    pub fn renew_keys(&mut self, now: Instant, renewal: Renewal) {
        if !self.is_sealed() {
            return;
        }
        if renewal != Renewal::Replace && !planted("sealed-after-restore") {
            self.shared.replies.drop_unsealed();
        }
        for key in self.peers.keys() {
            self.renew_keys_at(now, key, renewal);
        }
    }

    /// As [`renew_keys`](Self::renew_keys), for one peer: its own keys changed, or its rights.
    pub fn renew_keys_of(&mut self, now: Instant, node: NodeId, renewal: Renewal) {
        if let Some(key) = self.peer_key(node).filter(|_| self.is_sealed()) {
            self.renew_keys_at(now, key, renewal);
        }
    }

    fn renew_keys_at(&mut self, now: Instant, key: usize, renewal: Renewal) {
        let ends = |peer: &Peer| renewal == Renewal::EndSession && peer.session.is_established();
        let has_keys = |peer: &Peer| peer.connection.is_some() || peer.has_offer() || ends(peer);
        if self.peers.get(key).is_some_and(has_keys) {
            self.update(key, |peer, shared| peer.renew_keys(now, renewal, shared));
        }
    }
}

impl Peer {
    /// As [`Engine::renew_keys`], for the connection of this peer.
    fn renew_keys(&mut self, now: Instant, renewal: Renewal, shared: &mut super::Shared) {
        // A session without a connection, of a lost peer or one without a slot, ends silently.
        let ends = renewal == Renewal::EndSession && self.session.is_established();
        if ends && self.lingering.is_none() {
            self.send_final_close(CLOSE_REVOKED, shared);
            return self.end(now, EndReason::Revoked, shared);
        }
        if let Some(connection) = &mut self.connection {
            if renewal != Renewal::Replace && !planted("sealed-after-restore") {
                connection.link.numbers.use_up();
            }
            if matches!(renewal, Renewal::Revoke | Renewal::EndSession)
                && let Some(sealing) = &mut connection.link.sealing
            {
                sealing.revoke();
            }
        }
        // An INIT under way may be under a key that is no longer used, tell of more layers than may
        // be used, or another process can make it, too.
        if self.lingering.is_none() || self.attempt.is_some() {
            self.drop_attempt(shared);
            let token = shared.random();
            self.open(now, token);
        }
    }
}
