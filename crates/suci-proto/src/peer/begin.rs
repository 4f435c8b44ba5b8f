//! The beginning of a connection on either side: the peer's first grant, and the parameters that we
//! announce.

use super::Peer;
use super::connection::{Beginning, Call, End};
use crate::config::Config;
use crate::credit::{Grant, Shares};
use crate::handshake::{FIRST_WAIT, Trust};
use crate::shared::{Promise, Shared};
use std::net::SocketAddr;
use suci_link::limits::{self, MAX_DATAGRAM};
use suci_link::link::Numbers;
use suci_link::recovery::Recovery;
use suci_link::time::{Duration, Instant};
use suci_link::types::{Incarnation, Layers};
use suci_link::wire::{self, Credit, Params, RefusedCode};

/// Round trip assumed until one is measured.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// Maximum number of connections of a peer that were replaced before they were heard, and stay on
/// the books until they lapse. A peer that then connects again has to wait: otherwise it would use
/// up the socket's budget.
const MOST_PREVIOUS: usize = 4;

/// Returns how many channels a peer may open towards a session with this window: they take no more
/// memory than messages may.
fn channels_for(window: u64) -> u64 {
    let channels = window / limits::CHANNEL_MEMORY;
    channels.clamp(limits::MIN_CHANNELS, limits::MAX_CHANNELS)
}

/// Offers the peer a session with this window.
pub(super) fn offer_window(params: &mut Params, window: u64) {
    params.channel_memory = window / 2;
    params.max_channels = channels_for(window);
}

impl Peer {
    /// Makes our side of a connection with `incarnation` at `address`, and reserves memory for its
    /// session. The present session is promised that memory, unless it has some; for another
    /// incarnation the promise is returned. Without room the error names what is missing, and a
    /// stranger takes nothing.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        incarnation: Incarnation,
        address: SocketAddr,
        call: Option<Call<'_>>,
        shared: &mut Shared,
    ) -> Result<(Beginning, Option<Promise>), RefusedCode> {
        let other = self.is_other_incarnation(incarnation);
        let mut promise = match other || self.session.promise.window == 0 {
            true => Some(shared.memory.take().ok_or(RefusedCode::NoMemory)?),
            false => None,
        };
        let largest = call.map_or(MAX_DATAGRAM, |call| call.params.max_datagram);
        let max_datagram = shared.datagram_from(address).min(largest);
        let grant = self.grant(now, max_datagram, call.is_some(), &mut shared.shares);
        // A node of the book keeps its window even if it finds no slot, since it will call again:
        // windows become smaller with each session, so nodes should get them in the order in which
        // they came.
        if !other
            && (grant.is_some() || !self.book.is_empty())
            && let Some(promise) = promise.take()
        {
            self.set_promise(promise);
        }
        let Some(grant) = grant else {
            shared.memory.release(promise.unwrap_or_default());
            return Err(RefusedCode::NoSocketCredit);
        };
        let first = shared.config.first_packet_number;
        let random = shared.random();
        // An INIT that was repeated measures no round trip (Karn and Partridge 1987).
        let measured = call.map(|call| call.round_trip);
        let round_trip = measured
            .filter(|time| *time < FIRST_WAIT)
            .map_or(INITIAL_RTT, |time| time.max(Duration::from_micros(10)));
        let present = self.session.inbox.session_limit();
        let beginning = Beginning {
            numbers: Numbers::new(first, random),
            recovery: Recovery::new(first, round_trip),
            grant,
            max_datagram,
            memory_announced: promise.as_ref().map_or(present, |other| other.window),
            mode: self.mode(),
            early: None,
        };
        Ok((beginning, promise))
    }

    /// Makes the peer's first grant, if the socket's budget has room and not too many earlier
    /// connections are unheard.
    fn grant(
        &mut self,
        now: Instant,
        max_datagram: usize,
        called: bool,
        shares: &mut Shares,
    ) -> Option<Grant> {
        let unheard = self.connection.as_ref().map_or(0, |c| c.previous.len());
        if unheard >= MOST_PREVIOUS {
            return None;
        }
        let stranger = called && self.trust() == Trust::Stranger;
        match self.connection.as_mut().filter(|_| called) {
            Some(old) => shares.replace(&mut old.grant, 0, max_datagram, now),
            None if stranger => shares.admit_stranger(0, max_datagram, now),
            None if called => shares.admit(0, max_datagram, now),
            None => shares.admit_for_own_init(0, max_datagram, now),
        }
    }

    /// Gives the session the promised memory.
    pub(super) fn set_promise(&mut self, promise: Promise) {
        let window = promise.window;
        self.session.promise = promise;
        let inbox = &mut self.session.inbox;
        inbox.set_windows(window / 2, window);
        inbox.set_max_channels(channels_for(window));
    }

    /// Returns an index and tag for packets to us.
    pub(crate) fn new_end(&self, shared: &mut Shared) -> End {
        End {
            index: shared.indices.allocate(self.node, self.key),
            tag: shared.random(),
        }
    }

    /// Returns the credit in INIT or ACCEPT.
    pub(crate) fn first_grant(&self, beginning: &mut Beginning) -> Credit {
        let credit = beginning.grant.handshake_credit(0);
        Credit {
            generation: credit.generation,
            limit: credit.limit,
            control: credit.control,
            memory: beginning.memory_announced,
        }
    }

    /// Returns the layers that the peer may use. Within a session they never become fewer: if the
    /// file permits less, the driver ends the session ([`Renewal::EndSession`]) once it looks.
    ///
    /// [`Renewal::EndSession`]: crate::Renewal::EndSession
    fn layers_to_tell(&self, config: &Config) -> Layers {
        let permitted = config.security.layers(self.node);
        match self.session.connected {
            true => permitted.union(self.session.inbox.permitted()),
            false => permitted,
        }
    }

    /// Returns the parameters that we announce.
    pub(crate) fn params(&self, max_datagram: usize, config: &Config) -> Params {
        Params {
            max_ack_delay: config.max_ack_delay,
            channel_memory: self.session.inbox.channel_window(),
            max_message: config.max_message,
            max_datagram,
            unattended: config.unattended,
            mode: self.mode(),
            max_channels: self.session.inbox.channels_announced(),
            layers: self.layers_to_tell(config),
            node_keys: config.security.has_node_keys(),
            extensions: wire::ALL_EXTENSIONS,
            ..Params::default()
        }
    }
}
