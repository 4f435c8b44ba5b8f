//! One payload to many servers at once.

use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use suci::{Bytes, Node, NodeId};

use super::control::{Account, PATIENCE};
use super::usage::Meter;
use super::wire::{Mark, Wire};
use super::{suci_wire, work};
use crate::args::Workload;
use crate::error::{Failure, Result};

/// Suci's own way: one call for all.
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
    let mut waiting = peers.to_vec();
    while let Some(&peer) = waiting.first() {
        let Some((from, received)) = suci_wire::recv(node, PATIENCE)? else {
            return Err(suci_wire::silent(node, peer));
        };
        if received.mark == Mark::Done {
            waiting.retain(|peer| *peer != from);
        }
    }
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

/// The client's half over each of `wires`, a thread for each when there are several: what a program
/// without broadcast would do to keep them all busy.
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

/// Adds what another one counted at the same time.
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
