//! A layer any backend can wear, which damages sent packets as a seed commands.
//!
//! Faults strike single packets, after segmentation: a train is taken apart, and its undamaged
//! packets go on as trains again, so that a damaged link stays fast. Corruption happens before the
//! backend computes a checksum and thus passes it, as bits flipped inside a switch do.

mod dice;
mod held;
mod spec;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use self::dice::{Fate, fate, flip};
use self::held::{Held, HeldPacket, REORDER_PATIENCE};
pub use self::spec::{FaultSpec, FaultSpecError, MAX_DELAY};
use crate::train::cut;
use crate::{
    Backend, Capabilities, Counters, MAX_SLICES, MAX_TRAIN_BYTES, MAX_TRAIN_SEGMENTS, Meta, Ready,
    Report, SendOutcome, Train,
};

/// Time after which due packets that found the backend full are tried again, in case the caller
/// does not watch the backend for writability.
const RETRY: Duration = Duration::from_millis(1);

/// Faults injected so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounters {
    /// Packets that entered the layer.
    pub packets: u64,
    /// Packets dropped.
    pub lost: u64,
    /// Packets followed by a copy.
    pub doubled: u64,
    /// Packets held back for others to pass.
    pub reordered: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Copies delayed by time.
    pub delayed: u64,
    /// Copies lost because too many bytes were held already, or because the backend refused them
    /// when they became due.
    pub discarded: u64,
}

impl FaultCounters {
    /// All faults together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.lost + self.doubled + self.reordered + self.corrupted + self.delayed + self.discarded
    }
}

impl std::ops::AddAssign for FaultCounters {
    fn add_assign(&mut self, other: Self) {
        let Self {
            packets,
            lost,
            doubled,
            reordered,
            corrupted,
            delayed,
            discarded,
        } = other;
        self.packets += packets;
        self.lost += lost;
        self.doubled += doubled;
        self.reordered += reordered;
        self.corrupted += corrupted;
        self.delayed += delayed;
        self.discarded += discarded;
    }
}

/// A backend with faults on the packets that it sends.
///
/// Packets held back leave in `send`, `recv` and `wait`. A caller that sleeps elsewhere must
/// respect [`Backend::due_in`].
#[derive(Debug)]
pub struct Fault<B> {
    inner: B,
    spec: FaultSpec,
    counters: FaultCounters,
    held: Held,
    /// Flipped copies of the train being sent.
    scratch: Vec<u8>,
    /// Due packets found the backend full.
    blocked: bool,
}

/// One datagram that leaves now: a segment of the train, or its flipped copy in the scratch.
#[derive(Debug, Clone)]
struct Copy {
    index: usize,
    flipped: Option<Range<usize>>,
}

impl<B: Backend> Fault<B> {
    /// Wears `spec` over `inner`. A spec that injects nothing costs one comparison per call.
    pub fn new(inner: B, spec: FaultSpec) -> Self {
        Self {
            inner,
            spec,
            counters: FaultCounters::default(),
            held: Held::default(),
            scratch: Vec::new(),
            blocked: false,
        }
    }

    /// The specification worn.
    pub fn spec(&self) -> &FaultSpec {
        &self.spec
    }

    /// Returns the wrapped backend.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Decides the fate of every segment and sends those that go out now. It commits only segments
    /// that the backend took: a segment offered again meets the same fate.
    fn send_faulty(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let segments = train.segments();
        let first = self.counters.packets;
        let fates: Vec<Fate> = (first..)
            .take(segments)
            .map(|number| fate(&self.spec, number))
            .collect();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let copies = if self.spec.delay_max.is_zero() {
            immediate(train, &fates, &mut scratch)
        } else {
            Vec::new()
        };
        let result = self.send_copies(train, segments, &copies, &scratch);
        self.scratch = scratch;
        let (taken, outcome) = result?;
        for (index, fate) in fates.iter().enumerate().take(taken) {
            self.commit(train, index, fate);
        }
        self.flush()?;
        Ok(outcome)
    }

