//! Why messages wait: for each reason how long, and how often.
//!
//! A program that sends more slowly than its network could carry wants to know which limit holds it
//! back. The limit changes within a round trip, so samples tell little. Instead a clock counts the
//! time of each wait for the reason that blocked the messages then.

use core::fmt;
use suci_link::link::Held;
use suci_link::time::{Duration, Instant};

/// A reason why messages that are ready are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum WaitReason {
    /// There is no connection yet, or the peer is silent.
    Link,
    /// One side suspended the session.
    Suspended,
    /// The congestion window is full.
    Congestion,
    /// The pacer spreads packets over time.
    Pacing,
    /// The receiver granted no more room in its socket's receive buffer.
    SocketCredit,
    /// The receiver's program has not taken enough of the earlier messages, over all channels.
    SessionMemory,
    /// The receiver's program has not taken enough of the earlier messages on this channel.
    ChannelMemory,
    /// The RTS of a large message was sent, and the receiver has not answered.
    Answer,
    /// The program's steering function (`Steer`) holds the messages back.
    Steering,
    /// The rate cap that the program set holds the messages back
    /// (`Engine::change_options`).
    Cap,
    /// The socket of this node took no more: the device or its queue is busy.
    Socket,
}

impl From<Held> for WaitReason {
    fn from(held: Held) -> Self {
        match held {
            Held::Steering => Self::Steering,
            Held::Congestion => Self::Congestion,
            Held::Pacing => Self::Pacing,
            Held::Credit => Self::SocketCredit,
            Held::Cap => Self::Cap,
            Held::Dismissed => Self::Link,
        }
    }
}

impl WaitReason {
    /// The number of reasons.
    pub const COUNT: usize = 11;

    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Link,
        Self::Suspended,
        Self::Congestion,
        Self::Pacing,
        Self::SocketCredit,
        Self::SessionMemory,
        Self::ChannelMemory,
        Self::Answer,
        Self::Steering,
        Self::Cap,
        Self::Socket,
    ];

    /// Returns a short name: lower case, words joined by underscores.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Suspended => "suspended",
            Self::Congestion => "congestion",
            Self::Pacing => "pacing",
            Self::SocketCredit => "socket_credit",
            Self::SessionMemory => "session_memory",
            Self::ChannelMemory => "channel_memory",
            Self::Answer => "answer",
            Self::Steering => "steering",
            Self::Cap => "cap",
            Self::Socket => "socket",
        }
    }
}

/// How long and how often messages waited for one reason. Its `Debug` form reads `25µs (2 times)`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// Nanoseconds in all.
    pub nanos: u64,
    /// How often such a wait began.
    pub times: u64,
}

impl fmt::Debug for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.times == 1 { "" } else { "s" };
        let total = Duration::from_nanos(self.nanos);
        write!(f, "{total:?} ({} time{plural})", self.times)
    }
}

/// How long and how often messages waited for each reason. Only rises.
///
/// Its `Debug` form is a map of the reasons that ever occurred: `{congestion: 25µs (2 times)}`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits([Waited; WaitReason::COUNT]);

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = WaitReason::ALL
            .into_iter()
            .map(|reason| (reason, self.get(reason)))
            .filter(|(_, wait)| *wait != Waited::default());
        let mut map = f.debug_map();
        for (reason, wait) in met {
            map.entry(&format_args!("{}", reason.name()), &wait);
        }
        map.finish()
    }
}

impl Waits {
    /// Returns the waits for one reason.
    #[must_use]
    pub fn get(&self, reason: WaitReason) -> Waited {
        self.0.get(reason as usize).copied().unwrap_or_default()
    }

    /// Sets the waits for one reason.
    pub fn set(&mut self, reason: WaitReason, wait: Waited) {
        if let Some(slot) = self.0.get_mut(reason as usize) {
            *slot = wait;
        }
    }

    /// Returns the sum over all reasons, in nanoseconds: the time in which messages waited.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, wait| sum.saturating_add(wait.nanos))
    }

    /// Returns the reason with the longest time, if messages ever waited.
    #[must_use]
    pub fn worst(&self) -> Option<WaitReason> {
        let most = WaitReason::ALL
            .into_iter()
            .max_by_key(|r| self.get(*r).nanos)?;
        (self.get(most).nanos > 0).then_some(most)
    }

    /// Returns the difference from `before`, an earlier value.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut rest = *self;
        for reason in WaitReason::ALL {
            let (wait, old) = (self.get(reason), before.get(reason));
            let nanos = wait.nanos.saturating_sub(old.nanos);
            let times = wait.times.saturating_sub(old.times);
            rest.set(reason, Waited { nanos, times });
        }
        rest
    }
}

