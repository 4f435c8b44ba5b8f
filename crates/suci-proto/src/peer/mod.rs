//! The state of a node about another node: a session, at most one connection, and the attempt to
//! make one.
//!
//! `Peer` composes the parts and decides nothing about loss, credit or congestion by itself.
//! Receiving is in `receive`, sending in `build`, time in `timers`, opening in `open` and `begin`.

mod absence;
mod attempt;
mod begin;
mod build;
mod calls;
mod carried;
mod connection;
mod end;
mod event_queue;
mod events;
mod fate;
mod groups;
mod idle;
mod itself;
mod life;
mod mode;
mod open;
mod port_reports;
mod ports;
mod receive;
mod session;
mod steering;
mod suspension;
mod timers;
mod trust;
mod undelivered;

pub(crate) use attempt::{Accepted, Attempt};
pub(crate) use connection::{Agreement, Call, Connection, End};
pub(crate) use session::{Closing, History, Session};

use crate::addresses::Addresses;
use crate::config::Config;
use crate::counters::{Counters, LinkState, PeerInfo, PeerStats, Traffic};
use crate::event::{EndReason, Event, RefusedReason};
use crate::log::LogRecord;
use crate::options::PeerOptions;
use crate::shared::{MemoryShares, Promise, Shared};
use event_queue::EventQueue;
pub(crate) use event_queue::MAX_UNREAD;
use fate::Unsent;
pub(crate) use life::Contest;
use life::Life;
use mode::TrafficClassifier;
use std::net::{IpAddr, SocketAddr};
use suci_channels::message::Pool;
use suci_channels::port::PORTS;
use suci_channels::waits::WaitClock;
use suci_link::limits;
use suci_link::link::Path;
use suci_link::rate_cap::RateCap;
use suci_link::time::{Duration, Instant};
use suci_link::types::{ChannelId, NodeId};
use suci_link::wire::Mode;

/// All state about one other node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    /// It is this node: messages need no connection ([`Peer::pass_to_itself`]).
    pub(crate) is_itself: bool,
    /// The peer's key in the engine.
    pub(crate) key: usize,
    /// The peer's addresses in the book.
    pub(crate) book: Addresses,
    /// Address from which the peer connected, if it is not in the book.
    pub(crate) stranger_from: Option<IpAddr>,
    /// Source address of the last packet from the peer.
    pub(crate) last_source: Option<SocketAddr>,
    /// Source address of the earlier process of this ID, which another process replaced.
    pub(crate) previous_source: Option<Box<SocketAddr>>,
    pub(crate) session: Session,
    /// The program's steering function.
    steering: Option<Box<steering::Steering>>,
    /// The program's cap on the rate of messages to the peer.
    pub(crate) cap: RateCap,
    /// The program's options for the peer.
    pub(crate) options: PeerOptions,
    pub(crate) connection: Option<Box<Connection>>,
    /// Set if the session is over: the time until which its connection answers repeated CLOSEs.
    pub(crate) lingering: Option<Instant>,
    pub(crate) attempt: Option<Box<Attempt>>,
    pub(crate) accepted: Option<Box<Accepted>>,
    /// When the cookie of the newest accepted INIT was made: older INITs are ignored, even after
    /// the session ended.
    pub(crate) newest_cookie: Option<Instant>,
    /// When the newest cookie was made whose INIT was refused because a live process has the node
    /// ID. A refused INIT is never accepted later, so its sender knows that no data was taken from
    /// it.
    pub(crate) newest_refused: Option<Instant>,
    pub(crate) life: Life,
    pub(crate) history: History,
    pub(crate) events: EventQueue,
    pub(crate) closing: Closing,
    /// The mode derived from the traffic to the peer.
    classifier: TrafficClassifier,
    pub(crate) last_refusal: Option<RefusedReason>,
    /// True if the peer is in the engine's queue of peers with events.
    has_listed_events: bool,
    /// True if the peer is in the engine's list of peers whose ACKs wait for the next cycle.
    pub(crate) ack_waits: bool,
    /// When the peer was last asked for a sign of life.
    kept_alive: Instant,
    pub(crate) traffic: Traffic,
    /// The reasons why messages to the peer wait.
    pub(crate) waits: WaitClock,
    /// The peer announced that its engine does not run while its program computes.
    unattended: bool,
    /// A launcher reports each end of the peer's processes.
    pub(crate) supervised: bool,
    /// The program took messages since the last output.
    took_messages: bool,
    /// One side has no slot for the other now, so the connection must wait.
    put_off: bool,
    /// Messages of groups that the last session with such messages left.
    layer_remains: Option<Box<groups::LayerRemains>>,
    /// The [`Port`](suci_channels::port::Port)s whose messages wait, since answers to the peer find
    /// no room.
    pub(crate) held: [bool; PORTS],
    /// A member of a group waits for a message of this peer.
    awaited: u32,
    /// Why the last session ended.
    last_end: Option<EndReason>,
    /// The process that had that session has ended for certain, or closed its node.
    last_is_dead: bool,
}

