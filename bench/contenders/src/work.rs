//! The workloads, the same code for every contender of this crate; contenders/bench.h says the same
//! in C.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::wire::{Mark, Result, Wire};
use super::{Args, Workload, sys};

/// Before it counts, each contender runs unmeasured for this long, to open windows and warm caches.
pub(crate) const WARM_UP: Duration = Duration::from_millis(100);

/// Messages between two looks at the clock, at most, and their bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Requests under way in the mix.
pub(crate) const IN_FLIGHT: usize = 16;

/// The counts of one end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Half {
    messages: u64,
    bytes: u64,
    seconds: f64,
    /// Processor time of this process, all threads.
    cpu_seconds: f64,
    /// Microseconds of round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
}

impl Half {
    fn count(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

/// A payload that lives as long as the process, different in every cache line, with its mark at its
/// begin.
fn payload(size: usize, mark: Mark) -> &'static [u8] {
    let mut bytes: Vec<u8> = (0..size.max(1)).map(|at| (at / 64 % 251) as u8).collect();
    bytes[0] = mark as u8;
    bytes.leak()
}

fn word(mark: Mark) -> &'static [u8] {
    match mark {
        Mark::Data => &[Mark::Data as u8],
        Mark::Last => &[Mark::Last as u8],
        Mark::Done => &[Mark::Done as u8],
        Mark::Ask => &[Mark::Ask as u8],
    }
}

/// Size of the message number `index` of the mix: 60 % to 16 B, 20 % to 32 B, 18 % to 128 B, 0.3 %
/// to 1 KiB, the rest to 8 KiB.
pub(crate) fn mix_size(index: u32) -> usize {
    let mut hash = index.wrapping_mul(0x9e37_79b1);
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    let (share, spread) = (hash % 1000, (hash >> 10) as usize);
    match share {
        0..600 => 1 + spread % 16,
        600..800 => 17 + spread % 16,
        800..980 => 33 + spread % 96,
        980..983 => 129 + spread % 896,
        _ => 1025 + spread % 7168,
    }
}

/// The client's half, over one wire or several at once, a thread each.
pub(crate) fn client(mut wires: Vec<Box<dyn Wire + Send>>, args: &Args) -> Result<Half> {
    let full = payload(args.size.max(mix_longest(args.workload)), Mark::Data);
    let asking = payload(args.size, Mark::Ask);
    let mut phase = |time: Duration| -> Result<Half> {
        let cpu = sys::cpu_seconds();
        let halves = match wires.as_mut_slice() {
            all if args.workload == Workload::NData => {
                vec![data_phase(all, args, [&full[..args.size], asking], time)?]
            }
            [wire] => vec![client_phase(wire.as_mut(), args, full, time)?],
            several => std::thread::scope(|scope| {
                let threads: Vec<_> = several
                    .iter_mut()
                    .map(|wire| scope.spawn(move || client_phase(wire.as_mut(), args, full, time)))
                    .collect();
                let joined = threads.into_iter().map(|thread| thread.join());
                joined
                    .map(|half| half.unwrap_or_else(|_| Err("a thread panicked".into())))
                    .collect::<Result<Vec<_>>>()
            })?,
        };
        let mut total = halves.first().copied().unwrap_or_default();
        total.messages = halves.iter().map(|half| half.messages).sum();
        total.bytes = halves.iter().map(|half| half.bytes).sum();
        total.seconds = halves.iter().map(|half| half.seconds).fold(0.0, f64::max);
        total.cpu_seconds = sys::cpu_seconds() - cpu;
        Ok(total)
    };
    phase(WARM_UP)?;
    let half = phase(Duration::from_secs_f64(args.seconds))?;
    wires.iter_mut().try_for_each(|wire| wire.close())?;
    Ok(half)
}

fn mix_longest(workload: Workload) -> usize {
    match workload {
        Workload::Mix => 8192,
        _ => 1,
    }
}

fn client_phase(
    wire: &mut dyn Wire,
    args: &Args,
    full: &'static [u8],
    time: Duration,
) -> Result<Half> {
    let begun = Instant::now();
    let mut half = Half::default();
    let mut nanos = Vec::new();
    match args.workload {
        Workload::PingPong => ping(
            wire,
            &full[..args.size],
            begun + time,
            &mut half,
            &mut nanos,
        )?,
        Workload::Mix => ask(wire, full, begun + time, &mut half, &mut nanos)?,
        Workload::Stream | Workload::Broadcast | Workload::NData | Workload::AllToAll => {
            stream(wire, &full[..args.size], begun + time, &mut half)?;
        }
    }
    // Round trips are over by now; a stream is when the other side has it all.
    let trips = begun.elapsed();
    part(wire)?;
    let time = match args.workload {
        Workload::PingPong | Workload::Mix => trips,
        Workload::Stream | Workload::Broadcast | Workload::NData | Workload::AllToAll => {
            begun.elapsed()
        }
    };
    half.seconds = time.as_secs_f64();
    nanos.sort_unstable();
    (half.p50, half.p99) = (percentile(&nanos, 50), percentile(&nanos, 99));
    Ok(half)
}

