//! The kernel's receive buffer of one process, charged as Linux charges it.

use std::collections::VecDeque;

use suci_proto::time::{Duration, Instant};

use crate::packet::Packet;

/// A stop longer than this (L) excuses overrun: promise 7 of ARCHITECTURE.md.
pub const LONGEST_EXCUSED_STOP: Duration = Duration::from_secs(10);

/// Returns the bytes that the kernel charges a datagram with this many bytes of payload (measured
/// true sizes).
#[must_use]
pub fn charge(payload: usize) -> u64 {
    match payload {
        0..=128 => 832,
        129..=512 => 1_280,
        513..=1_472 => 2_304,
        1_473..=4_096 => 8_448,
        // Between the two points that were measured: 4 KiB 8,448 and 64 KiB 66,339.
        longer => 8_448 + (longer as u64 - 4_096) * (66_339 - 8_448) / (65_507 - 4_096),
    }
}

/// The result for a datagram that reached the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The datagram is in the buffer.
    Queued,
    /// No room, for a reason that no receiver can prevent.
    Excused,
    /// No room although the buffer had only datagrams that the receiver allowed: the promise is
    /// broken.
    Overrun,
}

/// A receive buffer of fixed size.
#[derive(Debug)]
pub struct Socket {
    queue: VecDeque<(Instant, Packet)>,
    capacity: u64,
    /// The charge of the queued packets, and of those that were read but are not given back yet.
    used: u64,
    /// Read, not given back: the kernel returns up to a quarter late (udp_rmem_release).
    deficit: u64,
    /// The charge if only packets had come for which the receiver must have room.
    budgeted: u64,
    last_drained: Instant,
}

impl Socket {
    /// Returns an empty buffer of `capacity` bytes as the kernel counts them.
    #[must_use]
    pub fn new(capacity: u64, now: Instant) -> Self {
        Self {
            queue: VecDeque::new(),
            capacity,
            used: 0,
            deficit: 0,
            budgeted: 0,
            last_drained: now,
        }
    }

    /// Offers a datagram that arrived. `excused`: no receiver could have kept room for it.
    /// `beyond`: the bytes, as charged, that the process granted beyond the buffer to peers over
    /// long paths.
    pub fn offer(
        &mut self,
        now: Instant,
        packet: Packet,
        excused: bool,
        beyond: impl FnOnce() -> u64,
    ) -> Fit {
        let cost = charge(packet.bytes.len());
        if !excused {
            self.budgeted += cost;
        }
        if self.used + cost <= self.capacity {
            self.used += cost;
            self.queue.push_back((now, packet));
            return Fit::Queued;
        }
        let stopped = now.since(self.last_drained) > LONGEST_EXCUSED_STOP;
        let within = || self.budgeted <= self.capacity.saturating_add(beyond());
        if excused || stopped || within() {
            Fit::Excused
        } else {
            Fit::Overrun
        }
    }

    /// Reads the oldest datagram and when it arrived.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        let Some((at, packet)) = self.queue.pop_front() else {
            self.last_drained = now;
            self.budgeted = 0;
            return None;
        };
        self.deficit += charge(packet.bytes.len());
        if self.queue.is_empty() || self.deficit >= self.capacity / 4 {
            self.used -= self.deficit;
            self.deficit = 0;
        }
        Some((at, packet))
    }

    /// Returns the oldest datagram, which stays.
    #[must_use]
    pub fn peek(&self) -> Option<&Packet> {
        self.queue.front().map(|(_, packet)| packet)
    }

    /// Returns true if nothing waits to be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn() -> u64 = || 0;

    fn packet(length: usize) -> Packet {
        Packet::raw(vec![0; length], 0)
    }

    #[test]
    fn charges_are_the_measured_true_sizes() {
        for (payload, expected) in [
            (0, 832),
            (128, 832),
            (129, 1_280),
            (512, 1_280),
            (1_472, 2_304),
            (4_096, 8_448),
            (65_507, 66_339),
        ] {
            assert_eq!(charge(payload), expected, "{payload} bytes");
        }
    }

    #[test]
    fn a_full_buffer_is_blamed_on_the_receiver_only_within_its_grant() {
        let now = Instant::from_nanos(1);
        let mut socket = Socket::new(2_304 * 2, now);
        assert_eq!(socket.offer(now, packet(1_472), false, NONE), Fit::Queued);
        assert_eq!(socket.offer(now, packet(1_472), true, NONE), Fit::Queued);
        assert_eq!(socket.offer(now, packet(1_472), true, NONE), Fit::Excused);
        // The buffer is full, in part of a duplicate: room was kept for this one.
        assert_eq!(socket.offer(now, packet(1_472), false, NONE), Fit::Excused);
        assert_eq!(socket.offer(now, packet(1_472), false, NONE), Fit::Overrun);
        assert_eq!(
            socket.offer(now, packet(1_472), false, || 2_304 * 2),
            Fit::Excused,
            "granted beyond the buffer"
        );
        let later = now + LONGEST_EXCUSED_STOP + Duration::from_nanos(1);
        assert_eq!(
            socket.offer(later, packet(1_472), false, NONE),
            Fit::Excused,
            "stopped longer than L"
        );
    }

    #[test]
    fn up_to_a_quarter_stays_charged_after_reading() {
        let now = Instant::ZERO;
        let mut socket = Socket::new(832 * 8, now);
        for _ in 0..8 {
            assert_eq!(socket.offer(now, packet(1), false, NONE), Fit::Queued);
        }
        assert!(socket.take(now).is_some());
        assert_ne!(
            socket.offer(now, packet(1), false, NONE),
            Fit::Queued,
            "still charged"
        );
        assert!(socket.take(now).is_some());
        assert_eq!(socket.offer(now, packet(1), false, NONE), Fit::Queued);
        while socket.take(now).is_some() {}
        assert!(socket.is_empty());
    }
}
