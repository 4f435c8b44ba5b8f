//! Building packets for a peer. The link selects the content of the next packet, and decides if it
//! may be sent ([`suci_link::link`]). This part adds deadlines of messages, the mode, the end of
//! the session, and the reasons why messages wait.

mod data;
mod special;

use super::carried::Carried;
use super::connection::Link;
use super::mode::SHORT;
use super::{Connection, Peer};
use crate::shared::Shared;
use crate::transmit::Built;
pub(super) use data::write_data;
use suci_channels::waits::WaitReason;
use suci_link::time::Instant;
use suci_link::train::Train;
use suci_link::wire::{Mode, PLAIN_OVERHEAD};

/// Usual bytes of a packet of messages besides their payload: packet header, PING, and the head of
/// a frame.
pub(super) const OVERHEAD: usize = PLAIN_OVERHEAD + 1 + 16;

/// A queue of more bytes than this counts as long, however large the window is.
const LONG_QUEUE: u64 = 1 << 20;

/// Bytes of frames that an INIT carries at most. With its own fields the INIT stays below
/// [`MIN_MTU`](suci_link::limits::MIN_MTU).
const MAX_RIDING: usize = 900;

impl Peer {
    /// Fills `train` with packets for this peer: at most `max_segments`, fewer if the peer is
    /// `outranked` by others. If no packet may be sent or nothing is left, [`Peer::deadline`] is
    /// the time at which that may change.
    pub(crate) fn build(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        train: &mut Train,
        shared: &mut Shared,
    ) -> Built {
        let mut built = self.build_train(now, max_segments, outranked, train, shared);
        if built != Built::Nothing
            && let Some(connection) = &mut self.connection
            && let Some(sealing) = &mut connection.link.sealing
        {
            train.seal(sealing);
        }
        let over = |connection: &Connection| connection.grant.is_over();
        if self.connection.as_deref().is_some_and(over) && self.lingering.is_none() {
            match built {
                Built::Nothing => self.give_up_slot(now, shared),
                Built::Train | Built::Last => built = Built::Train,
            }
        }
        // After `Built::Train` the caller comes again, unless the socket is full. So an empty queue
        // is noted at once: its messages wait no more.
        if built != Built::Train || self.session.outbox.is_empty() {
            let reason = self.wait_reason(now, shared);
            self.waits.note(now, reason);
            shared.notices.found_waiting |= self.is_held_up();
        }
        if built == Built::Last {
            // The packets just built may await an answer.
            let waiting = self.is_waiting();
            self.life.set_waiting(now, waiting);
        }
        built
    }

    fn build_train(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        train: &mut Train,
        shared: &mut Shared,
    ) -> Built {
        self.expire_messages(now, shared);
        self.advance_closing(now, shared);
        self.renew_memory(&mut shared.memory);
        let waiting = self.is_waiting();
        self.life.set_waiting(now, waiting);
        self.replace_if_used_up(now, shared);
        self.update_mode(now);
        let Some((link, mut carried)) = self.carried(shared) else {
            return Built::Nothing;
        };
        link.control_at = None;
        let config = &carried.shared.config;
        if !link.prepare_keys(now, || config.phase_limit()) {
            self.replace_if_used_up(now, shared);
            return Built::Nothing;
        }
        if link.numbers.peek().is_none() {
            return Built::Nothing;
        }
        let may_probe = carried.carries_data;
        if link.build_path_validation(now, &mut carried, train)
            || (may_probe && link.build_path_probe(now, &mut carried, train))
        {
            return Built::Train;
        }
        let mut frames = core::mem::take(&mut carried.shared.frames);
        let (most, carried) = (max_segments, &mut carried);
        let filled = link.fill(now, most, outranked, carried, train, &mut frames);
        let last = filled && !has_more_by_itself(now, link, carried);
        shared.counters.payload_copied += train.copied();
        shared.frames = frames;
        match train.segments() {
            0 => Built::Nothing,
            _ if last => Built::Last,
            _ => Built::Train,
        }
    }

    /// Opens a new connection of the same session if the packet numbers are used up (they never
    /// wrap, F15), or if packets are bound to a size that is in doubt.
    fn replace_if_used_up(&mut self, now: Instant, shared: &mut Shared) {
        let used_up = self
            .connection
            .as_ref()
            .is_some_and(|c| c.link.numbers.peek().is_none() || c.link.doubts_size(now));
        if used_up && self.lingering.is_none() {
            let token = shared.random();
            self.open(now, token);
        }
    }

    /// Updates the mode of the traffic, and announces a change to the peer.
    fn update_mode(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            let window = connection.link.congestion.window();
            let queued = self.session.outbox.queued().open().bytes;
            self.classifier
                .on_queue(now, queued > window.min(LONG_QUEUE));
            if queued > SHORT * connection.link.mtu.current() as u64 {
                self.classifier.on_long_message();
            }
        }
        let (mode, wished) = (self.mode(), self.options.mode != Mode::Adaptive);
        if let Some(connection) = &mut self.connection
            && connection.link.modes.set_ours(mode)
        {
            connection.link.mode_is_wished = wished;
        }
    }

    /// Returns the limit that stops all messages; `None` if none waits, or if a new connection is
    /// due.
    fn wait_reason(&mut self, now: Instant, shared: &mut Shared) -> Option<WaitReason> {
        if self.session.outbox.is_empty() {
            return None;
        }
        match self.carried(shared) {
            Some((link, mut carried)) => link.held(now, &mut carried),
            None => Some(WaitReason::Link),
        }
    }

    /// Returns true if messages wait for something that the program need not do: an answer of the
    /// peer, a timer or room in the socket.
    pub(crate) fn is_held_up(&self) -> bool {
        let reason = self.waits.reason();
        reason.is_some_and(|reason| reason != WaitReason::Suspended)
    }
}

/// Returns true if the packets just built require another train, for which no timer is set: a path
/// probe, which is sent only while packets are in flight, or the handshake of a new connection if
/// the packet numbers are used up.
fn has_more_by_itself(now: Instant, link: &Link, carried: &Carried<'_>) -> bool {
    (carried.carries_data && link.is_path_probe_due(now)) || link.numbers.peek().is_none()
}