/// Says that it was the last message, and hears that everything arrived.
fn part(wire: &mut dyn Wire) -> Result<()> {
    wire.send(word(Mark::Last))?;
    wire.flush()?;
    while wire.recv()?.mark != Mark::Done {}
    Ok(())
}

/// Groups of messages to all, the last of a group with a mark that asks for an answer. When all
/// have answered, the next group follows. One thread: a group is over when the slowest has it, in
/// whatever order they are served.
fn data_phase(
    wires: &mut [Box<dyn Wire + Send>],
    args: &Args,
    [datum, asking]: [&'static [u8]; 2],
    time: Duration,
) -> Result<Half> {
    let (begun, mut half, mut nanos) = (Instant::now(), Half::default(), Vec::new());
    let mut last = begun;
    while last < begun + time || half.messages == 0 {
        for number in 1..=args.data {
            let message = if number == args.data { asking } else { datum };
            for wire in wires.iter_mut() {
                wire.send(message)?;
                half.count(message.len());
            }
        }
        wires.iter_mut().try_for_each(|wire| wire.flush())?;
        for wire in wires.iter_mut() {
            while wire.recv()?.mark != Mark::Data {}
        }
        let now = Instant::now();
        nanos.push((now - last).as_nanos() as u64);
        last = now;
    }
    half.seconds = begun.elapsed().as_secs_f64();
    wires.iter_mut().try_for_each(|wire| part(wire.as_mut()))?;
    nanos.sort_unstable();
    (half.p50, half.p99) = (percentile(&nanos, 50), percentile(&nanos, 99));
    Ok(half)
}

fn stream(
    wire: &mut dyn Wire,
    message: &'static [u8],
    end: Instant,
    half: &mut Half,
) -> Result<()> {
    let batch = (BATCH_BYTES / message.len()).clamp(1, BATCH);
    loop {
        for _ in 0..batch {
            wire.send(message)?;
            half.count(message.len());
        }
        if Instant::now() >= end {
            return Ok(());
        }
    }
}

fn ping(
    wire: &mut dyn Wire,
    message: &'static [u8],
    end: Instant,
    half: &mut Half,
    nanos: &mut Vec<u64>,
) -> Result<()> {
    let mut last = Instant::now();
    while last < end || half.messages == 0 {
        wire.send(message)?;
        wire.flush()?;
        while wire.recv()?.mark != Mark::Data {}
        half.count(message.len());
        let now = Instant::now();
        nanos.push((now - last).as_nanos() as u64);
        last = now;
    }
    Ok(())
}

/// Requests and replies of the mix. All replies that have come are answered by new requests
/// together.
fn ask(
    wire: &mut dyn Wire,
    full: &'static [u8],
    end: Instant,
    half: &mut Half,
    nanos: &mut Vec<u64>,
) -> Result<()> {
    let mut sent = VecDeque::with_capacity(IN_FLIGHT);
    let mut index = 0_u32;
    loop {
        let now = Instant::now();
        if now < end {
            while sent.len() < IN_FLIGHT {
                let size = mix_size(index);
                index = index.wrapping_add(1);
                wire.send(&full[..size])?;
                half.bytes += size as u64;
                sent.push_back(now);
            }
            wire.flush()?;
        } else if sent.is_empty() {
            return Ok(());
        }
        let mut received = Some(wire.recv()?);
        let now = Instant::now();
        while let Some(reply) = received {
            half.count(reply.length);
            if let Some(begun) = sent.pop_front() {
                nanos.push((now - begun).as_nanos() as u64);
            }
            received = if sent.is_empty() {
                None
            } else {
                wire.try_recv()?
            };
        }
    }
}

/// The server's half.
pub(crate) fn server(mut wires: Vec<Box<dyn Wire + Send>>, args: &Args) -> Result<Half> {
    let [wire] = wires.as_mut_slice() else {
        return Err("a server has one client".into());
    };
    let full = payload(args.size.max(mix_longest(args.workload)), Mark::Data);
    server_phase(wire.as_mut(), args, full)?;
    let half = server_phase(wire.as_mut(), args, full)?;
    wire.close()?;
    Ok(half)
}

/// One of several processes that all send to all others. The process that serves no other came
/// last, and says when it is over.
pub(crate) fn one_of_all(mut wires: Vec<Box<dyn Wire + Send>>, args: &Args) -> Result<Half> {
    let messages = [Mark::Data, Mark::Last].map(|mark| payload(args.size, mark));
    exchange(&mut wires, args, messages, WARM_UP)?;
    let time = Duration::from_secs_f64(args.seconds);
    let half = exchange(&mut wires, args, messages, time)?;
    wires.iter_mut().try_for_each(|wire| wire.close())?;
    Ok(half)
}

/// Groups of messages to all others. A process that has the groups of all others begins its next
/// one, so none is ahead by more than one. The deciding process marks the last message of the last
/// group.
fn exchange(
    wires: &mut [Box<dyn Wire + Send>],
    args: &Args,
    [datum, end]: [&'static [u8]; 2],
    time: Duration,
) -> Result<Half> {
    let cpu = sys::cpu_seconds();
    let (begun, mut half, mut nanos) = (Instant::now(), Half::default(), Vec::new());
    let (mut last, mut is_over) = (begun, false);
    while !is_over {
        is_over = args.serve.is_empty() && last >= begun + time;
        for number in 1..=args.data {
            let is_end = is_over && number == args.data;
            for wire in wires.iter_mut() {
                wire.send(if is_end { end } else { datum })?;
            }
        }
        wires.iter_mut().try_for_each(|wire| wire.flush())?;
        for wire in wires.iter_mut() {
            for _ in 0..args.data {
                let received = wire.recv()?;
                half.count(received.length);
                is_over |= received.mark == Mark::Last;
            }
        }
        let now = Instant::now();
        nanos.push((now - last).as_nanos() as u64);
        last = now;
    }
    half.seconds = begun.elapsed().as_secs_f64();
    half.cpu_seconds = sys::cpu_seconds() - cpu;
    nanos.sort_unstable();
    (half.p50, half.p99) = (percentile(&nanos, 50), percentile(&nanos, 99));
    Ok(half)
}

fn server_phase(wire: &mut dyn Wire, args: &Args, full: &'static [u8]) -> Result<Half> {
    let cpu = sys::cpu_seconds();
    let mut half = Half::default();
    let mut index = u32::MAX / 2;
    loop {
        let received = match wire.try_recv()? {
            Some(received) => received,
            None => {
                wire.flush()?;
                wire.recv()?
            }
        };
        if received.mark == Mark::Last {
            break;
        }
        half.count(received.length);
        match args.workload {
            Workload::NData if received.mark == Mark::Ask => wire.send(word(Mark::Data))?,
            Workload::PingPong => wire.send(&full[..args.size])?,
            Workload::Mix => {
                let size = mix_size(index);
                index = index.wrapping_add(1);
                half.bytes += size as u64;
                wire.send(&full[..size])?;
            }
            Workload::Stream | Workload::Broadcast | Workload::NData | Workload::AllToAll => {}
        }
    }
    wire.send(word(Mark::Done))?;
    wire.flush()?;
    half.cpu_seconds = sys::cpu_seconds() - cpu;
    Ok(half)
}

/// Microseconds that `share` of 100 do not exceed, of ascending nanoseconds.
fn percentile(nanos: &[u64], share: usize) -> Option<f64> {
    let rank = (nanos.len() * share).div_ceil(100).saturating_sub(1);
    nanos.get(rank).map(|nanos| *nanos as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `suci perf` computes the same sizes, and asserts the same sum.
    #[test]
    fn the_mix_is_that_of_suci_perf() {
        let fold = |sum: u32, index| sum.wrapping_mul(31).wrapping_add(mix_size(index) as u32);
        assert_eq!((0..1000).fold(0, fold), 0x6d0b_f796);
    }

    #[test]
    fn the_mix_is_that_of_the_paper() {
        let mut shares = [0_u32; 5];
        for index in 0..100_000 {
            let class = match mix_size(index) {
                1..=16 => 0,
                17..=32 => 1,
                33..=128 => 2,
                129..=1024 => 3,
                _ => 4,
            };
            shares[class] += 1;
        }
        for (share, expected) in shares.into_iter().zip([60_000, 20_000, 18_000, 300, 1_700]) {
            assert!(share.abs_diff(expected) < expected / 5, "{shares:?}");
        }
    }

    #[test]
    fn percentiles_are_samples() {
        let nanos: Vec<u64> = (1..=200).map(|micros| micros * 1000).collect();
        assert_eq!(percentile(&nanos, 50), Some(100.0));
        assert_eq!(percentile(&nanos, 99), Some(198.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