    /// Sends copies in as few trains as possible. Returns how many segments of the original are
    /// done with, and the outcome to answer.
    fn send_copies(
        &mut self,
        train: &Train<'_>,
        segments: usize,
        copies: &[Copy],
        scratch: &[u8],
    ) -> io::Result<(usize, SendOutcome)> {
        let max_segments = self.inner.capabilities().max_segments;
        let mut slices = Vec::with_capacity(train.slices.len());
        let mut refused = None;
        let mut rest = copies;
        while !rest.is_empty() {
            slices.clear();
            let (count, len) = gather(train, rest, scratch, max_segments, &mut slices);
            let segment = rest
                .first()
                .map_or(0, |copy| segment_range(train, copy.index).len());
            let part = Train {
                segment,
                slices: &slices,
                len,
                ..*train
            };
            match self.inner.send(&part)? {
                SendOutcome::Sent(sent) => {
                    rest = rest.get(sent..).unwrap_or_default();
                    if sent < count {
                        refused = Some(SendOutcome::Again);
                        break;
                    }
                }
                no @ SendOutcome::Unreachable(_) => return Ok((segments, no)),
                no => {
                    refused = Some(no);
                    break;
                }
            }
        }
        // A second copy whose first was sent does not hold its segment back: it is forgotten.
        let unsent = rest.first().map(|copy| copy.index);
        let first_sent = copies
            .len()
            .checked_sub(rest.len() + 1)
            .and_then(|at| copies.get(at));
        let taken = match (unsent, first_sent) {
            (None, _) => segments,
            (Some(index), Some(before)) if before.index == index => index + 1,
            (Some(index), _) => index,
        };
        Ok((
            taken,
            if taken > 0 {
                SendOutcome::Sent(taken)
            } else {
                refused.unwrap_or(SendOutcome::Again)
            },
        ))
    }

    /// Counts the faults of a segment that is done with, and keeps it if it goes out later.
    fn commit(&mut self, train: &Train<'_>, index: usize, fate: &Fate) {
        self.counters.packets += 1;
        self.counters.lost += u64::from(fate.lost);
        self.counters.doubled += u64::from(fate.doubled);
        self.counters.reordered += u64::from(fate.overtaken_by.is_some());
        self.counters.corrupted += u64::from(fate.flip.is_some());
        let delayed = !self.spec.delay_max.is_zero();
        if fate.lost || !(delayed || fate.overtaken_by.is_some()) {
            return;
        }
        let now = Instant::now();
        let sound = copy_of(train, index);
        let mut first = sound.clone();
        if let Some(choice) = fate.flip {
            flip(&mut first.bytes, choice);
        }
        if let Some(count) = fate.overtaken_by {
            let after = self.counters.packets.saturating_add(count);
            self.hold(first, |held, packet| {
                let until = now + fate.delay + REORDER_PATIENCE;
                if delayed {
                    held.until(packet, until);
                } else {
                    held.until_overtaken(packet, after, until);
                }
            });
        } else {
            self.counters.delayed += 1;
            self.hold(first, |held, packet| held.until(packet, now + fate.delay));
        }
        if fate.doubled && delayed {
            self.counters.delayed += 1;
            self.hold(sound, |held, packet| held.until(packet, now + fate.delay));
        }
    }

    fn hold(&mut self, packet: HeldPacket, put: impl FnOnce(&mut Held, HeldPacket)) {
        if self.held.has_room(packet.bytes.len()) {
            put(&mut self.held, packet);
        } else {
            self.counters.discarded += 1;
        }
    }

    /// Sends packets that became due, in trains where neighbours are alike.
    fn flush(&mut self) -> io::Result<()> {
        self.blocked = false;
        if self.held.is_empty() {
            return Ok(());
        }
        self.held.release(Instant::now(), self.counters.packets);
        while let Some(first) = self.held.due().front() {
            let max_segments = self
                .inner
                .capabilities()
                .max_segments
                .min(MAX_TRAIN_SEGMENTS);
            let segment = first.bytes.len();
            let fits = (MAX_TRAIN_BYTES / segment.max(1)).clamp(1, max_segments);
            let count = match segment {
                0 => 1,
                _ => self
                    .held
                    .due()
                    .iter()
                    .take(fits)
                    .take_while(|p| alike(p, first))
                    .count(),
            };
            let due = self.held.due().iter().take(count);
            let slices: Vec<IoSlice<'_>> = due.map(|p| IoSlice::new(&p.bytes)).collect();
            let len = segment.saturating_mul(count);
            let (dest, ecn) = (first.dest, first.ecn());
            let train = Train {
                dest,
                source: first.source,
                ecn,
                segment,
                slices: &slices,
                len,
            };
            match self.inner.send(&train)? {
                SendOutcome::Sent(sent) => self.held.done(sent),
                SendOutcome::Again => {
                    self.blocked = true;
                    return Ok(());
                }
                // From now on `max_segments` is 1; a refused single packet has nowhere to go.
                SendOutcome::NoGso if count > 1 => {}
                SendOutcome::NoGso | SendOutcome::TooBig | SendOutcome::Unreachable(_) => {
                    self.counters.discarded += count as u64;
                    self.held.done(count);
                }
            }
        }
        Ok(())
    }
}

