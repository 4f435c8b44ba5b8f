//! Takes datagrams out of the socket.

use super::Driver;
use crate::clock::Clock;
use crate::error::Error;
use crate::launcher::{Launcher, Notice};
use crate::shared::{CrossShardMessage, CrossShardQueue};
use std::io::{self, ErrorKind};
use std::time::Duration;
use suci_layers::routes::Behind;
use suci_net::{Backend, Report};
use suci_proto::time::Instant;
use suci_proto::types::Ecn;
use suci_proto::{Arrival, Engine, Undelivered, Unreachable};

/// Maximum number of datagrams that one poll of the socket takes before output follows: as many
/// small ones as arrive in about [`MAX_POLL_TIME`]. It also bounds those of other shards, between
/// which no clock is read.
const MAX_DATAGRAMS: usize = 1_024;

/// Longest time of a poll, whatever the datagrams hold: calls have time limits, and output waits. A
/// poll before timers may last longer (`MAX_POLL_TIME_BEFORE_TIMERS`), and takes at least
/// `MIN_DATAGRAMS` datagrams even if this process was held up: if an acknowledgement stayed in the
/// socket, its packets would count as lost. So many cover several windows of each busy peer, since
/// a window is acknowledged by about four packets. (Tests have longer limits, because they are held
/// up for longer.)
pub(super) const MAX_POLL_TIME: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 1 });
pub(super) const MAX_POLL_TIME_BEFORE_TIMERS: Duration =
    Duration::from_millis(if cfg!(test) { 300 } else { 10 });
pub(super) const MIN_DATAGRAMS: usize = 8 * BULK;

/// Datagrams asked of the socket at once while many arrive. The clock is read after so many, at
/// most 512 KiB: that is often enough for [`MAX_POLL_TIME`].
pub(super) const BULK: usize = 8;

/// How long a poll of the socket goes on although the program has a message to take, or although
/// all datagrams that were there when it began are taken. It must end. While packets arrive about
/// as fast as they are taken, the socket is never empty, and a peer that sent a request would wait
/// for its reply until the others pause.
pub(super) const MIN_POLL_TIME: Duration = Duration::from_micros(50);

/// The charge of the receive buffer is checked once in this many polls. A check costs about as much
/// as a poll, so less than 2 % of their time.
const CHECK_EVERY: u32 = 64;

/// The charge is also checked whenever the last poll is this long ago.
const CHECK_AFTER: Duration = Duration::from_millis(20);

/// Takes datagrams that came together.
type Sink<'a> = &'a mut dyn FnMut(&suci_net::Meta, &mut [u8]);

/// The step of the driver cycle that follows a poll of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Output,
    /// Timers are due. The poll must not leave acknowledgements in the socket.
    Timers,
}

/// The result of the last poll of the socket, and what the next one expects.
pub(super) struct LastPoll {
    /// Time at which it began.
    pub(super) at: Instant,
    /// The next poll asks for several datagrams at once. Otherwise it takes one and hands it on
    /// first. A poll that found several sets it, and so does a step for which a late first message
    /// matters less than a system call for each datagram.
    pub(super) expects_many: bool,
    /// It left nothing in the socket, as far as is known.
    pub(super) drained: bool,
    /// It ended early: more datagrams wait.
    pub(super) cut_short: bool,
    /// Time at which the socket was last seen empty. A datagram found later arrived after that.
    pub(super) drained_at: Instant,
    /// Time at which its newest datagram arrived, if the kernel reported it.
    pub(super) newest: Option<Instant>,
    /// Polls since the driver last asked the kernel how much the receive buffer is charged.
    unchecked: u32,
}

impl LastPoll {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            at: now,
            expects_many: false,
            drained: false,
            cut_short: false,
            drained_at: now,
            newest: None,
            unchecked: 0,
        }
    }

    /// A receive that blocked ended `now`, with this many datagrams or without any.
    pub(super) fn on_receive(&mut self, now: Instant, got: Option<usize>) {
        self.at = now;
        self.drained = got.is_none();
        if self.drained {
            self.drained_at = now;
        }
    }
}

impl Driver {
    /// Hands datagrams to the engine until the socket is empty, [`MAX_DATAGRAMS`] datagrams were
    /// taken, or the poll has lasted long ([`Driver::is_long`]). While few arrive, it takes one
    /// datagram without asking whether there is another, which would cost a system call in every
    /// round trip.
    pub(super) fn drain(&mut self, follows: Follows) -> Result<(), Error> {
        let began = self.now;
        self.check_charge();
        let unread = self.has_message();
        let mut ask = if self.last_poll.expects_many { BULK } else { 1 };
        self.last_poll.at = began;
        self.last_poll.cut_short = false;
        self.last_poll.newest = None;
        let mut total = 0;
        loop {
            let (got, late) = self.take(began, false, |socket, sink| socket.recv(ask, sink))?;
            total += got;
            self.last_poll.drained = got < ask;
            if self.last_poll.drained || (got == 1 && ask == 1) {
                break;
            }
            let held_up = follows == Follows::Timers && total < MIN_DATAGRAMS && !late;
            if total >= MAX_DATAGRAMS || (!held_up && self.is_long(began, follows, unread, late)) {
                self.last_poll.cut_short = true;
                break;
            }
            ask = BULK;
        }
        self.last_poll.expects_many = total > 1;
        if self.last_poll.drained {
            self.last_poll.drained_at = began;
        }
        if total > 0 {
            self.waiter.on_input();
        }
        if let Some(cross_shard) = &mut self.cross_shard {
            cross_shard.wake();
        }
        if self.last_poll.expects_many {
            self.read_clock();
        }
        Ok(())
    }

