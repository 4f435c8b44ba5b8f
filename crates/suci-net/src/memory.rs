//! A network within the process: endpoints of one hub reach each other by address.
//!
//! Each endpoint has one bounded queue that is charged as Linux charges a socket's receive buffer.
//! Datagrams that do not fit are dropped, so that code that keeps its promises here does so on a
//! socket. There is no loss otherwise, no reordering, and ECN marks arrive as sent. Several
//! endpoints may share an address, as the sockets of a group do (`Udp::into_group`).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::report::Reports;
use crate::train::{cut, unmapped};
use crate::{
    Backend, Capabilities, Counters, Ecn, MAX_TRAIN_BYTES, MAX_TRAIN_SEGMENTS, Meta, Ready, Report,
    SendOutcome, Train,
};

/// First port handed out for port 0: the ephemeral range of RFC 6335, section 6.
const FIRST_EPHEMERAL: u16 = 49_152;

/// The byte of a datagram that names one of several endpoints at its address.
const STEERING_BYTE: usize = 4;

/// A network in memory, in which endpoints find each other. Clones are the same hub.
#[derive(Debug, Clone)]
pub struct Hub {
    shared: Arc<Shared>,
    capacity: usize,
    mtu: usize,
}

#[derive(Debug, Default)]
struct Shared {
    endpoints: RwLock<HashMap<SocketAddr, Arc<Place>>>,
}

/// The endpoint at an address.
#[derive(Debug)]
struct Place {
    inboxes: Box<[Inbox]>,
    /// Endpoints that are left.
    open: AtomicUsize,
}

/// Apart from those beside it: each has a reader of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Inbox {
    capacity: usize,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Packet>,
    charged: usize,
    dropped: u64,
    /// Its reader sleeps, and was not woken yet. Only then is it woken: waking without a sleeper is
    /// a system call, too (`Condvar` of the standard library, on Linux).
    is_awaited: bool,
}

#[derive(Debug)]
struct Packet {
    from: SocketAddr,
    ecn: Ecn,
    at: SystemTime,
    bytes: Box<[u8]>,
}

/// A lock whose holder panicked guards data that is consistent after every statement here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that Linux charges a receive buffer for one datagram: the data, rounded up to the sizes of
/// its allocator, and the bookkeeping. Measured on kernel 6.18 over veth.
#[must_use]
pub const fn charge(len: usize) -> usize {
    match len {
        0..=128 => 832,
        129..=512 => 1_280,
        513..=1_472 => 2_304,
        1_473..=7_616 => 8_448,
        _ => len.saturating_add(832),
    }
}

impl Hub {
    /// A hub whose endpoints queue at most `capacity` bytes each, counted as [`charge`] does.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            shared: Arc::default(),
            capacity,
            mtu: MAX_TRAIN_BYTES,
        }
    }

    /// Limits datagrams to `mtu` payload bytes for endpoints opened from the returned handle.
    #[must_use]
    pub fn with_mtu(self, mtu: usize) -> Self {
        Self {
            mtu: mtu.min(MAX_TRAIN_BYTES),
            ..self
        }
    }

    /// Opens an endpoint. Port 0 picks a free one.
    ///
    /// # Errors
    /// `AddrInUse` if the address is taken, or every port for port 0.
    pub fn endpoint(&self, addr: SocketAddr) -> io::Result<Memory> {
        let mut alone = self.group(addr, 1)?;
        alone.pop().ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    /// Opens `count` endpoints at one address. Each gets the datagrams whose byte 4 modulo `count`
    /// is its place in the list; shorter datagrams go to the first.
    ///
    /// # Errors
    /// `InvalidInput` for a count of 0; else as [`Hub::endpoint`].
    pub fn group(&self, addr: SocketAddr, count: usize) -> io::Result<Vec<Memory>> {
        if count == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut local = unmapped(addr);
        let mut endpoints = self.shared.write();
        if local.port() == 0 {
            let free = (FIRST_EPHEMERAL..=u16::MAX)
                .find(|port| !endpoints.contains_key(&SocketAddr::new(local.ip(), *port)));
            local.set_port(free.ok_or(io::ErrorKind::AddrInUse)?);
        }
        if endpoints.contains_key(&local) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let inbox = |_| Inbox {
            capacity: self.capacity,
            queue: Mutex::default(),
            arrived: Condvar::new(),
        };
        let place = Arc::new(Place {
            inboxes: (0..count).map(inbox).collect(),
            open: AtomicUsize::new(count),
        });
        endpoints.insert(local, Arc::clone(&place));
        drop(endpoints);
        let endpoint = |number| Memory {
            shared: Arc::clone(&self.shared),
            local,
            place: Arc::clone(&place),
            number,
            mtu: self.mtu,
            known: HashMap::new(),
            taken: Vec::new(),
            counters: Counters::default(),
            reports: Reports::default(),
        };
        Ok((0..count).map(endpoint).collect())
    }
}

