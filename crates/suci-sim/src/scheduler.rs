//! Busy hosts: other programs have the processor most of the time, and a process is stopped at any
//! point of its driver cycle.

use suci_proto::time::{Duration, Instant, nanos};

use crate::packet::HostId;
use crate::rng::{Rng, mix};

/// Bounds of a stop: a few turns of other programs, or a processor that another machine took.
const SHORTEST_STOP: Duration = Duration::from_millis(5);
const LONGEST_STOP: Duration = Duration::from_millis(100);

/// How a busy host runs a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The process runs for this long in each period.
    pub runs: Duration,
    /// The time in which all programs of the host have their turns.
    pub period: Duration,
    /// Parts per million of the points at which the process is stopped for 5 to 100 ms: before it
    /// reads its socket, after each train that it reads, and between building a train and sending
    /// it.
    pub stops: u32,
}

impl Scheduler {
    /// Returns the first time from `at` on at which the process of a host runs. Hosts have their
    /// turns at different times.
    #[must_use]
    pub fn runs_from(&self, host: HostId, at: Instant) -> Instant {
        let period = nanos(self.period).max(1);
        let shift = mix(host as u64) % period;
        let within = at.as_nanos().saturating_add(shift) % period;
        match within < nanos(self.runs) {
            true => at,
            false => at + Duration::from_nanos(period - within),
        }
    }

    /// Returns how long a process that wants to run usually waits at most.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let stops = match self.stops {
            0 => Duration::ZERO,
            _ => LONGEST_STOP * 3,
        };
        self.period.saturating_sub(self.runs) + stops
    }

    /// Returns the length of the stop at this point, zero for none.
    pub fn stop(&self, rng: &mut Rng) -> Duration {
        match rng.chance(self.stops) {
            true => Duration::from_nanos(rng.range(nanos(SHORTEST_STOP), nanos(LONGEST_STOP))),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f33_a_process_runs_for_its_part_of_each_period() {
        let scheduler = Scheduler {
            runs: Duration::from_millis(1),
            period: Duration::from_millis(10),
            stops: 0,
        };
        for host in 0..4 {
            let (mut ran, step) = (0, Duration::from_micros(100));
            let mut now = Instant::ZERO;
            for _ in 0..1_000 {
                ran += u32::from(scheduler.runs_from(host, now) == now);
                let next = scheduler.runs_from(host, now);
                assert_eq!(scheduler.runs_from(host, next), next);
                assert!(next.since(now) <= Duration::from_millis(9));
                now += step;
            }
            assert_eq!(ran, 100, "of host {host}");
        }
    }
}