    /// Hands datagrams and reports from other shards' sockets to the engine. Moves `now` on if one
    /// of those datagrams arrived later.
    pub(super) fn take_forwarded(&mut self) {
        let Some(cross_shard) = &self.cross_shard else {
            return;
        };
        for _ in 0..MAX_DATAGRAMS {
            match cross_shard.receive() {
                Some(CrossShardMessage::Datagram {
                    mut arrival,
                    mut bytes,
                }) => {
                    arrival.at = arrived_by(&mut self.now, arrival.at);
                    self.engine.handle_datagram(self.now, &arrival, &mut bytes);
                }
                Some(CrossShardMessage::Report(report)) => {
                    undelivered(&mut self.engine, self.now, &report)
                }
                Some(CrossShardMessage::Notice(notice)) => self.notices.push(notice),
                Some(CrossShardMessage::Routed(next, message)) => {
                    if let Some(part) = &mut self.routes {
                        part.send(&mut self.engine, self.now, next, *message);
                    }
                }
                None => break,
            }
        }
    }

    /// Hands the socket's reports of undelivered datagrams to the engine, and to the other shards:
    /// the kernel gives a report to any of the node's sockets. Returns whether there was one.
    #[inline]
    pub(super) fn take_reports(&mut self) -> bool {
        let mut any = false;
        while let Some(report) = self.backend.next_report() {
            undelivered(&mut self.engine, self.now, &report);
            if let Some(cross_shard) = &mut self.cross_shard {
                cross_shard.spread(report);
                cross_shard.wake();
            }
            any = true;
        }
        any
    }

    /// Reads from the launcher which processes have ended and which it supervises, and tells the
    /// engine once the socket is empty: packets that an ended process sent come first. Notices for
    /// other shards are forwarded.
    #[cold]
    pub(super) fn take_notices(&mut self) {
        let now = self.now;
        if let Some(launcher) = self.launcher.as_mut().filter(|it| it.is_due(now))
            && self.notices.is_empty()
        {
            launcher.read(now, &mut self.notices);
        }
        if !self.last_poll.drained {
            return;
        }
        let reads = self.launcher.is_some();
        let Self {
            notices,
            cross_shard,
            engine,
            ..
        } = self;
        notices.retain(|notice| match (*notice, cross_shard.as_mut()) {
            (Notice::Ended { node, .. }, Some(cross_shard)) if !cross_shard.owns(node) => {
                !cross_shard.tell(node, *notice)
            }
            (Notice::Ended { node, end }, _) => {
                engine.on_process_ended(now, node, end);
                false
            }
            (
                Notice::Supervised {
                    first,
                    last,
                    supervised,
                },
                cross_shard,
            ) => {
                engine.set_supervised(first.0..=last.0, supervised);
                // Each shard has some of the nodes.
                let others = cross_shard.filter(|_| reads);
                others.is_some_and(|others| !others.tell_all(*notice))
            }
        });
        if notices.is_empty() && self.launcher.as_ref().is_some_and(Launcher::is_closed) {
            self.launcher = None;
        }
        if let Some(cross_shard) = cross_shard {
            cross_shard.wake();
        }
    }

    /// Whether the poll that began at `began` has lasted long enough.
    ///
    /// A poll before output lasts up to 1 ms. It ends earlier if a thread interrupts, or once the
    /// program has a message and had none before. (A program that leaves messages `unread` waits
    /// for none, and each of its polls would end at once.) A poll before timers ends when
    /// everything is taken that was there as it began.
    fn is_long(&self, began: Instant, follows: Follows, unread: bool, late: bool) -> bool {
        let (enough, most) = match follows {
            Follows::Output => {
                let message = !unread && self.engine.has_message();
                if self.is_interrupted() {
                    return true;
                }
                (message || self.engine.has_call(), MAX_POLL_TIME)
            }
            Follows::Timers => (late, MAX_POLL_TIME_BEFORE_TIMERS),
        };
        Clock.now().since(began) >= if enough { MIN_POLL_TIME } else { most }
    }

    /// Compares the kernel's charge of the receive buffer with the credit granted to peers. It
    /// costs a system call, so it is done once in [`CHECK_EVERY`] polls, and whenever the last poll
    /// was long ago, when the buffer holds most.
    pub(super) fn check_charge(&mut self) {
        let last = &mut self.last_poll;
        last.unchecked += 1;
        if last.unchecked < CHECK_EVERY && self.now.since(last.at) < CHECK_AFTER {
            return;
        }
        last.unchecked = 0;
        if let Some(charged) = self.backend.charged() {
            self.engine.on_charged(charged);
        }
    }

