//! One payload to many servers at once.

use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use suci::{Bytes, Node, NodeId};

use super::control::{Account, Trips};
use super::usage::Meter;
use super::wire::{Mark, Wire};
use super::{suci_wire, work};
use crate::args::Workload;
use crate::error::{Failure, Result};

/// Broadcasts in Suci's own way: one call for all.
pub(super) fn broadcast(
    node: &mut Node,
    peers: &[NodeId],
    payload: &Bytes,
    time: Duration,
) -> Result<Account> {
    let waits = suci_wire::waits(node, peers)?;
    let (meter, packets, begun) = (Meter::begin(), suci_wire::packets(node)?, Instant::now());
    let end = begun + time;
    let mut rounds: u64 = 0;
    while Instant::now() < end {
        suci_wire::send_to_all(node, peers, payload, Mark::Data)?;
        rounds += 1;
    }
    suci_wire::send_to_all(node, peers, &Bytes::new(), Mark::Last)?;
    await_all(node, peers, Mark::Done)?;
    let messages = rounds.saturating_mul(u64::try_from(peers.len()).unwrap_or(u64::MAX));
    Ok(Account {
        messages,
        bytes: messages.saturating_mul(u64::try_from(payload.len()).unwrap_or(u64::MAX)),
        seconds: begun.elapsed().as_secs_f64(),
        spent: meter.spent(),
        packets: suci_wire::packets(node)?.saturating_sub(packets),
        trips: None,
        waits: work::since(suci_wire::waits(node, peers)?, waits),
    })
}

/// Sends `data` messages to all before all answer, by one node: each message by itself, or all
/// collected ones in one batch.
pub(super) fn n_data(
    node: &mut Node,
    peers: &[NodeId],
    workload: Workload,
    payload: &Bytes,
    data: usize,
    time: Duration,
) -> Result<Account> {
    let waits = suci_wire::waits(node, peers)?;
    let (meter, packets, begun) = (Meter::begin(), suci_wire::packets(node)?, Instant::now());
    let marks: Vec<Mark> = marks(data, Mark::Ask).collect();
    let groups = groups(begun + time, || {
        send_group(node, peers, workload, payload, &marks)?;
        await_all(node, peers, Mark::Data)
    })?;
    let (trips, packets_now) = (begun.elapsed(), suci_wire::packets(node)?);
    suci_wire::send_to_all(node, peers, &Bytes::new(), Mark::Last)?;
    await_all(node, peers, Mark::Done)?;
    let messages = count([groups.len(), peers.len(), data]);
    Ok(Account {
        messages,
        bytes: messages.saturating_mul(count([payload.len()])),
        seconds: trips.as_secs_f64(),
        spent: meter.spent(),
        packets: packets_now.saturating_sub(packets),
        trips: Trips::of(groups),
        waits: work::since(suci_wire::waits(node, peers)?, waits),
    })
}

/// Sends a message with each of `marks` to all: each by itself, or all collected ones in one batch.
fn send_group(
    node: &mut Node,
    peers: &[NodeId],
    workload: Workload,
    payload: &Bytes,
    marks: &[Mark],
) -> Result<()> {
    let together = match workload.is_batched() {
        true => work::batch(payload.len()),
        false => 1,
    };
    for marks in marks.chunks(together) {
        let to_all = |mark| peers.iter().map(move |peer| (*peer, payload, mark));
        let mut all = marks.iter().copied().flat_map(to_all);
        match workload.is_batched() {
            true => suci_wire::send_together(node, all)?,
            false => all
                .try_for_each(|(peer, payload, mark)| suci_wire::send(node, peer, payload, mark))?,
        }
    }
    Ok(())
}