impl Shared {
    fn write(&self) -> impl DerefMut<Target = HashMap<SocketAddr, Arc<Place>>> + '_ {
        self.endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint at `addr`.
    fn find(&self, addr: SocketAddr) -> Option<Arc<Place>> {
        let endpoints = self.endpoints.read();
        let endpoints = endpoints.unwrap_or_else(PoisonError::into_inner);
        endpoints.get(&unmapped(addr)).cloned()
    }
}

/// One endpoint of a [`Hub`]. Its address is free again when it and those that share it are
/// dropped.
#[derive(Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    local: SocketAddr,
    place: Arc<Place>,
    /// Its number among the endpoints there.
    number: usize,
    mtu: usize,
    /// Endpoints found so far. So threads that send need not ask the hub each time, whose lock they
    /// all share.
    known: HashMap<SocketAddr, Arc<Place>>,
    /// Packets taken from the queue under the lock, to be shown to the sink without it.
    taken: Vec<Packet>,
    counters: Counters,
    reports: Reports,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // No reader takes the packets any more, and senders may know this place for long.
        locked(&self.inbox().queue).packets = VecDeque::new();
        if self.place.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.shared.write().remove(&self.local);
        }
    }
}

impl Memory {
    fn inbox(&self) -> &Inbox {
        // Numbered from 0 to one less than the inboxes there.
        &self.place.inboxes[self.number]
    }

    /// The endpoint at `addr` now.
    fn find(&mut self, addr: SocketAddr) -> Option<&Place> {
        let is_open = |place: &Arc<Place>| place.open.load(Ordering::Relaxed) > 0;
        if !self.known.get(&addr).is_some_and(is_open) {
            match self.shared.find(addr) {
                Some(place) => self.known.insert(addr, place),
                None => self.known.remove(&addr),
            };
        }
        self.known.get(&addr).map(AsRef::as_ref)
    }
}

impl Place {
    fn put(&self, from: SocketAddr, train: &Train<'_>) {
        let at = SystemTime::now();
        let mut pieces = Vec::new();
        for index in 0..train.segments() {
            let start = index.saturating_mul(train.segment);
            let end = start.saturating_add(train.segment).min(train.len);
            pieces.clear();
            cut(train.slices, start, end, &mut pieces);
            let mut bytes = Vec::with_capacity(end.saturating_sub(start));
            for piece in &pieces {
                bytes.extend_from_slice(piece);
            }
            let byte = bytes.get(STEERING_BYTE).copied().unwrap_or(0);
            let inbox = &self.inboxes[usize::from(byte) % self.inboxes.len()];
            inbox.put(Packet {
                from,
                ecn: train.ecn,
                at,
                bytes: bytes.into_boxed_slice(),
            });
        }
    }
}

