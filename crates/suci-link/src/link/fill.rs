//! Filling a train: how many packets may go now, and of which kind.
//!
//! Messages are limited by the congestion window, the pacer, the peer's credit, the program's
//! steering function and its rate cap; the cargo itself knows the limits of the peer's memory.
//! Control frames need credit, which has a reserve for them. Ack-eliciting packets without messages
//! are also bounded in number ([`Link::may_elicit`]).

use super::build::{Contents, Permit};
use super::{Cargo, Held, Link, Recorded};
use crate::credit::ControlAllowance;
use crate::limits;
use crate::recovery::Content;
use crate::time::{Duration, Instant, nanos};
use crate::train::Train;
use crate::types::Ecn;
use crate::wire::Mode;

/// Longest time of a train on the wire at the pacing rate: no packet can overtake a train that the
/// socket has taken. At higher rates a train reaches its largest number of packets or bytes first.
const TRAIN: Duration = Duration::from_micros(50);

/// The same if urgent data may follow: the peer prefers response, or a higher class is in use.
const SHORT_TRAIN: Duration = Duration::from_micros(25);

/// Packets that a train may have at any pacing rate, however low.
const SHORTEST_TRAIN: usize = 2;

/// Packets of the window (at most an eighth of it) and of the pacer's budget that a class leaves to
/// higher classes on the same connection.
const RESERVE: u64 = 2;

/// The newest packet of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    /// Its length in bytes. The packets behind it have the same length, except the last.
    pub(super) len: usize,
    /// As [`Contents::messages_only`].
    pub(super) messages_only: bool,
    /// The number of packets with messages only that may follow it. `None` until
    /// [`Link::permit_to_follow`] has counted them.
    pub(super) more: Option<u64>,
}

impl<T: Content> Link<T> {
    /// Begins a train on the path, and fills it with as many packets of one size as may be sent, at
    /// most `max_segments`, fewer if others outrank the peer (`outranked`). `frames` is memory to
    /// work with. Returns true if nothing is left that could be sent later.
    pub fn fill(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        frames: &mut Vec<Recorded<T>>,
    ) -> bool {
        self.begin_filling(now, train);
        let last = self.add_packets(now, max_segments, outranked, cargo, train, frames);
        self.note_blocked(now, cargo);
        last
    }

    /// Begins a train on the path, and forgets the limits of the one before.
    fn begin_filling(&mut self, now: Instant, train: &mut Train) {
        self.bind_size(now);
        if let Some(until) = self.paced_until {
            self.note_late(now, until);
            self.paced_until = None;
        }
        self.capped_until = None;
        self.reserve = 0;
        self.begin_train(self.destination(), Ecn::NotEct, train);
    }

    fn add_packets(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        frames: &mut Vec<Recorded<T>>,
    ) -> bool {
        let mut newest: Option<Newest> = None;
        let mut most = max_segments;
        let mut last = false;
        while train.segments() < most {
            // Most trains have one packet, for which this bound is not needed.
            if train.segments() == 1 {
                most = most.min(self.train_packets(now, outranked, cargo));
            }
            let follow = newest.and_then(|newest| self.permit_to_follow(now, newest, cargo));
            if let (Some(newest), Some(follow)) = (&mut newest, follow)
                && let Some(more) = self.build_pieces(now, follow, most, cargo, train, frames)
            {
                newest.more = Some(more);
                continue;
            }
            let mut permit = match follow.map_or_else(|| self.permit(now, cargo), Ok) {
                Ok(permit) => permit,
                Err(wait) => {
                    // Messages that wait for memory credit are reported in a later packet.
                    last = wait.is_none();
                    break;
                }
            };
            if let Some(Newest { len, .. }) = newest {
                if permit.size < len || (train.segments() + 1) * len > limits::MAX_DATAGRAM {
                    break;
                }
                permit.size = len;
            }
            let Some((len, contents)) = self.build_packet(now, permit, cargo, train, frames) else {
                break;
            };
            debug_assert!(
                len <= permit.size,
                "{len} bytes in a packet of {}",
                permit.size
            );
            if len < permit.size {
                // A shorter packet ends its train.
                last = self.is_last(now, contents, cargo);
                break;
            }
            newest = Some(Newest {
                len,
                messages_only: contents.messages_only,
                more: permit.more,
            });
        }
        last
    }