impl Peer {
    pub(crate) fn new(
        node: NodeId,
        key: usize,
        book: Addresses,
        now: Instant,
        config: &Config,
        pool: &Pool,
    ) -> Self {
        Self {
            node,
            is_itself: false,
            key,
            book,
            stranger_from: None,
            last_source: None,
            previous_source: None,
            session: Session::new(node, config, pool),
            steering: None,
            cap: RateCap::new(now, config.rate_cap, limits::ETHERNET_MTU),
            options: PeerOptions::new(config),
            connection: None,
            lingering: None,
            attempt: None,
            accepted: None,
            newest_cookie: None,
            newest_refused: None,
            life: Life::new(now),
            history: History::default(),
            events: EventQueue::default(),
            closing: Closing::Open,
            classifier: TrafficClassifier::default(),
            last_refusal: None,
            has_listed_events: false,
            ack_waits: false,
            kept_alive: now,
            traffic: Traffic::default(),
            waits: WaitClock::default(),
            unattended: false,
            supervised: false,
            took_messages: false,
            put_off: false,
            layer_remains: None,
            held: [false; PORTS],
            awaited: 0,
            last_end: None,
            last_is_dead: false,
        }
    }

    /// Returns true if the peer is a stranger, or was connected at some time.
    pub(crate) fn is_met(&self) -> bool {
        self.stranger_from.is_some() || self.last_source.is_some()
    }

    /// Returns true if frames of the session may be sent: the link is up, and the session not over.
    pub(crate) fn is_up(&self) -> bool {
        self.life.link() == LinkState::Up && self.lingering.is_none()
    }

    /// Returns true if messages to the peer may be sent.
    pub(crate) fn carries_data(&self) -> bool {
        self.is_up() && self.session.suspended_by().is_none()
    }

    /// Returns the mode of traffic to the peer: the program's choice or, without one, the mode
    /// derived from the traffic.
    pub(crate) fn mode(&self) -> Mode {
        match self.options.mode {
            Mode::Adaptive => self.classifier.mode(),
            mode => mode,
        }
    }

    /// Returns the bytes that the peer would take now as one message on `channel`: the lesser of
    /// its socket credit and its memory credit. Messages queued already go first.
    pub(crate) fn remote_window(&self, now: Instant, channel: ChannelId) -> u64 {
        if !self.carries_data() {
            return 0;
        }
        let memory = self.session.outbox.room(channel);
        let memory = memory.saturating_sub(limits::MESSAGE_CHARGE);
        if self.is_itself {
            return memory;
        }
        let Some(connection) = &self.connection else {
            return 0;
        };
        let packets = connection
            .link
            .numbers
            .peek()
            .map_or(0, |next| connection.link.credit.data_allowance(next, now));
        let payload = connection
            .link
            .mtu
            .current()
            .saturating_sub(build::OVERHEAD) as u64;
        packets.saturating_mul(payload).min(memory)
    }

    /// Notes that an authentic packet came at `now`.
    fn hear(&mut self, now: Instant, shared: &mut Shared) {
        if self.lingering.is_none() && self.life.hear(now) {
            self.last_refusal = None;
            if self.attempt.as_deref().is_some_and(Attempt::is_asking) {
                // The attempt was made because the peer was lost.
                self.drop_attempt(shared);
            }
            let (node, session) = (self.node, self.session.number);
            let peer = node;
            shared.log.add(now, || LogRecord::Up { peer, session });
            self.push_event(Event::Up { node, session }, &mut shared.notices);
        }
    }

    /// Frees the connection and everything on the books for it. The next connection sends its
    /// unacknowledged data again.
    pub(crate) fn drop_connection(&mut self, shared: &mut Shared) {
        self.lingering = None;
        if let Some(mut connection) = self.connection.take() {
            self.requeue(&mut connection);
            shared.indices.free(connection.link.local.index);
            shared.shares.release(&mut connection.grant);
            for mut previous in connection.previous {
                shared.shares.release(&mut previous);
            }
        }
    }

    /// Puts everything in flight on `connection` back into the session's queues.
    fn requeue(&mut self, connection: &mut Connection) {
        connection.link.drop_all(&mut self.session);
    }

    /// Returns true if there is a connection that carries messages.
    pub(crate) fn has_connection(&self) -> bool {
        self.connection.is_some() && self.lingering.is_none()
    }

