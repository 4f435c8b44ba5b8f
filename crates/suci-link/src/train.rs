//! The train: packets for one destination, gathered without copying large payloads.
//!
//! The *head block* holds headers, frame heads and small payloads. A *body* is a large payload,
//! which is referenced and not copied. All packets but the last have the same length, so that the
//! kernel can cut the train itself (UDP_SEGMENT). A train lives until the socket has taken it: if
//! the socket is full, the same train is sent later.
//!
//! A sealed train is encrypted once, when it is complete, from these pieces into one block, which
//! is sent. A train that is sent again is not sealed again.

use crate::security::{AEAD_TAG, Sealing};
use crate::types::{Ecn, PacketNumber};
use crate::wire::{Crc, HeaderTemplate, PLAIN_OVERHEAD, checksum, tail};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};

/// The destination of a packet, and its source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The peer's address.
    pub to: SocketAddr,
    /// The address of this host that the packet leaves from; `None` if the system chooses.
    pub source: Option<IpAddr>,
}

impl From<SocketAddr> for Destination {
    fn from(to: SocketAddr) -> Self {
        Self { to, source: None }
    }
}

/// One contiguous part of a packet's bytes.
#[derive(Clone, Copy, Debug)]
struct SourceRange {
    /// 0: the head block; n: body n - 1; [`SEALED`]: the sealed block.
    source: u32,
    len: u32,
    start: usize,
}

/// The source of the bytes of a sealed train.
const SEALED: u32 = u32::MAX;

/// Pieces of a packet that are sealed without a list of their own: most have a head and a body.
const FEW_PIECES: usize = 8;

/// A packet of the train.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Its first piece.
    piece: u32,
    len: u32,
}

/// Consecutive packets that each carry the next piece of one message, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Following {
    /// Number of the first packet.
    pub number: PacketNumber,
    /// Offset of the first packet's piece.
    pub offset: u64,
    /// Bytes of each piece.
    pub len: usize,
    /// Number of packets.
    pub count: usize,
    /// Bytes of each packet before the offset field, which ends its head and has the same length in
    /// all.
    pub lead: usize,
}

/// A packet under construction: its beginning, and the bytes that pieces cover already.
#[derive(Clone, Copy, Debug)]
struct OpenPacket {
    head_start: usize,
    first_piece: usize,
    /// Bytes that pieces cover.
    len: usize,
    /// End of the part of the head block that they cover.
    flushed: usize,
}

/// Packets under construction or waiting to be taken by the socket.
#[derive(Debug, Default)]
pub struct Train {
    dest: Option<Destination>,
    ecn: Ecn,
    head: Vec<u8>,
    bodies: Vec<Bytes>,
    pieces: Vec<SourceRange>,
    segments: Vec<Segment>,
    open: Option<OpenPacket>,
    /// Bytes at the end of each packet that only sealing writes: 0 in plain trains.
    tag: usize,
    /// The packets of a sealed train. It keeps its length from train to train, since bytes beyond a
    /// train mean nothing.
    sealed: Vec<u8>,
    /// Segments already taken.
    sent: usize,
    copied: u64,
}

/// Offset of the checksum in a packet's header.
const CHECKSUM: usize = PLAIN_OVERHEAD - 4;

/// Maximum number of bytes of header and head that are copied together for the checksum: adding a
/// few bytes to the checksum by themselves costs more than the copy.
const LEAD: usize = 64;

impl Train {
    /// Empties the train and addresses it.
    pub fn begin(&mut self, dest: Destination, ecn: Ecn) {
        self.dest = Some(dest);
        self.ecn = ecn;
        self.head.clear();
        self.bodies.clear();
        self.pieces.clear();
        self.segments.clear();
        self.open = None;
        self.tag = 0;
        self.sent = 0;
        self.copied = 0;
    }

    /// Keeps room for a tag at the end of each packet. [`seal`](Self::seal) must follow when the
    /// train is complete.
    pub const fn will_be_sealed(&mut self) {
        self.tag = AEAD_TAG;
    }

    /// Marks all packets of the train.
    pub const fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// Begins a packet. Its content is written with [`Train::head`] and [`Train::reference`].
    pub fn begin_packet(&mut self) {
        let head_start = self.head.len();
        self.open = Some(OpenPacket {
            head_start,
            first_piece: self.pieces.len(),
            len: self.tag,
            flushed: head_start,
        });
    }