    /// Returns true if nothing waits behind a packet that was not filled.
    fn is_last(&self, now: Instant, contents: Contents, cargo: &mut impl Cargo<T>) -> bool {
        let last = !contents.leaves_some && !cargo.is_sendable() && cargo.wait_reason().is_none();
        debug_assert!(!last || !self.wants_control(now, cargo), "{contents:?}");
        last
    }

    /// Returns the maximum number of packets in a train.
    fn train_packets(&self, now: Instant, outranked: bool, cargo: &mut impl Cargo<T>) -> usize {
        let Some(rate) = self.rate(now, self.mtu.current() as u64) else {
            return limits::MAX_SEGMENTS;
        };
        let outranked = outranked || (cargo.is_sendable() && cargo.is_outranked());
        let urgent = outranked || self.modes.ours() == Mode::Response;
        let time = if urgent { SHORT_TRAIN } else { TRAIN };
        let bytes = rate.saturating_mul(nanos(time)) / 1_000_000_000;
        let packets = bytes / self.mtu.current() as u64;
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .max(SHORTEST_TRAIN)
    }

    /// Decides about the next packet: returns its permit, or the limit for which messages or
    /// control frames wait. The limit is `None` if there is nothing to send.
    fn permit<C: Cargo<T>>(
        &mut self,
        now: Instant,
        cargo: &mut C,
    ) -> Result<Permit, Option<C::Wait>> {
        if self.pending.small_ping
            && self.pending.probes <= 1
            && let Some(permit) = self.control_permit(now, cargo)
        {
            return Ok(Permit {
                size: limits::CONTROL_PACKET,
                ..permit
            });
        }
        match self.data_permit(now, cargo) {
            Err(wait) if self.wants_control(now, cargo) => {
                let wait = wait.unwrap_or_else(|| Held::Credit.into());
                self.control_permit(now, cargo).ok_or(Some(wait))
            }
            decided => decided,
        }
    }

    /// Returns the first limit that stops all messages: `None` if no message waits, or if a new
    /// connection is due.
    pub fn held<C: Cargo<T>>(&mut self, now: Instant, cargo: &mut C) -> Option<C::Wait> {
        self.data_permit(now, cargo).err().flatten()
    }

    /// Returns the permit of a packet that carries messages, or what [`held`](Self::held) returns.
    fn data_permit<C: Cargo<T>>(
        &mut self,
        now: Instant,
        cargo: &mut C,
    ) -> Result<Permit, Option<C::Wait>> {
        if !cargo.is_sendable() {
            return Err(cargo.wait_reason());
        }
        let stopped = |held: Held| Some(held.into());
        if cargo.is_dismissed() {
            return Err(stopped(Held::Dismissed));
        }
        let number = self.numbers.peek().ok_or(None)?;
        if !self.credit.may_send_data(number, now) {
            return Err(stopped(Held::Credit));
        }
        let size = self.mtu.current();
        self.reserve = match cargo.is_outranked() {
            true => RESERVE * size as u64,
            false => 0,
        };
        self.may_send(now, size as u64).map_err(stopped)?;
        self.capped_until = cargo.cap().and_then(|cap| cap.until(now, size as u64));
        if self.capped_until.is_some() {
            return Err(stopped(Held::Cap));
        }
        Ok(Permit {
            number,
            size,
            data: true,
            within_limit: true,
            more: None,
        })
    }

    /// Returns the permit of a packet of control frames, if socket credit allows it.
    fn control_permit(&mut self, now: Instant, cargo: &impl Cargo<T>) -> Option<Permit> {
        let number = self.numbers.peek()?;
        let (size, within_limit) = match self.credit.may_send_control(number, now) {
            ControlAllowance::WithinLimit => (self.mtu.current(), true),
            ControlAllowance::Reserve if self.wants_reserve(now) || cargo.owes_credit() => {
                (limits::CONTROL_PACKET, false)
            }
            ControlAllowance::Reserve => return None,
            ControlAllowance::NotBefore(until) => {
                self.control_at = Some(until);
                return None;
            }
        };
        Some(Permit {
            number,
            size,
            data: false,
            within_limit,
            more: None,
        })
    }

