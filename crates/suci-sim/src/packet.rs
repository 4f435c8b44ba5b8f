//! A datagram in transit, with facts about it that only the simulator knows.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use suci_proto::time::Instant;
use suci_proto::types::Ecn;

use crate::tap::What;

/// A host: an index into the world's hosts. A process runs on one, its successor after a restart on
/// the same.
pub type HostId = usize;

/// One start of a process, numbered over the whole run.
pub type ProcId = u32;

/// Part of a message that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The message's token.
    pub token: u64,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// The kind of the content.
    pub what: What,
}

/// The faults that a packet met in transit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// The network made this copy.
    pub duplicate: bool,
    /// Its bytes are not those that were sent.
    pub damaged: bool,
    /// An attacker made or repeated it.
    pub hostile: bool,
    /// The packet was held back on purpose.
    pub held: bool,
}

/// A datagram between two sockets.
#[derive(Clone, Debug)]
pub struct Packet {
    /// UDP payload.
    pub bytes: Bytes,
    /// The bytes that were sent, as the tap reads them: those of a sealed packet are decrypted.
    pub seen: Bytes,
    /// Source address as the receiver sees it.
    pub from: SocketAddr,
    /// Destination address.
    pub to: SocketAddr,
    /// The host that sent it.
    pub source: HostId,
    /// The process that sent it.
    pub sender: ProcId,
    /// When.
    pub sent_at: Instant,
    /// Its index in the order in which all packets of the run were sent.
    pub order: u64,
    /// Congestion mark.
    pub ecn: Ecn,
    /// Parts of messages in it, if its bytes are those that were sent.
    pub carries: Rc<[Carried]>,
    /// The faults that it met.
    pub fate: Fate,
}

impl Packet {
    /// Returns a packet that no process sent.
    #[must_use]
    pub fn raw(bytes: Vec<u8>, order: u64) -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            seen: Bytes::new(),
            bytes: Bytes::from(bytes),
            from: nowhere,
            to: nowhere,
            source: HostId::MAX,
            sender: ProcId::MAX,
            sent_at: Instant::ZERO,
            order,
            ecn: Ecn::NotEct,
            carries: Rc::new([]),
            fate: Fate {
                hostile: true,
                ..Fate::default()
            },
        }
    }
}
