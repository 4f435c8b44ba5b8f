//! The program's cap on one peer's traffic, in bytes per second, beside the limits of network and
//! receiver.

use crate::pacer::Pacer;
use crate::time::Instant;

/// A rate and its budget. It outlives connections, so that a new one brings no new burst.
#[derive(Debug)]
pub struct RateCap {
    rate: Option<u64>,
    packet: usize,
    pacer: Pacer,
}

impl RateCap {
    /// Makes a cap of `rate` bytes per second; `packet` is the usual packet size in bytes.
    pub fn new(now: Instant, rate: Option<u64>, packet: usize) -> Self {
        Self {
            rate,
            packet,
            pacer: Pacer::new(now, packet),
        }
    }

    /// Changes the rate from `now` on. Bytes sent before count.
    pub fn set(&mut self, now: Instant, rate: Option<u64>) {
        if let Some(before) = self.rate {
            self.pacer.budget(now, before);
        } else {
            // Bytes are not counted while there is no cap.
            self.pacer = Pacer::new(now, self.packet);
        }
        self.rate = rate;
    }

    /// Returns the time until which a packet of `size` bytes has to wait, if it has to. At least
    /// one packet is sent each second.
    pub fn until(&mut self, now: Instant, size: u64) -> Option<Instant> {
        let rate = self.rate?.max(size);
        (self.budget(now, size) < size).then(|| self.pacer.next_time(now, rate, size))
    }

    /// Returns the bytes that may be sent now in packets of `size` bytes.
    pub fn budget(&mut self, now: Instant, size: u64) -> u64 {
        let Some(rate) = self.rate else {
            return u64::MAX;
        };
        // A larger packet would never fit the pacer's largest budget.
        self.packet = self.packet.max(usize::try_from(size).unwrap_or(usize::MAX));
        self.pacer.set_mtu(self.packet);
        self.pacer.budget(now, rate.max(size))
    }

    /// Charges a packet of messages that was sent.
    pub fn consume(&mut self, bytes: u64) {
        if self.rate.is_some() {
            self.pacer.consume(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    const PACKET: u64 = 1_000;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Returns the packets sent from `from` to `to`, each as soon as it may.
    fn sent(cap: &mut RateCap, from: Instant, to: Instant) -> u64 {
        let (mut now, mut count) = (from, 0);
        while now < to {
            match cap.until(now, PACKET) {
                Some(at) => {
                    assert!(at > now, "no turns without end");
                    now = at;
                }
                None => {
                    cap.consume(PACKET);
                    count += 1;
                }
            }
        }
        count
    }

    #[test]
    fn as_many_bytes_are_sent_as_the_rate_permits() {
        let mut cap = RateCap::new(at(0), Some(100_000), PACKET as usize);
        assert!((100..=111).contains(&sent(&mut cap, at(0), at(1_000))));
        assert!((99..=101).contains(&sent(&mut cap, at(1_000), at(2_000))));
        cap.set(at(2_000), Some(200_000));
        let more = sent(&mut cap, at(2_000), at(3_000));
        assert!((199..=201).contains(&more), "{more}");
    }

    #[test]
    fn however_low_the_rate_a_packet_goes_each_second() {
        let mut cap = RateCap::new(at(0), Some(0), PACKET as usize);
        sent(&mut cap, at(0), at(10_000));
        assert!((9..=11).contains(&sent(&mut cap, at(10_000), at(20_000))));
    }

    #[test]
    fn packets_of_any_size_go() {
        let mut cap = RateCap::new(at(0), Some(1 << 20), PACKET as usize);
        let (mut now, mut sent) = (at(0), 0);
        while now < at(10_000) {
            match cap.until(now, 65_507) {
                Some(at) => {
                    assert!(at > now, "no turns without end");
                    now = at;
                }
                None => {
                    cap.consume(65_507);
                    sent += 1;
                }
            }
        }
        assert!((158..=175).contains(&sent), "{sent}");
    }

    #[test]
    fn without_a_cap_nothing_waits_nor_counts() {
        let mut cap = RateCap::new(at(0), None, PACKET as usize);
        for _ in 0..10_000 {
            assert_eq!(cap.until(at(1), PACKET), None);
            cap.consume(PACKET);
        }
        cap.set(at(1), Some(100_000));
        assert_eq!(cap.until(at(1), PACKET), None, "what went before is free");
        sent(&mut cap, at(1), at(10));
        cap.set(at(10), Some(100_000));
        assert!(cap.until(at(10), PACKET).is_some(), "no new burst");
    }
}
