//! The symmetric heap: the same blocks at the same offsets in all processes.
//!
//! All processes call the same functions with the same sizes in the same order, so the allocator
//! needs no messages: it depends on nothing but these calls. Its lists are not in the heap itself,
//! where a stray put could change them.

use std::collections::BTreeMap;

/// Blocks begin at multiples of it, as those of `malloc` do, and each takes a multiple of it.
pub(crate) const ALIGNMENT: usize = 16;

/// The free and the used blocks of a heap, by their offsets.
#[derive(Debug)]
pub(crate) struct Heap {
    /// Lengths of free blocks. No two of them touch.
    free: BTreeMap<usize, usize>,
    /// Lengths of used blocks.
    used: BTreeMap<usize, usize>,
}

impl Heap {
    /// A heap of `length` free bytes.
    pub(crate) fn new(length: usize) -> Self {
        let (free, used) = (BTreeMap::from([(0, length)]), BTreeMap::new());
        Self { free, used }
    }

    /// Allocates a block of at least `length` bytes at a multiple of `alignment`, which is a power
    /// of 2. Takes the first free block that is large enough. Returns its offset.
    pub(crate) fn allocate(&mut self, length: usize, alignment: usize) -> Option<usize> {
        let length = length.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let alignment = alignment.max(ALIGNMENT);
        let (start, room, at) = self.free.iter().find_map(|(&start, &room)| {
            let at = start.checked_next_multiple_of(alignment)?;
            let end = at.checked_add(length)?;
            (end <= start + room).then_some((start, room, at))
        })?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        if start + room > at + length {
            self.free.insert(at + length, start + room - (at + length));
        }
        self.used.insert(at, length);
        Some(at)
    }

    /// Frees the block at an offset. Returns false if none begins there.
    pub(crate) fn free(&mut self, at: usize) -> bool {
        let Some(length) = self.used.remove(&at) else {
            return false;
        };
        let (mut start, mut end) = (at, at + length);
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
        {
            start = before;
        }
        if let Some(room) = self.free.remove(&end) {
            end += room;
        }
        self.free.insert(start, end - start);
        true
    }

    /// The length of the used block at an offset.
    pub(crate) fn length(&self, at: usize) -> Option<usize> {
        self.used.get(&at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_free_ones_join() {
        let mut heap = Heap::new(1_024);
        let blocks: Vec<_> = (0..64).map(|_| heap.allocate(1, 1).unwrap()).collect();
        assert_eq!(blocks, (0..1_024).step_by(16).collect::<Vec<_>>());
        assert_eq!(heap.allocate(1, 1), None, "it is full");
        for at in blocks
            .iter()
            .step_by(2)
            .chain(blocks.iter().skip(1).step_by(2))
        {
            assert!(heap.free(*at) && !heap.free(*at));
        }
        assert_eq!(heap.allocate(1_024, 1), Some(0), "one block again");
        assert_eq!(heap.length(0), Some(1_024));
    }

    #[test]
    fn blocks_are_aligned_and_sizes_that_do_not_fit_refused() {
        let mut heap = Heap::new(4_096);
        assert_eq!(heap.allocate(1, 1), Some(0));
        assert_eq!(heap.allocate(10, 1_024), Some(1_024));
        assert_eq!(heap.allocate(10, 1), Some(16), "the gap is used");
        assert_eq!(heap.allocate(4_096, 1), None);
        assert_eq!(heap.allocate(usize::MAX, 1), None);
        assert!(heap.free(1_024) && heap.free(0) && heap.free(16) && !heap.free(5));
        assert_eq!(heap.allocate(4_096, 4_096), Some(0));
    }
}