/// Adds up the times for which messages wait, by reason. A repeated reason costs only a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitClock {
    reason: Option<WaitReason>,
    since: Instant,
    waits: Waits,
}

impl WaitClock {
    /// Notes that from `now` on messages wait for `reason`, or that none waits.
    pub fn note(&mut self, now: Instant, reason: Option<WaitReason>) {
        if self.reason == reason {
            return;
        }
        self.waits = self.until(now);
        self.reason = reason;
        self.since = now;
        if let Some(reason) = reason {
            let Waited { nanos, times } = self.waits.get(reason);
            let times = times.saturating_add(1);
            self.waits.set(reason, Waited { nanos, times });
        }
    }

    /// Returns the reason for which messages wait now.
    #[must_use]
    pub const fn reason(&self) -> Option<WaitReason> {
        self.reason
    }

    /// Returns the waits until `now`, including the present one.
    #[must_use]
    pub fn until(&self, now: Instant) -> Waits {
        let mut waits = self.waits;
        if let Some(reason) = self.reason {
            let Waited { nanos, times } = waits.get(reason);
            let more = now.since(self.since).as_nanos();
            let nanos = nanos.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
            waits.set(reason, Waited { nanos, times });
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn every_reason_has_its_own_place_and_name() {
        let mut names = std::collections::BTreeSet::new();
        for (index, reason) in WaitReason::ALL.into_iter().enumerate() {
            assert_eq!(index, reason as usize);
            assert!(names.insert(reason.name()));
        }
    }

    #[test]
    fn time_goes_to_the_reason_that_stood_in_the_way() {
        let mut clock = WaitClock::default();
        clock.note(at(10), Some(WaitReason::Congestion));
        clock.note(at(30), Some(WaitReason::SocketCredit));
        clock.note(at(100), None);
        clock.note(at(200), Some(WaitReason::Congestion));
        clock.note(at(205), None);
        let waits = clock.until(at(1_000));
        let (nanos, times) = (25_000, 2);
        assert_eq!(waits.get(WaitReason::Congestion), Waited { nanos, times });
        let (nanos, times) = (70_000, 1);
        assert_eq!(waits.get(WaitReason::SocketCredit), Waited { nanos, times });
        assert_eq!(waits.nanos(), 95_000);
        assert_eq!(waits.worst(), Some(WaitReason::SocketCredit));
    }

    #[test]
    fn the_present_wait_counts_before_it_is_over_and_once() {
        let mut clock = WaitClock::default();
        clock.note(at(10), Some(WaitReason::Link));
        clock.note(at(20), Some(WaitReason::Link));
        let (nanos, times) = (40_000, 1);
        let sofar = clock.until(at(50));
        assert_eq!(sofar.get(WaitReason::Link), Waited { nanos, times });
        clock.note(at(60), None);
        let added = clock.until(at(70)).since(&sofar);
        let (nanos, times) = (10_000, 0);
        assert_eq!(added.get(WaitReason::Link), Waited { nanos, times });
    }

    #[test]
    fn debug_output_names_reasons_and_shows_units() {
        let mut clock = WaitClock::default();
        clock.note(at(10), Some(WaitReason::Congestion));
        clock.note(at(30), Some(WaitReason::SocketCredit));
        clock.note(at(1_500_030), Some(WaitReason::Congestion));
        clock.note(at(1_500_035), None);
        let shown = format!("{:?}", clock.until(at(2_000_000)));
        let expected = "{congestion: 25µs (2 times), socket_credit: 1.5s (1 time)}";
        assert_eq!(shown, expected);
        assert_eq!(format!("{:?}", Waits::default()), "{}");
        // It is short also among the figures of a peer.
        assert_eq!(format!("{:?}", Waited::default()), "0ns (0 times)");
    }

    #[test]
    fn without_a_wait_there_is_no_worst() {
        let mut clock = WaitClock::default();
        clock.note(at(10), None);
        assert_eq!(clock.until(at(50)), Waits::default());
        assert_eq!(clock.until(at(50)).worst(), None);
    }

    /// A clock that seems to go back adds nothing.
    #[test]
    fn time_never_runs_backwards() {
        let mut clock = WaitClock::default();
        clock.note(at(10), Some(WaitReason::Cap));
        clock.note(at(5), None);
        assert_eq!(clock.until(at(5)).get(WaitReason::Cap).nanos, 0);
    }
}