/// Returns the same over `wires` by one thread. It is over when the slowest has received
/// everything.
pub(super) fn n_data_by<'a, W: Wire + 'a>(
    wires: impl Iterator<Item = &'a mut W>,
    workload: Workload,
    payload: &Bytes,
    data: usize,
    time: Duration,
) -> Result<Account> {
    let mut wires: Vec<&mut W> = wires.collect();
    let (meter, before, begun) = (Meter::begin(), sent(&mut wires)?, Instant::now());
    let groups = groups(begun + time, || {
        if workload.is_batched() {
            for wire in &mut wires {
                wire.send_together(marks(data, Mark::Ask).map(|mark| (payload, mark)))?;
            }
        } else {
            for mark in marks(data, Mark::Ask) {
                let mut wires = wires.iter_mut();
                wires.try_for_each(|wire| wire.send(payload, mark))?;
            }
        }
        let mut wires = wires.iter_mut();
        wires.try_for_each(|wire| work::await_mark(*wire, Mark::Data, |_| Ok(())))
    })?;
    let (trips, packets) = (begun.elapsed(), sent(&mut wires)?);
    wires.iter_mut().try_for_each(|wire| work::part(*wire))?;
    let messages = count([groups.len(), wires.len(), data]);
    Ok(Account {
        messages,
        bytes: messages.saturating_mul(count([payload.len()])),
        seconds: trips.as_secs_f64(),
        spent: meter.spent(),
        packets: packets.saturating_sub(before),
        trips: Trips::of(groups),
        ..Account::default()
    })
}

/// The end of an exchange.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// Ends with the first group that begins after this time; the others are told.
    Passed(Duration),
    /// It ends with the group whose last message this node marks.
    Told(NodeId),
}

/// Sends groups of `data` messages to all others, which do the same. A node that has those of all
/// others begins its next group, so none is ahead by more than one.
pub(super) fn exchange(
    node: &mut Node,
    peers: &[NodeId],
    until: Until,
    workload: Workload,
    payload: &Bytes,
    data: usize,
) -> Result<Account> {
    let mut came = Came::new(peers);
    if let Until::Told(leader) = until {
        // The leader need not be known here before it has called.
        while came.of(leader) == 0 {
            came.take(node, leader)?;
        }
    }
    let waits = suci_wire::waits(node, peers)?;
    let (meter, packets, begun) = (Meter::begin(), suci_wire::packets(node)?, Instant::now());
    let (mut nanos, mut last) = (Vec::new(), begun);
    loop {
        let is_over = matches!(until, Until::Passed(time) if last >= begun + time);
        let end = if is_over { Mark::Last } else { Mark::Data };
        let marks: Vec<Mark> = marks(data, end).collect();
        send_group(node, peers, workload, payload, &marks)?;
        while let Some(missing) = came.missing(data) {
            came.take(node, missing)?;
        }
        let now = Instant::now();
        nanos.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
        if came.group(data) || is_over {
            break;
        }
    }
    let messages = count([nanos.len(), peers.len(), data]);
    Ok(Account {
        messages,
        bytes: came.bytes,
        seconds: begun.elapsed().as_secs_f64(),
        spent: meter.spent(),
        packets: suci_wire::packets(node)?.saturating_sub(packets),
        trips: Trips::of(nanos),
        waits: work::since(suci_wire::waits(node, peers)?, waits),
    })
}

/// The messages that have come of the others' groups.
struct Came {
    /// Messages of each peer since the last group was over.
    counts: Vec<(NodeId, usize)>,
    /// The number of messages of one peer that had come with its last word.
    last: Option<usize>,
    /// Bytes of all messages.
    bytes: u64,
}

impl Came {
    fn new(peers: &[NodeId]) -> Self {
        Self {
            counts: peers.iter().map(|peer| (*peer, 0)).collect(),
            last: None,
            bytes: 0,
        }
    }

    fn of(&self, node: NodeId) -> usize {
        let mut counts = self.counts.iter();
        counts.find(|(peer, _)| *peer == node).map_or(0, |it| it.1)
    }

    /// Returns a peer of whose group messages are missing.
    fn missing(&self, data: usize) -> Option<NodeId> {
        let mut counts = self.counts.iter();
        counts.find(|(_, count)| *count < data).map(|it| it.0)
    }

