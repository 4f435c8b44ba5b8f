//! Counters of the processes, for `--stats`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use suci::{Node, WaitReason};

use super::link::failure;
use crate::Failure;

/// Parts of each power of two: a quantile is known to an eighth.
const PARTS: u32 = 8;

/// Places for all times: see [`place`].
const PLACES: usize = (u64::BITS * PARTS) as usize;

/// The times that questions to the hub took until their answers were taken.
#[derive(Default)]
pub(super) struct RoundTrips {
    /// Times at which the questions in flight began.
    begun: VecDeque<Instant>,
    /// Round trips by duration: see [`place`].
    counts: Vec<u64>,
}

impl RoundTrips {
    pub(super) fn begin(&mut self) {
        self.begun.push_back(Instant::now());
    }

    /// The oldest is answered.
    pub(super) fn end(&mut self) {
        if let Some(begun) = self.begun.pop_front() {
            let place = place(begun.elapsed());
            if place >= self.counts.len() {
                self.counts.resize(place + 1, 0);
            }
            self.counts[place] += 1;
        }
    }

    /// Forgets the questions in flight, which will not be answered.
    pub(super) fn forget(&mut self) {
        self.begun.clear();
    }
}

fn place(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos())
        .unwrap_or(u64::MAX)
        .max(u64::from(PARTS));
    let power = nanos.ilog2();
    let part = (nanos >> (power - PARTS.ilog2())) - u64::from(PARTS);
    (power * PARTS) as usize + usize::try_from(part).unwrap_or(0)
}

/// The least time of a place, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "a figure for people to read")]
fn micros(place: usize) -> f64 {
    let parts = PARTS as usize;
    let power = i32::try_from(place / parts).unwrap_or(i32::MAX);
    (parts + place % parts) as f64 / parts as f64 * 2_f64.powi(power) / 1e3
}

/// A worker's counters, as the body of a message: states that it expanded, and time in which it had
/// nothing to do.
pub(super) fn told(
    node: &Node,
    expanded: u64,
    rested: Duration,
    round_trips: &RoundTrips,
) -> Result<Vec<u8>, Failure> {
    let mut told = traffic(node)?;
    told["expanded"] = json!(expanded);
    told["rested_seconds"] = json!(rested.as_secs_f64());
    told["round_trips"] = json!(round_trips.counts);
    Ok(told.to_string().into_bytes())
}

/// The counters of a process's library: its traffic, and the reasons for which messages waited.
pub(super) fn traffic(node: &Node) -> Result<Value, Failure> {
    let counters = node.counters().map_err(failure)?;
    let mut waits = Map::new();
    for peer in node.peers().map_err(failure)? {
        let Some(stats) = node.peer(peer.node).stats().map_err(failure)? else {
            continue;
        };
        for reason in WaitReason::ALL {
            let seconds = Duration::from_nanos(stats.waits.get(reason).nanos).as_secs_f64();
            let sum = waits.entry(reason.name()).or_insert(json!(0.0));
            *sum = json!(sum.as_f64().unwrap_or(0.0) + seconds);
        }
    }
    Ok(json!({
        "messages": counters.messages_sent,
        "packets": counters.packets_out,
        "bytes": counters.bytes_out,
        "packets_lost": counters.packets_lost,
        "waits_seconds": waits,
    }))
}

/// Parses a worker's counters; its round trips come apart.
pub(super) fn read(body: &[u8]) -> Option<(Value, Vec<u64>)> {
    let mut told: Value = serde_json::from_slice(body).ok()?;
    let counts = told.as_object_mut()?.remove("round_trips")?;
    let counts = counts.as_array().filter(|counts| counts.len() <= PLACES);
    let counts = counts?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    Some((told, counts))
}

/// Median, 99th percentile and longest of all workers' round trips.
pub(super) fn quantiles(workers: &[Vec<u64>]) -> Value {
    let longest = workers.iter().map(Vec::len).max().unwrap_or(0);
    // Wide enough for any counts of the workers.
    let sum = |place: usize| -> u128 {
        let all = workers.iter().filter_map(|one| one.get(place));
        all.map(|&count| u128::from(count)).sum()
    };
    let counts: Vec<u128> = (0..longest).map(sum).collect();
    let total: u128 = counts.iter().sum();
    let quantile = |percent: u128| {
        let mut left = (total * percent).div_ceil(100);
        let place = counts.iter().position(|&count| {
            let is_here = left <= count;
            left = left.saturating_sub(count);
            is_here
        });
        place.map_or(0.0, micros)
    };
    json!({
        "count": u64::try_from(total).unwrap_or(u64::MAX),
        "p50_us": quantile(50),
        "p99_us": quantile(99),
        "max_us": quantile(100),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_know_times_to_an_eighth() {
        for nanos in [8, 9, 100, 1_000, 12_345, 1_000_000, 10_u64.pow(12)] {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let ratio = micros(place(Duration::from_nanos(nanos))) * 1e3 / nanos as f64;
            assert!((0.88..=1.000_001).contains(&ratio), "{nanos}: {ratio}");
        }
    }

    #[test]
    fn quantiles_are_those_of_all_together() {
        let ones = |count: u64, power: u32| {
            let mut one = vec![0; place(Duration::from_nanos(1 << power)) + 1];
            *one.last_mut().unwrap() = count;
            one
        };
        let got = quantiles(&[ones(98, 16), ones(1, 17), ones(1, 20)]);
        assert_eq!(
            got,
            json!({"count": 100, "p50_us": 65.536, "p99_us": 131.072, "max_us": 1048.576})
        );
        assert_eq!(quantiles(&[])["count"], 0);
    }

    #[test]
    fn what_workers_say_is_bounded() {
        let said = |counts: &[u64]| json!({"round_trips": counts}).to_string().into_bytes();
        assert!(read(&said(&vec![1; PLACES + 1])).is_none());
        assert!(read(b"{}").is_none() && read(b"7").is_none() && read(b"{").is_none());
        let (_, counts) = read(&said(&vec![u64::MAX; PLACES])).unwrap();
        assert_eq!(quantiles(&[counts.clone(), counts])["count"], u64::MAX);
    }
}
