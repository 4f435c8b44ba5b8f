//! The workloads, the same code for every contender.

use std::time::{Duration, Instant};

use suci::Bytes;

use super::control::{Account, Control, PATIENCE, Trips, Waited};
use super::mix::{self, Replies};
use super::usage::Meter;
use super::wire::{COLLECTED, Mark, Received, Wire};
use crate::args::Workload;
use crate::error::{Failure, Result};

/// Messages that are collected, at most.
const BATCH: usize = 2048;

/// Messages between two looks at the clock, at most: to ask the time after each small one would
/// take a good part of it.
const LOOK: usize = 256;

/// How often a wire that loses messages repeats its last word.
const LAST_WORDS: u32 = 5;

/// Returns a payload of `size` bytes, different in every cache line.
pub(super) fn payload(size: usize) -> Bytes {
    let period: Vec<u8> = (0..251).flat_map(|byte| [byte; 64]).collect();
    let mut bytes = period.repeat(size.div_ceil(period.len()));
    bytes.truncate(size);
    bytes.into()
}

/// Returns the longest message of a workload whose messages are of `size`, unless it has sizes of
/// its own.
pub(super) fn longest(workload: Workload, size: usize) -> usize {
    match workload {
        Workload::Mix | Workload::MixBatch => mix::LONGEST,
        _ => size,
    }
}

/// Returns the client's half of a round, at least for `time`.
pub(super) fn client<W: Wire>(
    wire: &mut W,
    workload: Workload,
    payload: &Bytes,
    time: Duration,
) -> Result<Account> {
    let waits = wire.waits()?;
    let (meter, packets, begun) = (Meter::begin(), wire.packets()?, Instant::now());
    let done = match workload {
        Workload::Mix | Workload::MixBatch => mix::ask(wire, workload, payload, begun + time)?,
        _ => same(wire, workload, payload, begun + time)?,
    };
    // Round trips are over by now; a stream is when the other side has it all.
    let (trips, trip_packets) = (begun.elapsed(), wire.packets()?);
    part(wire)?;
    let (time, packets_now) = match workload {
        Workload::PingPong | Workload::Mix | Workload::MixBatch => (trips, trip_packets),
        _ => (begun.elapsed(), wire.packets()?),
    };
    Ok(Account {
        messages: done.messages,
        bytes: done.bytes,
        seconds: time.as_secs_f64(),
        spent: meter.spent(),
        packets: packets_now.saturating_sub(packets),
        trips: Trips::of(done.nanos),
        waits: since(wire.waits()?, waits),
    })
}

/// The client's work in one round.
#[derive(Default)]
pub(super) struct Done {
    /// Messages, or requests and round trips.
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// The time of each round trip.
    pub(super) nanos: Vec<u64>,
}

/// Returns the messages of `size` bytes that are collected.
pub(super) fn batch(size: usize) -> usize {
    (COLLECTED / size.max(1)).clamp(1, BATCH)
}