/// Whether two held packets can be segments of one train.
fn alike(a: &HeldPacket, b: &HeldPacket) -> bool {
    a.dest == b.dest && a.source == b.source && a.ecn == b.ecn && a.bytes.len() == b.bytes.len()
}

/// The bytes of segment `index` within the train.
fn segment_range(train: &Train<'_>, index: usize) -> Range<usize> {
    let start = index.saturating_mul(train.segment).min(train.len);
    start..start.saturating_add(train.segment).min(train.len)
}

fn copy_of(train: &Train<'_>, index: usize) -> HeldPacket {
    let range = segment_range(train, index);
    let mut pieces = Vec::new();
    cut(train.slices, range.start, range.end, &mut pieces);
    let bytes = pieces
        .iter()
        .flat_map(|piece| piece.iter().copied())
        .collect();
    HeldPacket {
        dest: train.dest,
        source: train.source,
        ecn: train.ecn.bits(),
        bytes,
    }
}

/// The datagrams that go out at once, in order; flipped ones are written to `scratch`.
fn immediate(train: &Train<'_>, fates: &[Fate], scratch: &mut Vec<u8>) -> Vec<Copy> {
    let mut copies = Vec::with_capacity(fates.len());
    for (index, fate) in fates.iter().enumerate().filter(|(_, fate)| !fate.lost) {
        if fate.overtaken_by.is_none() {
            let flipped = fate.flip.map(|choice| {
                let mut packet = copy_of(train, index);
                flip(&mut packet.bytes, choice);
                let start = scratch.len();
                scratch.extend_from_slice(&packet.bytes);
                start..scratch.len()
            });
            copies.push(Copy { index, flipped });
        }
        if fate.doubled {
            copies.push(Copy {
                index,
                flipped: None,
            });
        }
    }
    copies
}

/// Gathers as many of `copies` as make one train, which ends with the first short one (only the
/// last segment of the original, and its second copy, can be). Returns how many, and their bytes.
fn gather<'a>(
    train: &'a Train<'_>,
    copies: &[Copy],
    scratch: &'a [u8],
    max_segments: usize,
    slices: &mut Vec<IoSlice<'a>>,
) -> (usize, usize) {
    let (mut count, mut len, mut segment) = (0, 0_usize, None);
    for copy in copies {
        let range = segment_range(train, copy.index);
        let size = range.len();
        let longest = *segment.get_or_insert(size);
        let mark = slices.len();
        match &copy.flipped {
            Some(range) => {
                slices.push(IoSlice::new(scratch.get(range.clone()).unwrap_or_default()));
            }
            None => cut(train.slices, range.start, range.end, slices),
        }
        let too_much = count == max_segments
            || len.saturating_add(size) > MAX_TRAIN_BYTES
            || slices.len() > MAX_SLICES;
        if count > 0 && too_much {
            slices.truncate(mark);
            break;
        }
        count += 1;
        len = len.saturating_add(size);
        if size < longest {
            break;
        }
    }
    (count, len)
}

impl<B: Backend> Backend for Fault<B> {
    fn capabilities(&self) -> Capabilities {
        // Packets that are held back wait for their time, which a receive that blocks would miss.
        Capabilities {
            block_limit: None,
            ..self.inner.capabilities()
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        if self.spec.is_none() {
            return self.inner.send(train);
        }
        if let Some(outcome) = train.admit(self.inner.capabilities().max_segments)? {
            return Ok(outcome);
        }
        self.send_faulty(train)
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        self.flush()?;
        self.inner.recv(max, sink)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.flush()?;
        let due = self.due_in();
        let limit = match (timeout, due) {
            (Some(timeout), Some(due)) => Some(timeout.min(due)),
            (timeout, due) => timeout.or(due),
        };
        let ready = self.inner.wait(limit, want_write)?;
        self.flush()?;
        Ok(ready)
    }

    fn next_report(&mut self) -> Option<Report> {
        self.inner.next_report()
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        self.inner.path_mtu(dest)
    }

    fn counters(&self) -> Counters {
        Counters {
            faults: self.counters,
            ..self.inner.counters()
        }
    }

    fn charged(&mut self) -> Option<u64> {
        self.inner.charged()
    }

    fn due_in(&self) -> Option<Duration> {
        let next = self
            .held
            .next_release()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let retry = self.blocked.then_some(RETRY);
        [next, retry, self.inner.due_in()]
            .into_iter()
            .flatten()
            .min()
    }

    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        self.inner.raw_fd()
    }
}

#[cfg(test)]
mod tests;