    /// Hands the datagrams that `receive` gets to the engine, in a poll that `began` then. Moves
    /// `now` on if one of them arrived later. A receive that `blocks` begins a cycle when it wakes
    /// up. Returns the result of `receive`, and whether the last datagram had arrived after the
    /// poll began.
    pub(super) fn take<T>(
        &mut self,
        began: Instant,
        blocks: bool,
        receive: impl FnOnce(&mut dyn Backend, Sink<'_>) -> io::Result<T>,
    ) -> Result<(T, bool), Error> {
        let Self {
            backend,
            engine,
            now,
            stamps,
            last_poll,
            cross_shard,
            ..
        } = self;
        let mut asleep = blocks;
        let mut wake = |engine: &mut Engine, now: &mut Instant| {
            if std::mem::take(&mut asleep) {
                *now = Clock.now();
                engine.begin_cycle(*now);
            }
        };
        let mut late = false;
        let got = receive(&mut **backend, &mut |meta, bytes| {
            wake(engine, now);
            let at = match meta.arrived {
                Some(wall) => stamps.arrival(wall, *now),
                None => Clock.now(),
            };
            late = at > began;
            last_poll.newest = meta.arrived.map(|_| at);
            let at = arrived_by(now, at.max(last_poll.drained_at));
            #[cfg(suci_plant)]
            if suci_proto::plant::active("stale-clock") && !blocks {
                *now = began;
                return hand(engine, cross_shard, began, at.min(began), meta, bytes);
            }
            hand(engine, cross_shard, *now, at, meta, bytes);
        });
        wake(engine, now);
        let got = got.map_err(Error::io("receiving from the socket"))?;
        Ok((got, late))
    }
}

/// Moves `now` on if a datagram that was stamped `at` arrived after the clock was read. Returns
/// when it arrived, at most `now`.
///
/// A round trip ends at `now`. An earlier reading of the clock would make it shorter than it was.
fn arrived_by(now: &mut Instant, at: Instant) -> Instant {
    if at > *now {
        *now = Clock.now().max(*now);
    }
    at.min(*now)
}

/// Hands datagrams that came together, at `arrived` or later, to the engine. Forwards those of
/// other shards.
fn hand(
    engine: &mut Engine,
    cross_shard: &mut Option<CrossShardQueue>,
    now: Instant,
    arrived: Instant,
    meta: &suci_net::Meta,
    bytes: &mut [u8],
) {
    if Behind::at(meta.from).is_some() {
        // Only packets that neighbours send on have such an address.
        return;
    }
    let arrival = Arrival {
        from: meta.from,
        to: meta.to,
        ecn: ecn_in(meta.ecn),
        at: arrived,
    };
    let has_misdirected = |cross_shard: &CrossShardQueue| {
        meta.datagrams(bytes)
            .any(|d| cross_shard.other_owner(d).is_some())
    };
    match cross_shard
        .as_mut()
        .filter(|cross_shard| has_misdirected(cross_shard))
    {
        None => engine.handle_train(now, &arrival, meta.segment, bytes),
        Some(cross_shard) => bytes
            .chunks_mut(meta.segment.max(1))
            .for_each(|datagram| hand_or_forward(engine, cross_shard, now, &arrival, datagram)),
    }
}

/// Hands one datagram to the engine, or forwards it to the shard that owns its peer.
pub(super) fn hand_or_forward(
    engine: &mut Engine,
    cross_shard: &mut CrossShardQueue,
    now: Instant,
    arrival: &Arrival,
    datagram: &mut [u8],
) {
    let Some(owner) = cross_shard.other_owner(datagram) else {
        return engine.handle_datagram(now, arrival, datagram);
    };
    let forwarded = CrossShardMessage::Datagram {
        arrival: *arrival,
        bytes: (&*datagram).into(),
    };
    let forwarded = cross_shard.forward(owner, forwarded);
    engine.on_misdirected(forwarded);
}

/// Hands the engine a report that a datagram was not delivered.
#[cold]
fn undelivered(engine: &mut Engine, now: Instant, report: &Report) {
    let report = Undelivered {
        to: report.to,
        why: unreachable(report.kind),
        local: report.local,
        quoted: report.quoted(),
    };
    engine.on_undelivered(now, &report);
}

/// Translates the system's error about a destination.
pub(super) fn unreachable(kind: ErrorKind) -> Unreachable {
    match kind {
        ErrorKind::ConnectionRefused => Unreachable::Port,
        ErrorKind::HostUnreachable => Unreachable::Host,
        ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Unreachable::Network,
        ErrorKind::PermissionDenied => Unreachable::Prohibited,
        _ => Unreachable::Other,
    }
}

fn ecn_in(ecn: suci_net::Ecn) -> Ecn {
    match ecn {
        suci_net::Ecn::NotEct => Ecn::NotEct,
        suci_net::Ecn::Ect0 => Ecn::Ect0,
        suci_net::Ecn::Ect1 => Ecn::Ect1,
        suci_net::Ecn::Ce => Ecn::Ce,
    }
}