    /// Waits for a message of any peer, at least of `whom`.
    fn take(&mut self, node: &mut Node, whom: NodeId) -> Result<()> {
        let (from, received) = suci_wire::await_any(node, whom)?;
        self.bytes = self.bytes.saturating_add(count([received.length]));
        for (_, count) in self.counts.iter_mut().filter(|it| it.0 == from) {
            *count += 1;
            if received.mark == Mark::Last {
                self.last = Some(*count);
            }
        }
        Ok(())
    }

    /// Notes that a group is over. Returns true if it was the last one.
    fn group(&mut self, data: usize) -> bool {
        for (_, count) in &mut self.counts {
            *count -= data;
        }
        // Also for a leader that goes on after its last message.
        self.last = self.last.map(|last| last.saturating_sub(data));
        self.last == Some(0)
    }
}

/// Returns the marks of `data` messages: the last one is `last`.
fn marks(data: usize, last: Mark) -> impl Iterator<Item = Mark> {
    let before = std::iter::repeat_n(Mark::Data, data.saturating_sub(1));
    before.chain([last])
}

/// Returns the nanoseconds that each call of `group` took, until `end`, at least one.
fn groups(end: Instant, mut group: impl FnMut() -> Result<()>) -> Result<Vec<u64>> {
    let (mut nanos, mut last) = (Vec::new(), Instant::now());
    while last < end || nanos.is_empty() {
        group()?;
        let now = Instant::now();
        nanos.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
    Ok(nanos)
}

pub(super) fn count<const N: usize>(factors: [usize; N]) -> u64 {
    let factors = factors.map(|factor| u64::try_from(factor).unwrap_or(u64::MAX));
    factors.into_iter().fold(1, u64::saturating_mul)
}

fn sent<W: Wire>(wires: &mut [&mut W]) -> Result<u64> {
    wires.iter_mut().map(|wire| wire.packets()).sum()
}

/// Waits until each of `peers` has sent a message with `mark`.
fn await_all(node: &mut Node, peers: &[NodeId], mark: Mark) -> Result<()> {
    let mut waiting = peers.to_vec();
    while let Some(&peer) = waiting.first() {
        let (from, received) = suci_wire::await_any(node, peer)?;
        if received.mark == mark {
            waiting.retain(|peer| *peer != from);
        }
    }
    Ok(())
}

/// Returns the client's half over each of `wires`, with a thread for each if there are several. A
/// program without broadcast would do so to keep them all busy.
pub(super) fn out<'a, W: Wire + Send + 'a>(
    wires: impl Iterator<Item = &'a mut W>,
    workload: Workload,
    payload: &Bytes,
    time: Duration,
) -> Result<Account> {
    let mut wires: Vec<&mut W> = wires.collect();
    if let [wire] = wires.as_mut_slice() {
        return work::client(*wire, workload, payload, time);
    }
    let meter = Meter::begin();
    let accounts: Result<Vec<Account>> = std::thread::scope(|scope| {
        let work = |wire| scope.spawn(move || work::client(wire, workload, payload, time));
        let threads: Vec<_> = wires.into_iter().map(work).collect();
        threads.into_iter().map(join).collect()
    });
    let mut total = Account::default();
    for account in accounts? {
        add(&mut total, &account);
    }
    // Each thread saw the processor time of all.
    total.spent = meter.spent();
    Ok(total)
}

fn join(thread: ScopedJoinHandle<'_, Result<Account>>) -> Result<Account> {
    thread
        .join()
        .unwrap_or_else(|_| Err(Failure::new("a measuring thread panicked")))
}

/// Adds the counts of another account of the same time.
pub(super) fn add(total: &mut Account, other: &Account) {
    total.messages = total.messages.saturating_add(other.messages);
    total.bytes = total.bytes.saturating_add(other.bytes);
    total.seconds = total.seconds.max(other.seconds);
    total.spent.add(other.spent);
    total.packets = total.packets.saturating_add(other.packets);
    for (total, other) in total.waits.iter_mut().zip(other.waits) {
        *total = total.saturating_add(other);
    }
}
