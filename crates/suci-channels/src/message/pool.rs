//! The buffers of received bytes, which return here when the program drops its message.
//!
//! Received bytes are copied exactly once, to where the program reads them. Long messages get a
//! buffer of their own from the pool, which keeps it at full length so that it is not zeroed
//! again. Buffers below [`POOLED`] are allocated at their exact size: rounding up to a size class
//! must not cost us more memory than it costs the peer credit. Messages of up to [`CHUNKED`] bytes
//! that arrive in order share a [`Chunk`].

use super::receive_buffer::ReceiveBuffer;
use bytes::{Bytes, BytesMut};
use core::ops::{Range, RangeInclusive};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_link::wire;

/// Shorter buffers are not kept.
const POOLED: usize = 4_096;

/// Longest message that shares a chunk, including its header. Messages of a batch are stored with
/// the heads of their frames.
pub(super) const CHUNKED: usize = 2_048;

const _: () = assert!(
    wire::LONGEST <= CHUNKED,
    "a message in a batch shares memory only if it would share memory alone"
);

/// First size of a chunk. It doubles with use up to [`CHUNK`], so that a peer with little traffic
/// costs little memory.
const FIRST_CHUNK: usize = 1_024;

/// A chunk's largest size.
const CHUNK: usize = 16_384;

/// Bounds of the number of full chunks that are kept for reuse. A chunk can be reused once the
/// program has dropped all its messages. If the program takes messages as they arrive, that is soon
/// true of the last chunk but one; if it takes them from time to time, only of earlier chunks. A
/// chunk that was freed would have to come back from the kernel page by page.
const FULL_CHUNKS: RangeInclusive<usize> = 4..=64;

/// Buffers for long messages, shared by all sessions of a node. A clone refers to the same pool.
#[derive(Clone)]
pub struct Pool {
    buffers: Arc<Mutex<FreeBuffers>>,
}

struct FreeBuffers {
    /// Buffers at full length, by that length.
    free: BTreeMap<usize, Vec<Vec<u8>>>,
    kept: usize,
    max_kept: usize,
    /// Full chunks, the oldest first. The program may still hold messages in them.
    full_chunks: VecDeque<BytesMut>,
}

/// Omits the buffers.
impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl FreeBuffers {
    /// Removes and returns a buffer of the largest list other than that of `class`. So the buffers
    /// of sizes in use stay, not those of sizes used earlier.
    fn take_off(&mut self, class: usize) -> Option<Vec<u8>> {
        let others = self.free.iter_mut().filter(|(other, _)| **other != class);
        let (_, fullest) = others.max_by_key(|(other, list)| other.saturating_mul(list.len()))?;
        let buffer = fullest.pop()?;
        self.kept = self.kept.saturating_sub(buffer.len());
        Some(buffer)
    }
}

impl Pool {
    /// Returns a pool that keeps at most `max_kept` bytes of unused buffers for long messages, and
    /// as much for small ones, but at least 64 KiB and at most 1 MiB.
    #[must_use]
    pub fn new(max_kept: usize) -> Self {
        let buffers = FreeBuffers {
            free: BTreeMap::new(),
            kept: 0,
            max_kept,
            full_chunks: VecDeque::new(),
        };
        Self {
            buffers: Arc::new(Mutex::new(buffers)),
        }
    }

    /// Returns the bytes of unused buffers kept for long messages.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.lock().kept
    }

    fn lock(&self) -> MutexGuard<'_, FreeBuffers> {
        // No code between lock and unlock leaves the buffers half changed.
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a buffer of `len` bytes with unspecified (old or zero) content. The caller has
    /// charged them.
    pub(super) fn take(&self, len: usize) -> Buffer {
        if len < POOLED {
            return Buffer::supplied(vec![0; len].into(), len);
        }
        let class = class(len);
        let old = {
            let mut buffers = self.lock();
            let old = buffers.free.get_mut(&class).and_then(Vec::pop);
            if old.is_some() {
                buffers.kept = buffers.kept.saturating_sub(class);
            }
            old
        };
        let data = old.unwrap_or_else(|| vec![0; class]);
        Buffer {
            memory: Storage::Own(data, Some(self.clone())),
            len,
        }
    }

    /// Keeps a full chunk of [`CHUNK`] bytes, and returns one whose messages were all dropped, if
    /// there is one.
    fn exchange(&self, full: BytesMut) -> Option<BytesMut> {
        let mut buffers = self.lock();
        let most = buffers.max_kept / CHUNK;
        let most = most.clamp(*FULL_CHUNKS.start(), *FULL_CHUNKS.end());
        let chunks = &mut buffers.full_chunks;
        let free = chunks.iter_mut().position(|chunk| chunk.try_reclaim(CHUNK));
        let free = free.and_then(|index| chunks.remove(index));
        if chunks.len() >= most {
            chunks.pop_front();
        }
        chunks.push_back(full);
        free
    }

    fn put_back(&self, data: Vec<u8>) {
        // Declared before the lock, so that its buffers are freed after unlocking.
        let mut given_up = Vec::new();
        let mut buffers = self.lock();
        if data.len() > buffers.max_kept {
            return;
        }
        while buffers.kept.saturating_add(data.len()) > buffers.max_kept {
            match buffers.take_off(data.len()) {
                Some(other) => given_up.push(other),
                None => return,
            }
        }
        buffers.kept = buffers.kept.saturating_add(data.len());
        buffers.free.entry(data.len()).or_default().push(data);
    }
}