    /// Returns true if control frames need a packet even if no message may be sent.
    pub fn wants_control(&self, now: Instant, cargo: &impl Cargo<T>) -> bool {
        let elicits = || (!cargo.is_over() && self.wants_to_tell_mode()) || cargo.has_answers();
        self.wants_reserve(now) || cargo.owes_credit() || (elicits() && self.may_elicit())
    }

    /// Starts the timer of BLOCKED if messages wait for credit, and stops it otherwise.
    fn note_blocked(&mut self, now: Instant, cargo: &mut impl Cargo<T>) {
        let Some(number) = self.numbers.peek() else {
            return;
        };
        let size = self.mtu.current() as u64;
        let sendable = cargo.is_sendable();
        let socket_short = sendable && !self.credit.may_send_data(number, now);
        let held = self.capped_until.is_some() || self.is_held(size);
        self.app_limited = !sendable || socket_short || held;
        if !sendable || socket_short {
            self.cwnd_validation.on_short();
        } else if self.is_full(size) {
            self.cwnd_validation.on_full_window();
        }
        if self.app_limited {
            self.recovery.on_app_limited();
        }
        if socket_short {
            self.credit.on_used_up(now);
        }
        let answers_short = || {
            let waits = cargo.has_answers() && cargo.is_up();
            waits && !self.credit.may_send_data(number, now)
        };
        if socket_short || (!sendable && cargo.is_short_of_memory()) || answers_short() {
            self.credit.on_waiting(now, self.probe_timeout());
        } else {
            self.credit.on_idle(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::ControllerChoice;
    use crate::link::{Agreed, End, LinkSettings, Numbers, Written};
    use crate::recovery::Recovery;
    use crate::wire::{Credit, Params};
    use std::net::SocketAddr;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Nothing {}

    impl Content for Nothing {}

    /// A session with messages, whose peer gave its slot to another.
    struct Dismissed;

    impl Cargo<Nothing> for Dismissed {
        type Wait = Held;

        fn is_sendable(&mut self) -> bool {
            true
        }

        fn is_dismissed(&self) -> bool {
            true
        }

        fn write(&mut self, _: usize, _: &mut Train, _: &mut Vec<Recorded<Nothing>>) -> Written {
            unreachable!("nothing goes to it")
        }

        fn random(&mut self) -> u64 {
            1
        }
    }

    /// Its messages go nowhere, but still ask for credit when that is due: otherwise nobody would
    /// notice that the peer has forgotten the connection.
    #[test]
    fn messages_for_a_dismissed_peer_wait_for_credit() {
        let (now, end) = (Instant::ZERO, End { index: 0, tag: 1 });
        let agreed = Agreed {
            local: end,
            remote: end,
            params: Params::default(),
            grant: Credit::default(),
            answered: now,
            first: 0,
            address: SocketAddr::from(([127, 0, 0, 1], 7_000)).into(),
            keys: None,
            numbers: Numbers::new(1, 1),
            recovery: Recovery::new(1, Duration::from_millis(1)),
            mode: Mode::Adaptive,
        };
        let (controller, settings) = (ControllerChoice::default(), LinkSettings::default());
        let mut link = Link::new(agreed, controller, settings, now);
        // The only number that the grant allows was used.
        link.credit.on_sent(1, now, true);
        link.numbers.advance(1, || 1);
        let (mut train, mut frames) = (Train::default(), Vec::new());
        assert_eq!(link.held(now, &mut Dismissed), Some(Held::Dismissed));
        link.fill(now, 1, false, &mut Dismissed, &mut train, &mut frames);
        assert!(!train.is_pending() && link.credit.blocked_timer().is_some());
    }
}
