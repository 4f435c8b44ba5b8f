//! Where received bytes live: buffers that come back when the program lets go of its message.
//!
//! Received bytes are copied exactly once, to where the program will read them. Long messages get a
//! buffer of their own from the shelf, kept at full length so that it is not zeroed again. Buffers
//! below [`SHELVED`] are allocated exactly: a shelf class must not cost a peer less than it costs
//! us. Messages of up to [`CHUNKED`] bytes that come in order share a [`Chunk`].

use crate::wire;
use bytes::{Bytes, BytesMut};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shorter buffers are not kept.
const SHELVED: usize = 4_096;

/// Longest message that shares a chunk, with its header; those of a run come with their frames'
/// heads.
pub(super) const CHUNKED: usize = 2_048;

const _: () = assert!(
    wire::LONGEST <= CHUNKED,
    "no message shares memory with others as part of a run that does not by itself"
);

/// A chunk's first size; it doubles with use up to [`CHUNK`], so that a peer with little to say
/// costs little.
const FIRST_CHUNK: usize = 1_024;

/// A chunk's largest size.
const CHUNK: usize = 16_384;

/// Full chunks of that size that are looked at again when another is needed, at least and at most.
/// A program that takes messages as they come has let go of all in the last but one; one that takes
/// what arrived within a while at once, of those before: memory that goes back meanwhile comes anew
/// from the kernel, page by page.
const FULL_CHUNKS: RangeInclusive<usize> = 4..=64;

/// Buffers for long messages, shared by all sessions of a node. A clone is another handle to the
/// same.
#[derive(Clone)]
pub struct Pool {
    shelves: Arc<Mutex<Shelves>>,
}

struct Shelves {
    /// Buffers at full length, by that length.
    free: BTreeMap<usize, Vec<Vec<u8>>>,
    kept: usize,
    max_kept: usize,
    /// Messages in them may still be somewhere; the oldest first.
    full_chunks: VecDeque<BytesMut>,
}

/// Without the buffers that it keeps.
impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Shelves {
    /// Returns a buffer of the fullest shelf but that of `class`: what is in use now has the room,
    /// not what once was.
    fn take_off(&mut self, class: usize) -> Option<Vec<u8>> {
        let others = self.free.iter_mut().filter(|(other, _)| **other != class);
        let (_, fullest) = others.max_by_key(|(other, shelf)| other.saturating_mul(shelf.len()))?;
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
        let shelves = Shelves {
            free: BTreeMap::new(),
            kept: 0,
            max_kept,
            full_chunks: VecDeque::new(),
        };
        Self {
            shelves: Arc::new(Mutex::new(shelves)),
        }
    }

    /// Returns the bytes of unused buffers kept for long messages.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.lock().kept
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // No code between lock and unlock leaves the shelves half changed.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a buffer of `len` bytes of unspecified (old or zero) content. The caller has charged
    /// them.
    pub(super) fn take(&self, len: usize) -> Buffer {
        if len < SHELVED {
            return Buffer::supplied(vec![0; len], len);
        }
        let class = class(len);
        let old = {
            let mut shelves = self.lock();
            let old = shelves.free.get_mut(&class).and_then(Vec::pop);
            if old.is_some() {
                shelves.kept = shelves.kept.saturating_sub(class);
            }
            old
        };
        let data = old.unwrap_or_else(|| vec![0; class]);
        Buffer {
            memory: Storage::Own(data, Some(self.clone())),
            len,
        }
    }

    /// Takes a full chunk of [`CHUNK`] bytes, and gives one whose messages are gone, if there is
    /// one.
    fn exchange(&self, full: BytesMut) -> Option<BytesMut> {
        let mut shelves = self.lock();
        let most = shelves.max_kept / CHUNK;
        let most = most.clamp(*FULL_CHUNKS.start(), *FULL_CHUNKS.end());
        let chunks = &mut shelves.full_chunks;
        let free = chunks.iter_mut().position(|chunk| chunk.try_reclaim(CHUNK));
        let free = free.and_then(|place| chunks.remove(place));
        if chunks.len() >= most {
            chunks.pop_front();
        }
        chunks.push_back(full);
        free
    }

    fn put_back(&self, data: Vec<u8>) {
        // Before the lock, so that it is freed after it.
        let mut given_up = Vec::new();
        let mut shelves = self.lock();
        if data.len() > shelves.max_kept {
            return;
        }
        while shelves.kept.saturating_add(data.len()) > shelves.max_kept {
            match shelves.take_off(data.len()) {
                Some(other) => given_up.push(other),
                None => return,
            }
        }
        shelves.kept = shelves.kept.saturating_add(data.len());
        shelves.free.entry(data.len()).or_default().push(data);
    }
}

