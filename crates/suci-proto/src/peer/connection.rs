//! A connection with a peer: the link, and what this node's socket and memory grant the peer on it.
//! Replaceable within a session.

use crate::credit::{Demand, Grant, Shares};
use crate::log::{Log, LogRecord};
use crate::shared::Paths;
use suci_channels::message::SentFrame;
use suci_link::congestion::ControllerChoice;
pub(crate) use suci_link::link::{AckSettings, End};
use suci_link::link::{Agreed, LinkSettings, Numbers, Recorded};
use suci_link::recovery::Recovery;
use suci_link::security::ConnectionKeys;
use suci_link::time::{Duration, Instant};
use suci_link::train::Destination;
use suci_link::types::{Layers, PacketNumber};
use suci_link::wire::{Credit, Mode, Params};

/// A link that carries a session.
pub(super) type Link = suci_link::link::Link<SentFrame>;

/// The result of the handshake, from this side's view.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// Index and tag of packets to us.
    pub(crate) local: End,
    /// Index and tag of packets to the peer.
    pub(crate) remote: End,
    /// The peer's parameters.
    pub(crate) params: Params,
    /// The layers that the peer may use, as it was told.
    pub(crate) layers: Layers,
    /// The peer's first grant.
    pub(crate) grant: Credit,
    /// When we sent the packet that this grant answers.
    pub(crate) answered: Instant,
    /// The number of the peer's first packet.
    pub(crate) first: PacketNumber,
    /// The peer's address, and the address of this host that it called.
    pub(crate) address: Destination,
    /// The keys of a sealed connection.
    pub(crate) keys: Option<ConnectionKeys>,
}

/// This side's part of a connection before the other end answered.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) numbers: Numbers,
    pub(crate) recovery: Recovery<Recorded<SentFrame>>,
    pub(crate) grant: Grant,
    /// The largest UDP payload in the parameters.
    pub(crate) max_datagram: usize,
    /// Session memory limit in the first grant.
    pub(crate) memory_announced: u64,
    /// The mode in the parameters.
    pub(crate) mode: Mode,
    /// The highest packet number that came before ACCEPT. It was drained from our socket, so it
    /// counts for the grant.
    pub(crate) early: Option<PacketNumber>,
}

/// One connection that both ends know.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: Link,
    /// The numbers that this node's socket has room for.
    pub(crate) grant: Grant,
    /// Grants of the connections before this one, on the books until this one is heard or they
    /// lapse.
    pub(crate) previous: Vec<Grant>,
    /// Session memory limit last announced to the peer.
    pub(crate) memory_announced: u64,
    /// When an unanswered RECLAIM is checked again.
    pub(crate) reclaim_at: Option<Instant>,
}

impl Connection {
    /// Makes a connection. `controller` and `settings` are ours.
    pub(crate) fn new(
        agreement: Agreement,
        beginning: Beginning,
        controller: ControllerChoice,
        settings: LinkSettings,
        now: Instant,
    ) -> Self {
        let agreed = Agreed {
            local: agreement.local,
            remote: agreement.remote,
            params: agreement.params,
            grant: agreement.grant,
            answered: agreement.answered,
            first: agreement.first,
            address: agreement.address,
            keys: agreement.keys,
            numbers: beginning.numbers,
            recovery: beginning.recovery,
            mode: beginning.mode,
        };
        Self {
            link: Link::new(agreed, controller, settings, now),
            grant: beginning.grant,
            previous: Vec::new(),
            memory_announced: beginning.memory_announced,
            reclaim_at: None,
        }
    }

    /// Adapts the peer's share of the socket's budget to its mode.
    pub(crate) fn share_by_mode(&mut self, shares: &mut Shares) {
        let demand = demand_of(self.link.modes.theirs());
        shares.set_demand(&mut self.grant, demand);
    }

    /// Starts on a new path with the driver's answer about its route, or at the floor if there is
    /// none. Returns false if the driver must be asked.
    pub(crate) fn begin_on_path(&mut self, paths: &Paths, now: Instant) -> bool {
        let known = paths.known(self.link.path.address());
        self.link.begin_on_known(known, now);
        known.is_some()
    }

    /// Gives back the memory for packets under way. Returns false if packets are under way, frames
    /// are pending, or a grant is live or being taken back.
    pub(crate) fn shrink(&mut self) -> bool {
        !self.grant.is_live()
            && self.previous.is_empty()
            && !self.grant.is_dismissed()
            && self.link.shrink()
    }

    /// Logs a change of the packet size.
    pub(crate) fn log_resized(&mut self, now: Instant, log: &mut Log) {
        if let Some(datagram) = self.link.take_resized() {
            let to = self.link.path.address();
            log.add(now, || LogRecord::PacketSize { to, datagram });
        }
    }
}

/// The peer's INIT, which the new connection answers. The new connection replaces the one before.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Time from COOKIE to INIT: a round trip, unless only a repeated INIT came.
    pub(crate) round_trip: Duration,
    /// The parameters that the peer announced.
    pub(crate) params: &'a Params,
}

/// Returns the part of the socket's budget that traffic of this mode should have.
pub(super) fn demand_of(mode: Mode) -> Demand {
    match mode {
        Mode::Adaptive => Demand::Normal,
        Mode::Throughput => Demand::Large,
        Mode::Response => Demand::Small,
    }
}