/// Runs messages of one size, one way or with replies.
fn same<W: Wire>(wire: &mut W, workload: Workload, payload: &Bytes, end: Instant) -> Result<Done> {
    let batch = batch(payload.len());
    let (mut done, mut last) = (Done::default(), Instant::now());
    // At least one, however short the time and however long the machine was busy elsewhere.
    while last < end || done.messages == 0 {
        let sent = match workload {
            Workload::PingPong => {
                round_trip(wire, payload)?;
                1
            }
            _ if workload.is_batched() => {
                wire.send_together(std::iter::repeat_n((payload, Mark::Data), batch))?;
                batch
            }
            _ => {
                let count = batch.min(LOOK);
                (0..count).try_for_each(|_| wire.send(payload, Mark::Data))?;
                count
            }
        };
        done.messages += u64::try_from(sent).unwrap_or(0);
        let now = Instant::now();
        if workload == Workload::PingPong {
            let nanos = (now - last).as_nanos();
            done.nanos.push(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        last = now;
    }
    let each = u64::try_from(payload.len()).unwrap_or(u64::MAX);
    done.bytes = done.messages.saturating_mul(each);
    Ok(done)
}

/// Returns the increase since `before`.
pub(super) fn since(mut now: Waited, before: Waited) -> Waited {
    for (now, before) in now.iter_mut().zip(before) {
        *now = now.saturating_sub(before);
    }
    now
}

fn round_trip<W: Wire>(wire: &mut W, payload: &Bytes) -> Result<()> {
    wire.send(payload, Mark::Data)?;
    await_mark(wire, Mark::Data, |wire| wire.send(payload, Mark::Data))
}

/// Says that it was the last message, and hears that everything arrived.
pub(super) fn part<W: Wire>(wire: &mut W) -> Result<()> {
    let last = |wire: &mut W| wire.send(&Bytes::new(), Mark::Last);
    last(wire)?;
    await_mark(wire, Mark::Done, last)
}

/// Waits for a message with `mark`. Over a wire that loses messages, `again` repeats the message
/// that may have been lost.
pub(super) fn await_mark<W: Wire>(
    wire: &mut W,
    mark: Mark,
    mut again: impl FnMut(&mut W) -> Result<()>,
) -> Result<()> {
    let (mut since, mut unacknowledged) = (Instant::now(), wire.unacknowledged()?);
    loop {
        match wire.recv()? {
            Some(received) if received.mark == mark => return Ok(()),
            Some(_) => continue,
            None if since.elapsed() >= PATIENCE => return Err(wire.silent()),
            None if wire.is_reliable() => {}
            None => again(wire)?,
        }
        // The other side may answer only after all that it was sent.
        let before = std::mem::replace(&mut unacknowledged, wire.unacknowledged()?);
        if before != unacknowledged {
            since = Instant::now();
        }
    }
}

/// Returns the server's half, for as long as the client is there.
pub(super) fn server<W: Wire>(
    wire: &mut W,
    workload: Workload,
    payload: &Bytes,
    client: &Control,
) -> Result<Account> {
    let (meter, packets, waits) = (Meter::begin(), wire.packets()?, wire.waits()?);
    let mut account = Account::default();
    let mut first = None;
    let mut heard = Instant::now();
    let mut quiet = None;
    let mut replies = Replies::new(payload, workload.is_batched());
    let mut received = Vec::new();
    while !received.iter().any(|r: &Received| r.mark == Mark::Last) {
        received.clear();
        match workload {
            Workload::MixBatch => received.extend(replies.serve(wire)?),
            Workload::PingPong | Workload::Mix => received.extend(wire.recv()?),
            _ => wire.recv_many(&mut received)?,
        }
        if received.is_empty() {
            if client.has_hung_up() {
                return Err(Failure::new("the client has gone"));
            }
            if quiet.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                return Err(wire.silent());
            }
            continue;
        }
        quiet = None;
        let is_measured = |r: &&Received| matches!(r.mark, Mark::Data | Mark::Ask);
        for received in received.iter().filter(is_measured) {
            if workload == Workload::PingPong {
                wire.send(payload, Mark::Data)?;
            } else if received.mark == Mark::Ask {
                wire.send(&Bytes::new(), Mark::Data)?;
            } else if workload.is_mix() {
                account.bytes = account.bytes.saturating_add(replies.answer(wire)?);
            } else if !wire.is_reliable() {
                // Others are measured by their client, until it hears that all has arrived.
                heard = Instant::now();
                first.get_or_insert(heard);
            }
            account.messages += 1;
            let length = u64::try_from(received.length).unwrap_or(u64::MAX);
            account.bytes = account.bytes.saturating_add(length);
        }
    }
    account.seconds = first.map_or(0.0, |first: Instant| (heard - first).as_secs_f64());
    account.packets = wire.packets()?.saturating_sub(packets);
    account.waits = since(wire.waits()?, waits);
    let copies = if wire.is_reliable() { 1 } else { LAST_WORDS };
    for _ in 0..copies {
        wire.send(&Bytes::new(), Mark::Done)?;
    }
    account.spent = meter.spent();
    Ok(account)
}