    /// Returns the block that headers, frames and small payloads are appended to.
    pub fn head(&mut self) -> &mut Vec<u8> {
        &mut self.head
    }

    /// Returns the bytes of the open packet so far.
    #[inline]
    pub fn packet_len(&self) -> usize {
        self.open
            .map_or(0, |open| open.len + self.head.len() - open.flushed)
    }

    /// Makes a piece of the bytes appended to the head block since the last piece.
    fn flush_head(&mut self) {
        let Some(open) = &mut self.open else { return };
        let (from, end) = (open.flushed, self.head.len());
        let len = end - from;
        if len > 0 {
            self.pieces.push(SourceRange {
                source: 0,
                start: from,
                len: len as u32,
            });
            open.len += len;
            open.flushed = end;
        }
    }

    /// Adds `start..start + len` of `body` by reference.
    pub fn reference(&mut self, body: &Bytes, start: usize, len: usize) {
        if len == 0 {
            return;
        }
        self.flush_head();
        let same = |last: &Bytes| last.as_ptr() == body.as_ptr() && last.len() == body.len();
        if !self.bodies.last().is_some_and(same) {
            self.bodies.push(body.clone());
        }
        self.pieces.push(SourceRange {
            source: self.bodies.len() as u32,
            start,
            len: len as u32,
        });
        if let Some(open) = &mut self.open {
            open.len += len;
        }
    }

    /// Notes that `payload` payload bytes were appended to the head block.
    pub fn note_copied(&mut self, payload: u64) {
        self.copied += payload;
    }