/// Returns the length kept for a buffer of `len` bytes: four steps per power of two, at most a
/// quarter wasted.
fn class(len: usize) -> usize {
    let step = (1_usize << len.max(SHELVED).ilog2()) / 4;
    len.max(SHELVED)
        .checked_next_multiple_of(step)
        .unwrap_or(len)
}

/// The bytes of one message while it is put together.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Storage,
    len: usize,
}

/// What holds the bytes: room for `len` at least.
#[derive(Debug)]
enum Storage {
    /// The message's own, and where to return it.
    Own(Vec<u8>, Option<Pool>),
    /// A place in a chunk. What was not written of it is not there yet.
    Shared(BytesMut),
}

impl Buffer {
    /// Returns a buffer that the program supplied for `len` bytes; `data` is at least as long.
    pub(super) fn supplied(data: Vec<u8>, len: usize) -> Self {
        Self {
            len: len.min(data.len()),
            memory: Storage::Own(data, None),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies `bytes` to `at`. False, and nothing done, if they do not fit.
    #[must_use]
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(end) = at.checked_add(bytes.len()).filter(|end| *end <= self.len) else {
            return false;
        };
        let data = match &mut self.memory {
            Storage::Own(data, _) => data.as_mut_slice(),
            Storage::Shared(data) if at == data.len() => {
                data.extend_from_slice(bytes);
                return true;
            }
            Storage::Shared(data) => {
                data.resize(end.max(data.len()), 0);
                data.as_mut()
            }
        };
        let place = data.get_mut(at..end);
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// Returns true if it is a place in a chunk.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.memory, Storage::Shared(_))
    }

    /// Shortens or lengthens to `len`, within the memory it has. False if that is not enough.
    #[must_use]
    pub(super) fn resize(&mut self, len: usize) -> bool {
        let fits = match &self.memory {
            Storage::Own(data, _) => len <= data.len(),
            Storage::Shared(data) => len <= data.capacity(),
        };
        if fits {
            self.len = len;
        }
        fits
    }

    /// Returns the first bytes of it, at most `len`.
    pub(super) fn front(&self, len: usize) -> &[u8] {
        let data = match &self.memory {
            Storage::Own(data, _) => data.as_slice(),
            Storage::Shared(data) => data.as_ref(),
        };
        data.get(..len.min(self.len)).unwrap_or_default()
    }

    /// Returns the finished message. A shelved buffer goes home when the last reference is dropped.
    pub(super) fn freeze(mut self) -> Bytes {
        match &mut self.memory {
            Storage::Own(_, Some(_)) => Bytes::from_owner(self),
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

/// Messages that are not long side by side, so that none needs an allocation of its own.
///
/// The memory is free again when all messages in it are: only for messages that the program can
/// take at once, else a peer could hold a whole chunk with one message of each that never becomes
/// complete in order. One at a time may come in pieces.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    space: BytesMut,
    size: usize,
    /// There is a message that is not complete.
    lent: bool,
    /// Bytes of all chunks there ever were.
    #[cfg(test)]
    pub(super) allocated: usize,
}

impl Chunk {
    /// Copies `header` and `data` one behind the other: a message of at most [`CHUNKED`] bytes, or
    /// the frames of a run.
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

    /// Returns a place for a message of `len` bytes that comes in pieces, unless it is too long, or
    /// there is such a one.
    pub(super) fn lend(&mut self, pool: &Pool, len: usize) -> Option<Buffer> {
        if self.lent || len > CHUNKED {
            return None;
        }
        self.lent = true;
        self.make_room(pool, len);
        let rest = self.space.split_off(len);
        Some(Buffer {
            memory: Storage::Shared(core::mem::replace(&mut self.space, rest)),
            len,
        })
    }

    /// Returns true if a message in it is not complete.
    pub(super) fn is_lent(&self) -> bool {
        self.lent
    }

    /// What was lent is complete.
    pub(super) fn take_back(&mut self) {
        self.lent = false;
    }

    #[inline]
    fn make_room(&mut self, pool: &Pool, len: usize) {
        if self.space.capacity() < len && !self.space.try_reclaim(len.max(self.size)) {
            self.renew(pool, len);
        }
    }

    /// Goes on in other memory, that has room for `len` bytes.
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

/// `header` and `data` one behind the other, in memory of their own.
pub(super) fn copy_alone(pool: &Pool, header: &[u8], data: &[u8]) -> Bytes {
    let len = header.len().saturating_add(data.len());
    if len < SHELVED {
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
            Storage::Shared(data) => data.capacity(),
        }
    }
}

#[cfg(test)]
mod tests;