impl Inbox {
    fn put(&self, packet: Packet) {
        let cost = charge(packet.bytes.len());
        let mut queue = locked(&self.queue);
        if queue.charged.saturating_add(cost) > self.capacity {
            queue.dropped += 1;
            return;
        }
        queue.charged += cost;
        queue.packets.push_back(packet);
        let is_awaited = std::mem::take(&mut queue.is_awaited);
        drop(queue);
        if is_awaited {
            self.arrived.notify_one();
        }
    }

    fn take(&self, max: usize, taken: &mut Vec<Packet>) {
        let mut queue = locked(&self.queue);
        let count = max.min(queue.packets.len());
        taken.extend(queue.packets.drain(..count));
        let freed: usize = taken.iter().map(|packet| charge(packet.bytes.len())).sum();
        queue.charged = queue.charged.saturating_sub(freed);
    }
}

impl Backend for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: MAX_TRAIN_SEGMENTS,
            gro: false,
            ecn: true,
            kernel_timestamps: true,
            recv_buffer: self.inbox().capacity,
            send_buffer: self.inbox().capacity,
            block_limit: None,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let segments = train.segments();
        let outcome = match train.admit(MAX_TRAIN_SEGMENTS)? {
            Some(outcome) => outcome,
            None if train.segment.min(train.len) > self.mtu => SendOutcome::TooBig,
            None => {
                self.counters.send_calls += 1;
                let local = self.local;
                match self.find(train.dest) {
                    None => {
                        let kind = io::ErrorKind::ConnectionRefused;
                        let first = train.slices.first().map_or(&[][..], |slice| slice);
                        // All nodes of this network are in this process.
                        self.reports
                            .push(Report::new(train.dest, kind, true, first));
                        SendOutcome::Unreachable(kind)
                    }
                    Some(place) => {
                        place.put(local, train);
                        SendOutcome::Sent(segments)
                    }
                }
            }
        };
        match outcome {
            SendOutcome::Sent(_) => {
                self.counters.datagrams_sent += segments as u64;
                self.counters.bytes_sent += train.len as u64;
                self.counters.trains_sent += u64::from(segments > 1);
            }
            SendOutcome::TooBig => self.counters.too_big += 1,
            SendOutcome::Unreachable(_) => self.counters.unreachable += 1,
            SendOutcome::Again | SendOutcome::NoGso => {}
        }
        Ok(outcome)
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop()
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        self.counters.recv_calls += 1;
        // Numbered from 0 to one less than the inboxes there.
        self.place.inboxes[self.number].take(max, &mut self.taken);
        let count = self.taken.len();
        for mut packet in self.taken.drain(..) {
            let arrived = packet.at.duration_since(UNIX_EPOCH).ok();
            sink(
                &Meta {
                    to: None,
                    from: packet.from,
                    ecn: packet.ecn,
                    arrived,
                    segment: packet.bytes.len(),
                },
                &mut packet.bytes,
            );
            self.counters.bytes_received += packet.bytes.len() as u64;
        }
        self.counters.datagrams_received += count as u64;
        Ok(count)
    }

    /// Sending never waits here: with `want_write` it returns at once.
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.counters.wait_calls += 1;
        let inbox = self.inbox();
        let mut queue = locked(&inbox.queue);
        if !queue.packets.is_empty() || want_write {
            return Ok(Ready {
                readable: !queue.packets.is_empty(),
                writable: want_write,
            });
        }
        queue.is_awaited = true;
        let mut queue = match timeout {
            None => inbox
                .arrived
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = inbox.arrived.wait_timeout(queue, timeout);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        queue.is_awaited = false;
        Ok(Ready {
            readable: !queue.packets.is_empty(),
            writable: false,
        })
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        self.shared.find(dest).map(|_| self.mtu)
    }

    fn counters(&self) -> Counters {
        let recv_drops = locked(&self.inbox().queue).dropped;
        Counters {
            recv_drops,
            ..self.counters
        }
    }

    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
}

#[cfg(test)]
mod tests;