    /// Returns the bytes of all its packets.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.len as usize).sum()
    }

    /// Returns the number of payload bytes copied into this train.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Discards the open packet.
    pub fn abort_packet(&mut self) {
        if let Some(open) = self.open.take() {
            self.head.truncate(open.head_start);
            self.pieces.truncate(open.first_piece);
        }
    }

    /// Closes the packet: fills its checksum in and counts it as a segment. Returns its length.
    ///
    /// `header_only` leaves the rest of the packet to the UDP checksum. A packet that will be
    /// sealed has no checksum.
    pub fn finish_packet(&mut self, header_only: bool) -> usize {
        self.flush_head();
        let Some(open) = self.open.take() else {
            return 0;
        };
        if self.tag == 0 {
            let value = self.checksum(open, header_only);
            let field = open.head_start + CHECKSUM;
            if let Some(target) = self.head.get_mut(field..field + 4) {
                target.copy_from_slice(&value.to_le_bytes());
            }
        }
        self.segments.push(Segment {
            piece: open.first_piece as u32,
            len: open.len as u32,
        });
        open.len
    }

    /// Returns the head of the newest packet and the piece of the newest body behind it, if the
    /// packet has nothing else.
    fn newest(&self) -> Option<(SourceRange, SourceRange)> {
        let first = self.segments.last()?.piece as usize;
        match self.pieces.get(first..)? {
            &[head, body] if head.source == 0 && body.source as usize == self.bodies.len() => {
                Some((head, body))
            }
            _ => None,
        }
    }

    /// Adds the packets that `next` describes. They carry the pieces of the last body that follow
    /// the piece in the newest packet. Their heads are its head with other numbers, offsets and
    /// checksums. Returns false and changes nothing if the newest packet is not one head and one
    /// piece of a body.
    pub fn follow(&mut self, next: &Following) -> bool {
        let Some((like, body)) = self.newest().filter(|(h, _)| next.lead <= h.len as usize) else {
            return false;
        };
        let (head, tag) = (self.bytes_of(like), self.tag);
        let Some(mut template) = HeaderTemplate::new(head, next.lead, next.offset, tag > 0) else {
            return false;
        };
        let bytes = self.bodies.last().map(Bytes::as_ref).unwrap_or_default();
        let (head, first) = (template.head_len(), self.head.len());
        let end = first + head * next.count;
        self.head.resize(end + HeaderTemplate::ROOM, 0);
        self.pieces.reserve(2 * next.count);
        self.segments.reserve(next.count);
        let (mut at, mut offset, mut number) = (first, next.offset, next.number);
        for _ in 0..next.count {
            let start = offset as usize;
            let carried = bytes.get(start..start + next.len).unwrap_or_default();
            let stamped = template.stamp(number, offset, carried);
            // The next head overwrites the meaningless bytes behind this one.
            if let Some(target) = self.head.get_mut(at..at + HeaderTemplate::ROOM) {
                target.copy_from_slice(stamped);
            }
            self.segments.push(Segment {
                piece: self.pieces.len() as u32,
                len: (head + next.len + tag) as u32,
            });
            self.pieces.push(SourceRange {
                source: 0,
                len: head as u32,
                start: at,
            });
            self.pieces.push(SourceRange {
                source: body.source,
                len: next.len as u32,
                start,
            });
            at += head;
            offset += next.len as u64;
            number = number.saturating_add(1);
        }
        self.head.truncate(end);
        true
    }

    /// Returns the checksum of a packet: over all bytes but its own, or over the header.
    fn checksum(&self, open: OpenPacket, header_only: bool) -> u32 {
        let mut pieces = self.pieces.get(open.first_piece..).unwrap_or_default();
        if let [all] = pieces {
            return checksum(self.bytes_of(*all));
        }
        let mut crc = Crc::new();
        let header = open.head_start..open.head_start + CHECKSUM;
        let header = self.head.get(header).unwrap_or_default();
        let first = pieces.split_off_first().filter(|_| !header_only);
        let behind = first.and_then(|first| self.bytes_of(*first).get(PLAIN_OVERHEAD..));
        let behind = behind.unwrap_or_default();
        let mut lead = [0; LEAD];
        match lead.get_mut(..header.len() + behind.len()) {
            Some(lead) => {
                let (front, back) = lead.split_at_mut(header.len());
                front.copy_from_slice(header);
                back.copy_from_slice(behind);
                crc.update(lead);
            }
            None => {
                crc.update(header);
                crc.update(behind);
            }
        }
        if !header_only {
            pieces.iter().for_each(|p| crc.update(self.bytes_of(*p)));
        }
        crc.finish()
    }

    fn bytes_of(&self, piece: SourceRange) -> &[u8] {
        let range = piece.start..piece.start + piece.len as usize;
        let source = match piece.source.checked_sub(1) {
            None => self.head.as_slice(),
            Some(n) => match self.bodies.get(n as usize) {
                Some(body) => body.as_ref(),
                None => self.sealed.as_slice(),
            },
        };
        source.get(range).unwrap_or_default()
    }

    /// Seals all packets of a train that [`will_be_sealed`](Self::will_be_sealed). Encrypting is
    /// the only copy of their bytes.
    pub fn seal(&mut self, sealing: &mut Sealing) {
        if self.tag == 0 {
            return;
        }
        let len = self.bytes();
        let mut sealed = core::mem::take(&mut self.sealed);
        if sealed.len() < len {
            sealed.resize(len, 0);
        }
        let mut rest = sealed.get_mut(..len).unwrap_or_default();
        for (at, segment) in self.segments.iter().enumerate() {
            let behind = self.segments.get(at.saturating_add(1));
            let end = behind.map_or(self.pieces.len(), |next| next.piece as usize);
            let pieces = self.pieces.get(segment.piece as usize..end);
            let Some(packet) = rest.split_off_mut(..segment.len as usize) else {
                break;
            };
            self.seal_packet(pieces.unwrap_or_default(), packet, sealing);
            if rest.is_empty() {
                sealing.note_tail(tail(packet));
            }
        }
        self.sealed = sealed;
        self.send_sealed();
    }

    /// Seals the packet of these pieces into `sealed`.
    fn seal_packet(&self, pieces: &[SourceRange], sealed: &mut [u8], sealing: &mut Sealing) {
        let Some((first, bodies)) = pieces.split_first() else {
            return;
        };
        let Some((header, head)) = self.bytes_of(*first).split_first_chunk() else {
            return;
        };
        let mut few = [&[][..]; FEW_PIECES];
        let slices = core::iter::once(head).chain(bodies.iter().map(|p| self.bytes_of(*p)));
        match few.get_mut(..pieces.len()) {
            Some(few) => {
                few.iter_mut()
                    .zip(slices)
                    .for_each(|(to, slice)| *to = slice);
                sealing.seal(header, few, sealed);
            }
            None => sealing.seal(header, &slices.collect::<Vec<_>>(), sealed),
        }
    }

    /// Replaces the pieces by those of the sealed block, one for each packet.
    fn send_sealed(&mut self) {
        self.pieces.clear();
        let mut start = 0;
        for (at, segment) in self.segments.iter_mut().enumerate() {
            segment.piece = at as u32;
            self.pieces.push(SourceRange {
                source: SEALED,
                len: segment.len,
                start,
            });
            start += segment.len as usize;
        }
        self.bodies.clear();
    }

    /// Ends the open packet and appends its bytes to `out` instead of making it a segment.
    pub fn finish_raw(&mut self, out: &mut Vec<u8>) {
        self.flush_head();
        if let Some(open) = self.open.take() {
            for piece in self.pieces.get(open.first_piece..).unwrap_or_default() {
                out.extend_from_slice(self.bytes_of(*piece));
            }
        }
    }

    /// Adds a complete packet.
    pub fn single(&mut self, packet: &[u8]) {
        self.begin_packet();
        self.head.extend_from_slice(packet);
        self.flush_head();
        if let Some(open) = self.open.take() {
            self.segments.push(Segment {
                piece: open.first_piece as u32,
                len: open.len as u32,
            });
        }
    }

    /// Returns the packets closed so far.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns true if anything waits to be taken by the socket.
    pub fn is_pending(&self) -> bool {
        self.sent < self.segments.len()
    }

    /// Notes that the socket took `count` more segments. Returns how many there were, and their
    /// bytes.
    pub fn taken(&mut self, count: usize) -> (usize, usize) {
        let end = self.sent.saturating_add(count).min(self.segments.len());
        let taken = self.segments.get(self.sent..end).unwrap_or_default();
        self.sent = end;
        (taken.len(), taken.iter().map(|s| s.len as usize).sum())
    }

    /// Returns the waiting packets, at most `max_segments` of them.
    pub fn view(&self, max_segments: usize) -> Option<Transmit<'_>> {
        let Destination { to: dest, source } = self.dest?;
        let end = (self.sent + max_segments.max(1)).min(self.segments.len());
        let segments = self.segments.get(self.sent..end)?;
        let first = segments.first()?;
        let stop = self
            .segments
            .get(end)
            .map_or(self.pieces.len(), |s| s.piece as usize);
        Some(Transmit {
            dest,
            source,
            ecn: self.ecn,
            segment: first.len as usize,
            len: segments.iter().map(|s| s.len as usize).sum(),
            segments: segments.len(),
            train: self,
            pieces: first.piece as usize..stop,
        })
    }
}

