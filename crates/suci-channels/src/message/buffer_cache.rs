//! A cache for one buffer that an empty queue gives to the next queue that needs one.

use std::collections::VecDeque;

/// The buffer of a queue.
pub(super) trait Memory: Default {
    /// Size of an entry in bytes.
    #[cfg(test)]
    const ENTRY: usize;

    fn is_empty(&self) -> bool;
    /// Returns the capacity in entries.
    fn capacity(&self) -> usize;
}

impl<T> Memory for Vec<T> {
    #[cfg(test)]
    const ENTRY: usize = size_of::<T>();

    #[inline]
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.capacity()
    }
}

impl<T> Memory for VecDeque<T> {
    #[cfg(test)]
    const ENTRY: usize = size_of::<T>();

    #[inline]
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.capacity()
    }
}

/// The buffer of a channel's empty queue, of at most `MOST` entries, kept for the next queue that
/// needs one. If each channel kept its own buffer, many channels that were busy one after the other
/// would use as much memory as if all were busy at once.
#[derive(Debug, Default)]
pub(super) struct BufferCache<M, const MOST: usize>(M);

impl<M: Memory, const MOST: usize> BufferCache<M, MOST> {
    /// Gives the buffer to `queue` if it has none.
    #[inline]
    pub(super) fn lend(&mut self, queue: &mut M) {
        if queue.capacity() == 0 {
            core::mem::swap(queue, &mut self.0);
        }
    }

    /// Takes the buffer of `queue` if the queue is empty and the buffer has more than `own`
    /// entries.
    #[inline]
    pub(super) fn collect(&mut self, queue: &mut M, own: usize) {
        if queue.capacity() > own && queue.is_empty() {
            let old = core::mem::take(queue);
            if old.capacity() <= MOST && old.capacity() > self.0.capacity() {
                self.0 = old;
            }
        }
    }
}

#[cfg(test)]
impl<M: Memory, const MOST: usize> BufferCache<M, MOST> {
    /// Returns the bytes of heap that it uses.
    pub(super) fn footprint(&self) -> usize {
        self.0.capacity() * M::ENTRY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Bytes = BufferCache<Vec<u8>, 100>;

    #[test]
    fn a_queue_without_a_buffer_gets_the_buffer_of_an_empty_one() {
        let (mut cache, mut one, mut other) = (Bytes::default(), Vec::with_capacity(50), vec![]);
        let address = one.as_ptr();
        cache.collect(&mut one, 10);
        assert_eq!((one.capacity(), cache.footprint()), (0, 50));
        cache.lend(&mut other);
        assert_eq!((other.as_ptr(), cache.footprint()), (address, 0));
        cache.lend(&mut one);
        assert_eq!(one.capacity(), 0, "there is one only");
    }

    #[test]
    fn a_queue_that_holds_entries_keeps_its_buffer() {
        let (mut cache, mut full, mut short) =
            (Bytes::default(), vec![1; 50], Vec::with_capacity(10));
        cache.collect(&mut full, 10);
        cache.collect(&mut short, 10);
        assert_eq!(
            (full.capacity(), short.capacity(), cache.footprint()),
            (50, 10, 0)
        );
        cache.collect(&mut Vec::with_capacity(50), 10);
        cache.lend(&mut short);
        assert_eq!((short.capacity(), cache.footprint()), (10, 50));
    }

    #[test]
    fn the_largest_that_is_not_too_large_is_kept() {
        let mut cache = Bytes::default();
        for (size, held) in [(20, 20), (101, 20), (100, 100), (50, 100)] {
            let mut queue = Vec::with_capacity(size);
            cache.collect(&mut queue, 10);
            assert_eq!((queue.capacity(), cache.footprint()), (0, held), "{size}");
        }
    }
}
