//! Costs of the steps of the model, measured on two processors of this machine.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use xtask::distance::Placement;
use xtask::error::{Context, Result};

/// Operations in a batch, and batches. The fastest batch counts: interrupts, and other programs,
/// make others slower.
const OPERATIONS: u32 = 10_000;
const BATCHES: u32 = 300;

/// Datagrams in a batch: as many as any receive buffer holds.
const DATAGRAMS: u32 = 64;

/// Connections in the table that is searched.
const CONNECTIONS: u16 = 128;

/// Costs in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// A free lock in the processor's own cache is taken and released.
    pub(super) lock: f64,
    /// A cache line comes from another processor. So a lock comes to the next thread that waits,
    /// each at a line of its own.
    pub(super) line: f64,
    /// A system call takes a datagram of 64 B that waits.
    pub(super) receive: f64,
    /// A connection is found in a table of 128, its packet number compared, the packet queued.
    pub(super) find: f64,
}

impl Costs {
    /// Names and values, in the order in which they are told.
    pub(super) fn listed(&self) -> [(&'static str, f64); 4] {
        [
            ("free lock, in the own cache", self.lock),
            ("cache line from another processor", self.line),
            ("receive call, a waiting datagram of 64 B", self.receive),
            ("connection found, packet queued", self.find),
        ]
    }
}

/// Measures all costs while the processors keep their usual distance. Takes about 10 s.
///
/// # Errors
/// There are no two processors, no socket can be made, or the processors keep moving.
pub(super) fn measure() -> Result<Costs> {
    let placement = Placement::usual()?;
    let line = placement.nanoseconds() / 2.0;
    let costs = placement.steady(|| {
        Ok(Costs {
            lock: lock(),
            line,
            receive: receive()?,
            find: find(),
        })
    })?;
    costs.context("the hypervisor keeps moving the processors: try again")?
}

/// Returns the nanoseconds of one of `operations` in the fastest batch.
fn fastest(operations: u32, mut batch: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..BATCHES {
        let begun = Instant::now();
        batch();
        best = best.min(begun.elapsed().as_nanos() as f64);
    }
    best / f64::from(operations)
}

fn lock() -> f64 {
    let lock = Mutex::new(0_u64);
    fastest(OPERATIONS, || {
        for _ in 0..OPERATIONS {
            *black_box(&lock)
                .lock()
                .unwrap_or_else(PoisonError::into_inner) += 1;
        }
    })
}

fn receive() -> Result<f64> {
    let local = (Ipv4Addr::LOCALHOST, 0);
    let (sender, receiver) = (UdpSocket::bind(local)?, UdpSocket::bind(local)?);
    receiver.set_nonblocking(true)?;
    sender.connect(receiver.local_addr()?)?;
    let mut best = f64::MAX;
    let mut buffer = [0; 2_048];
    for _ in 0..BATCHES {
        for _ in 0..DATAGRAMS {
            sender.send(&[0; 64])?;
        }
        let begun = Instant::now();
        for _ in 0..DATAGRAMS {
            receiver.recv_from(&mut buffer)?;
        }
        best = best.min(begun.elapsed().as_nanos() as f64);
    }
    Ok(best / f64::from(DATAGRAMS))
}

fn find() -> f64 {
    // By destination port, source node and source port, as CDP does.
    let mut table: HashMap<(u16, u32, u16), (u64, VecDeque<u64>)> = HashMap::new();
    for connection in 0..CONNECTIONS {
        let key = (7, u32::from(connection), 1_000 + connection);
        table.insert(key, (0, VecDeque::with_capacity(64)));
    }
    let mut packet = 0_u64;
    fastest(OPERATIONS, || {
        for _ in 0..OPERATIONS {
            packet += 1;
            let connection = (packet % u64::from(CONNECTIONS)) as u16;
            let key = black_box((7, u32::from(connection), 1_000 + connection));
            if let Some((number, queue)) = table.get_mut(&key)
                && *number < packet
            {
                *number = packet;
                if queue.len() == 64 {
                    queue.clear();
                }
                queue.push_back(packet);
            }
        }
    })
}