/// Packets to send now, as a gather list: one destination, equal segments except the last.
#[derive(Clone, Debug)]
pub struct Transmit<'a> {
    /// The destination.
    pub dest: SocketAddr,
    /// The address of this host that the packets leave from, as in
    /// [`Arrival`](crate::arrival::Arrival); `None` if the system chooses.
    pub source: Option<IpAddr>,
    /// The mark to send it with.
    pub ecn: Ecn,
    /// Bytes per segment; the last may be shorter.
    pub segment: usize,
    /// Bytes in all.
    pub len: usize,
    /// Number of segments.
    pub segments: usize,
    train: &'a Train,
    pieces: core::ops::Range<usize>,
}

impl<'a> Transmit<'a> {
    /// Returns the most slices that [`slices`](Self::slices) yields.
    #[must_use]
    pub fn pieces(&self) -> usize {
        match self.train.tag {
            0 => self.pieces.len(),
            // The sealed block is one slice.
            _ => 1,
        }
    }

    /// Returns the bytes in order, in as few slices as possible. A segment's end need not fall on a
    /// slice's end.
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let train = self.train;
        let mut pieces = train
            .pieces
            .get(self.pieces.clone())
            .unwrap_or_default()
            .iter()
            .copied()
            .peekable();
        core::iter::from_fn(move || {
            let mut slice = pieces.next()?;
            // Head pieces of neighbouring packets touch: one slice serves them all.
            while let Some(next) = pieces.next_if(|p| {
                p.source == slice.source && p.start == slice.start + slice.len as usize
            }) {
                slice.len += next.len;
            }
            Some(train.bytes_of(slice))
        })
    }

    /// Appends the bytes to `out`: for drivers that cannot gather.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        for slice in self.slices() {
            out.extend_from_slice(slice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F25: the socket took part of a train, and then cannot reach the destination.
    #[test]
    fn f25_the_rest_of_a_train_is_given_up_at_once() {
        let mut train = Train::default();
        train.begin(SocketAddr::from(([127, 0, 0, 1], 1)).into(), Ecn::NotEct);
        (0..3).for_each(|_| train.single(b"packet"));
        train.taken(1);
        assert!(train.is_pending());
        train.taken(usize::MAX);
        assert!(!train.is_pending());
    }
}