    /// Returns true if an acknowledgement waits until the next cycle for a packet that carries it.
    pub(crate) fn has_deferred_ack(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|c| c.link.acks_on_poll() && c.link.received.deadline().is_some())
    }

    /// Handles the socket's refusal of a packet of `size` bytes.
    pub(crate) fn on_too_big(&mut self, now: Instant, size: usize, shared: &mut Shared) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let narrow = connection
            .link
            .on_too_big(now, size, &mut Unsent(&mut self.session));
        connection.log_resized(now, &mut shared.log);
        if narrow {
            self.tell_narrow(now, shared);
        }
    }

    /// Tells the program that the path does not carry packets that every path must.
    fn tell_narrow(&mut self, now: Instant, shared: &mut Shared) {
        let (node, reason) = (self.node, RefusedReason::Narrow);
        self.log_refused(now, reason, &mut shared.log);
        self.push_event(Event::Refused { node, reason }, &mut shared.notices);
    }

    /// Tells the program if lost packets proved that the path does not carry packets that every
    /// path must.
    fn report_narrow(&mut self, now: Instant, shared: &mut Shared) {
        let connection = self.connection.as_mut();
        if connection.is_some_and(|c| c.link.mtu.has_proved_narrow()) {
            self.tell_narrow(now, shared);
        }
    }

    /// Grows the session's window towards its share, if the program took messages since the last
    /// output.
    #[inline(always)]
    pub(super) fn renew_memory(&mut self, memory: &mut MemoryShares) {
        if core::mem::take(&mut self.took_messages)
            && self.session.promise.window > 0
            && self.session.is_established()
            && memory.grow(&mut self.session.promise)
        {
            let window = self.session.promise.window;
            self.session.inbox.set_windows(window / 2, window);
        }
        self.renew_large(memory);
    }

    /// Sets the memory promised to large messages to the amount that they hold and the next one
    /// wants, as far as memory is free. A peer that cannot send now (silent or suspended) wants
    /// none, and does not make other peers wait for the memory that it holds.
    pub(super) fn renew_large(&mut self, memory: &mut MemoryShares) {
        let able = self.carries_data() && (self.is_itself || self.connection.is_some());
        let inbox = &mut self.session.inbox;
        let held = inbox.large_held();
        let wanted = inbox.large_wanted().filter(|_| able);
        let promise = &mut self.session.promise;
        let stalled = if able { 0 } else { inbox.unfinished_bytes() };
        memory.set_stalled(promise, stalled);
        if wanted.is_none() && held == promise.large && !promise.is_waiting() {
            return;
        }
        memory.large(promise, held, wanted, self.key);
        inbox.set_large_budget(self.session.promise.large);
    }

    /// Returns the bytes held for the program.
    pub(crate) fn memory_used(&self) -> u64 {
        self.session.inbox.memory_used() + self.events.held()
    }

    /// Checks the invariants between the parts. `listed`: the engine is about to check the peer.
    pub(crate) fn audit(&self, now: Instant, listed: bool) -> Result<(), String> {
        if let Some(Err(due)) = self.connection.as_ref().map(|c| c.link.credit.check(now)) {
            return Err(format!(
                "node {}: BLOCKED is repeated at {due:?} only",
                self.node
            ));
        }
        let unwatched = |c: &Connection| {
            c.link.recovery.has_eliciting_in_flight()
                && c.link
                    .recovery
                    .next_timeout(c.link.params.max_ack_delay)
                    .is_none()
        };
        if self.connection.as_deref().is_some_and(unwatched) {
            return Err(format!(
                "node {}: no timer for what is in flight",
                self.node
            ));
        }
        if let Some(Err(what)) = self.connection.as_ref().map(|c| c.link.recovery.audit()) {
            return Err(format!("node {}: {what}", self.node));
        }
        let abandoned = !self.session.outbox.is_empty()
            && self.connection.is_none()
            && self.attempt.is_none()
            && self.candidate_address(0).is_some();
        if abandoned {
            return Err(format!("node {}: nobody takes up what waits", self.node));
        }
        let begun = usize::from(self.session.has_begun());
        let (unread, ends) = (self.events.unread(), self.events.ends());
        if unread + begun > MAX_UNREAD || ends > unread + 1 {
            return Err(format!(
                "node {}: {unread} sessions unread, {ends} ends to be told",
                self.node
            ));
        }
        if let Some(reason) = self.waits.reason()
            && self.session.outbox.is_empty()
            && !listed
        {
            return Err(format!(
                "node {}: nothing is queued and waits for {reason:?}",
                self.node
            ));
        }
        let (used, granted) = self.session.outbox.session_credit();
        if used > granted {
            return Err(format!(
                "node {}: {used} of {granted} B memory credit used",
                self.node
            ));
        }
        let held = self.session.inbox.memory_used();
        let Promise { window, large, .. } = self.session.promise;
        if held > window.saturating_add(large) {
            return Err(format!(
                "node {}: {held} B held, promised {window} B and {large} B for large messages",
                self.node
            ));
        }
        Ok(())
    }

    /// Returns the presumed address of the peer.
    pub(crate) fn path_address(&self) -> Option<SocketAddr> {
        self.connection
            .as_ref()
            .map_or(self.last_source.or(self.book.first()), |c| {
                Some(c.link.path.address())
            })
    }

    /// Returns the address of an attempt. While the link is up, that is the path or, in turn with
    /// it, the new address of the peer's packets: a connection whose keys may not be used any more
    /// cannot challenge it. Otherwise `index` selects one of several: the book's addresses, then
    /// the address where the peer was last heard, then the address where it was heard before
    /// another process with its ID replaced it.
    pub(super) fn candidate_address(&self, index: usize) -> Option<SocketAddr> {
        let count = self.candidates().count();
        self.candidates().nth(index.checked_rem(count)?)
    }

    /// Returns the addresses among which [`Self::candidate_address`] selects.
    pub(super) fn candidates(&self) -> impl Iterator<Item = SocketAddr> {
        let connection = self.connection.as_ref();
        let path = connection.filter(|_| self.life.link() == LinkState::Up);
        let path = path.map(|connection| &connection.link.path);
        let heard = [self.last_source, self.previous_source.as_deref().copied()];
        let heard = heard.into_iter().flatten();
        let heard = heard.filter(|at| !self.book.contains(*at));
        let others = self.book.as_slice().iter().copied().chain(heard);
        path.map(Path::address)
            .into_iter()
            .chain(path.and_then(Path::new_address))
            .chain(others.filter(move |_| path.is_none()))
    }

    /// Returns the state of the link; `None` for a stranger of which only the data that detects
    /// replays is left.
    pub(crate) fn info(&self) -> Option<PeerInfo> {
        let known = !self.book.is_empty();
        let link = self.life.link();
        let left = known || link != LinkState::Idle || self.has_untold();
        left.then(|| PeerInfo {
            node: self.node,
            address: self.path_address(),
            link,
            known,
            absent: self.is_absent(),
        })
    }

    /// Returns the statistics of the peer now.
    pub(crate) fn stats(&self, now: Instant) -> PeerStats {
        let connection = self.connection.as_ref();
        let rtt = connection.map(|c| c.link.recovery.rtt());
        let queued = self.session.outbox.queued().open();
        PeerStats {
            node: self.node,
            address: self.path_address(),
            link: self.life.link(),
            suspended_here: self.session.suspension.ours(),
            suspended_there: self.session.suspension.theirs(),
            rtt: rtt.map_or(Duration::ZERO, |r| r.path()),
            min_rtt: rtt
                .filter(|r| r.has_sample())
                .map_or(Duration::ZERO, |r| r.min()),
            rtt_variance: rtt.map_or(Duration::ZERO, |r| r.variance()),
            congestion_window: connection.map_or(0, |c| c.link.congestion.window()),
            in_flight: connection.map_or(0, |c| c.link.recovery.in_flight()),
            mode: self.mode(),
            remote_mode: connection.map_or(Mode::Adaptive, |c| c.link.modes.theirs()),
            mtu: connection.map_or(limits::MIN_MTU, |c| c.link.mtu.current()),
            marks_stopped: connection.is_some_and(|c| c.link.ecn.is_stopped()),
            socket_credit: connection.map_or(0, |c| {
                c.link
                    .numbers
                    .peek()
                    .map_or(0, |n| c.link.credit.data_allowance(n, now))
            }),
            queued_messages: queued.messages,
            queued_bytes: queued.bytes,
            traffic: self.traffic,
            waits: self.waits.until(now),
            waiting: self.waits.reason(),
        }
    }

    /// Returns the packets sent and received.
    pub(crate) fn packets(&self) -> u64 {
        let Traffic {
            packets_sent,
            packets_received,
            ..
        } = self.traffic;
        packets_sent.wrapping_add(packets_received)
    }

    /// Counts messages that are taken out of their channels, here and for `all` peers.
    pub(crate) fn count_received(&mut self, messages: u64, bytes: u64, all: &mut Counters) {
        self.traffic.messages_received += messages;
        self.traffic.message_bytes_received += bytes;
        all.messages_received += messages;
    }
}
