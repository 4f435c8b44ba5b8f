//! Packets for which neither sender nor receiver is to blame.

use suci_proto::Engine;

use super::World;
use crate::packet::{HostId, Packet};
use crate::tap;

impl World {
    /// Returns true if no receiver could have kept room for this packet: an attacker's, a copy the
    /// network made, one held back past the reordering allowance, or one meant for a process that
    /// is gone, whose grants its successor does not know.
    pub(super) fn is_excused(&self, host: HostId, packet: &Packet) -> bool {
        let fate = packet.fate;
        if fate.hostile || fate.duplicate {
            return true;
        }
        let Some(it) = self.hosts.get(host) else {
            return true;
        };
        let newest = it.newest.get(&packet.source).copied().unwrap_or(0);
        if fate.held && packet.order < newest {
            return true;
        }
        if self.is_beyond_peer_limit(host, packet) {
            return true;
        }
        self.is_meant_for_the_dead(host, packet)
    }

    /// Returns true if a packet is the HELLO of one of more nodes than the receiver has peer slots
    /// for: no buffer holds the HELLOs of any number of newcomers at once.
    fn is_beyond_peer_limit(&self, host: HostId, packet: &Packet) -> bool {
        let limit = self.engine(host).map_or(0, Engine::peer_limit);
        packet.bytes.first() == Some(&tap::HELLO) && self.options.nodes as u64 > limit
    }

    /// Returns true if a packet was sent to a process that ran on `host` before: its sender had
    /// heard nothing of the one there now.
    pub(super) fn is_meant_for_the_dead(&self, host: HostId, packet: &Packet) -> bool {
        let Some(it) = self.hosts.get(host) else {
            return true;
        };
        let Some(process) = it.process.as_ref() else {
            return true;
        };
        let sender = self
            .hosts
            .get(packet.source)
            .and_then(|host| host.process.as_ref());
        let heard = sender
            .filter(|sender| sender.id == packet.sender)
            .and_then(|sender| sender.heard.get(&process.id));
        it.starts > 1 && heard.is_none_or(|heard| packet.sent_at < *heard)
    }
}