/// Returns the length kept for a buffer of `len` bytes: four steps per power of two, at most a
/// quarter wasted.
fn class(len: usize) -> usize {
    let step = (1_usize << len.max(POOLED).ilog2()) / 4;
    len.max(POOLED)
        .checked_next_multiple_of(step)
        .unwrap_or(len)
}

/// The buffer of one message during reassembly.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Storage,
    len: usize,
}

/// The memory of a buffer, at least `len` bytes.
#[derive(Debug)]
enum Storage {
    /// A buffer of the message alone, and the pool to which it returns, if any.
    Own(Vec<u8>, Option<Pool>),
    /// Memory of the program that is no `Vec`.
    Supplied(ReceiveBuffer),
    /// A part of a chunk. Its length covers the written bytes only.
    Shared(BytesMut),
}

impl Buffer {
    /// Returns a buffer of `len` bytes in `data`, which does not return to a pool afterwards.
    pub(super) fn supplied(data: ReceiveBuffer, len: usize) -> Self {
        Self {
            len: len.min(data.len()),
            memory: match data.into_vec() {
                Ok(data) => Storage::Own(data, None),
                Err(data) => Storage::Supplied(data),
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies `bytes` to `at`. Returns false and does nothing if they do not fit.
    #[must_use]
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(end) = at.checked_add(bytes.len()).filter(|end| *end <= self.len) else {
            return false;
        };
        let data = match &mut self.memory {
            Storage::Own(data, _) => data.as_mut_slice(),
            Storage::Supplied(data) => return data.write(at, bytes),
            Storage::Shared(data) if at == data.len() => {
                data.extend_from_slice(bytes);
                return true;
            }
            Storage::Shared(data) => {
                data.resize(end.max(data.len()), 0);
                data.as_mut()
            }
        };
        let target = data.get_mut(at..end);
        target.map(|target| target.copy_from_slice(bytes)).is_some()
    }

    /// Returns true if its owner only lends it.
    pub(super) fn is_lent(&self) -> bool {
        matches!(&self.memory, Storage::Supplied(memory) if memory.is_lent())
    }

    /// Copies the bytes `range` of `other` to the same position. Both have them.
    pub(super) fn copy_from(&mut self, other: &Self, range: Range<usize>) {
        match &other.memory {
            Storage::Supplied(memory) => {
                let mut bytes = vec![0; range.len()];
                memory.read(range.start, &mut bytes);
                let written = self.write(range.start, &bytes);
                debug_assert!(written, "both are as long as the message");
            }
            _ => {
                let bytes = other.front(range.end).get(range.clone());
                let written = self.write(range.start, bytes.unwrap_or_default());
                debug_assert!(written, "both are as long as the message");
            }
        }
    }

    /// Returns true if it is a part of a chunk.
    pub(super) fn is_in_chunk(&self) -> bool {
        matches!(self.memory, Storage::Shared(_))
    }

    /// Shortens or lengthens the buffer to `len` within its memory. Returns false if that does not
    /// suffice.
    #[must_use]
    pub(super) fn resize(&mut self, len: usize) -> bool {
        let fits = match &self.memory {
            Storage::Own(data, _) => len <= data.len(),
            Storage::Supplied(data) => len <= data.len(),
            Storage::Shared(data) => len <= data.capacity(),
        };
        if fits {
            self.len = len;
        }
        fits
    }

    /// Returns the first bytes, at most `len`.
    pub(super) fn front(&self, len: usize) -> &[u8] {
        let data = match &self.memory {
            Storage::Own(data, _) => data.as_slice(),
            Storage::Supplied(data) => data.as_ref(),
            Storage::Shared(data) => data.as_ref(),
        };
        data.get(..len.min(self.len)).unwrap_or_default()
    }

    /// Returns the finished message. A buffer of the pool returns there when the last reference is
    /// dropped.
    pub(super) fn freeze(mut self) -> Bytes {
        match &mut self.memory {
            Storage::Own(_, Some(_)) | Storage::Supplied(_) => Bytes::from_owner(self),
            Storage::Own(data, None) => {
                let mut data = core::mem::take(data);
                data.truncate(self.len);
                Bytes::from(data)
            }
            Storage::Shared(data) => core::mem::take(data).freeze(),
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.front(self.len)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Storage::Own(data, Some(home)) = &mut self.memory {
            home.put_back(core::mem::take(data));
        }
    }
}

/// Memory in which short messages are stored side by side, so that none needs an allocation of its
/// own.
///
/// The memory is free once all its messages are dropped. So it holds only messages that the program
/// can take at once; otherwise a peer could keep each whole chunk in use by one message that never
/// completes. One message at a time may arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    space: BytesMut,
    size: usize,
    /// True while one message in it is incomplete.
    has_incomplete: bool,
    /// Bytes of all chunks ever allocated.
    #[cfg(test)]
    pub(super) allocated: usize,
}

impl Chunk {
    /// Copies `header` and then `data`: a message of at most [`CHUNKED`] bytes, or the frames of a
    /// batch.
    pub(super) fn copy(&mut self, pool: &Pool, header: &[u8], data: &[u8]) -> Bytes {
        let len = header.len().saturating_add(data.len());
        if len == 0 {
            return Bytes::new();
        }
        self.make_room(pool, len);
        if !header.is_empty() {
            self.space.extend_from_slice(header);
        }
        self.space.extend_from_slice(data);
        self.space.split().freeze()
    }

    /// Reserves memory for a message of `len` bytes that arrives in pieces. Returns `None` if the
    /// message is too long or another one is incomplete.
    pub(super) fn reserve(&mut self, pool: &Pool, len: usize) -> Option<Buffer> {
        if self.has_incomplete || len > CHUNKED {
            return None;
        }
        self.has_incomplete = true;
        self.make_room(pool, len);
        let rest = self.space.split_off(len);
        Some(Buffer {
            memory: Storage::Shared(core::mem::replace(&mut self.space, rest)),
            len,
        })
    }

    /// Returns true if a message in it is incomplete.
    pub(super) fn has_incomplete(&self) -> bool {
        self.has_incomplete
    }

    /// Notes that the incomplete message is complete, or moved to other memory.
    pub(super) fn on_completed(&mut self) {
        self.has_incomplete = false;
    }

    #[inline]
    fn make_room(&mut self, pool: &Pool, len: usize) {
        if self.space.capacity() < len && !self.space.try_reclaim(len.max(self.size)) {
            self.renew(pool, len);
        }
    }

    /// Continues with other memory that has room for `len` bytes.
    #[inline(never)]
    fn renew(&mut self, pool: &Pool, len: usize) {
        if self.size == CHUNK
            && len <= CHUNK
            && let Some(free) = pool.exchange(core::mem::take(&mut self.space))
        {
            self.space = free;
            return;
        }
        self.size = self.size.saturating_mul(2).clamp(FIRST_CHUNK, CHUNK);
        self.space = BytesMut::with_capacity(self.size.max(len));
        #[cfg(test)]
        {
            self.allocated += self.space.capacity();
        }
    }
}

/// Copies `header` and then `data` to memory of their own.
pub(super) fn copy_alone(pool: &Pool, header: &[u8], data: &[u8]) -> Bytes {
    let len = header.len().saturating_add(data.len());
    if len < POOLED {
        let mut own = Vec::with_capacity(len);
        own.extend_from_slice(header);
        own.extend_from_slice(data);
        return Bytes::from(own);
    }
    let mut buffer = pool.take(len);
    let written = buffer.write(0, header) && buffer.write(header.len(), data);
    debug_assert!(written, "the buffer has this length");
    buffer.freeze()
}

#[cfg(test)]
impl Buffer {
    pub(super) fn heap(&self) -> usize {
        match &self.memory {
            Storage::Own(data, _) => data.capacity(),
            Storage::Supplied(data) => data.len(),
            Storage::Shared(data) => data.capacity(),
        }
    }
}

#[cfg(test)]
mod tests;
