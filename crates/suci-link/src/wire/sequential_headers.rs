//! Headers of frames that differ only in the message number, which rises by one, as those of
//! consecutive small messages.
//!
//! A varint has its value above the bits that encode its length. So the next header is the last one
//! plus a constant: one addition writes it, and one comparison reads it.

/// Bytes of the longest head.
const LONGEST: usize = size_of::<u128>();

/// The next head of a sequence, and how many may follow.
#[derive(Clone, Copy, Debug)]
pub struct SequentialHeaders {
    next: u128,
    step: u128,
    /// Bytes of each head.
    head: usize,
    /// Heads before the number needs another byte.
    left: u64,
}

impl SequentialHeaders {
    /// Returns the heads that follow the first `head` bytes of `frame`: its type, a channel and a
    /// number, both varints, and bytes that all heads have in common. None if the head has more
    /// than `LONGEST` bytes, or a varint has nine.
    pub fn after(frame: &[u8], head: usize) -> Option<Self> {
        let mut word = [0; LONGEST];
        word.get_mut(..head)?.copy_from_slice(frame.get(..head)?);
        let word = u128::from_le_bytes(word);
        let size = |word: u128| {
            let size = (word as u64).trailing_zeros() + 1;
            (size <= 8).then_some(size)
        };
        let before = 1 + size(word >> 8)?;
        let number = word >> (8 * before);
        let size = size(number).filter(|size| (before + size) as usize <= head)?;
        let number = (number as u64) << (64 - 8 * size) >> (64 - 7 * size);
        let step = 1 << (8 * before + size);
        Some(Self {
            next: word.checked_add(step)?,
            step,
            head,
            left: (u64::MAX >> (64 - 7 * size)).checked_sub(number)?,
        })
    }

    /// Returns the bytes of the buffer that writing a frame with `data` bytes of data may
    /// overwrite.
    #[inline]
    pub fn room(&self, data: usize) -> usize {
        LONGEST.max(self.head.saturating_add(data))
    }

    /// Writes a frame with the next head and this data to the front of `buf`, and returns its
    /// length. Returns none, with the front of `buf` undefined, if no head is left or `buf` is
    /// shorter than the frame's [`room`](Self::room).
    #[inline(always)]
    pub fn put(&mut self, buf: &mut [u8], data: &[u8]) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let end = self.head.saturating_add(data.len());
        *buf.first_chunk_mut()? = self.next.to_le_bytes();
        buf.get_mut(self.head..end)?.copy_from_slice(data);
        self.advance();
        Some(end)
    }

    /// Returns how many frames at the front of `bytes` have the next heads, each followed by `data`
    /// bytes, and the bytes behind them. A frame that begins in the last `stop` bytes does not
    /// count.
    #[inline]
    pub fn skip<'a>(&mut self, bytes: &'a [u8], data: usize, stop: usize) -> (u64, &'a [u8]) {
        let frame = self.head.saturating_add(data);
        let mask = u128::MAX >> (8 * (LONGEST - self.head));
        let (mut rest, mut count) = (bytes, 0);
        while rest.len() > stop
            && let Some(front) = rest.first_chunk::<LONGEST>()
            && u128::from_le_bytes(*front) & mask == self.next
            && let Some(behind) = rest.get(frame..)
            && self.left > 0
        {
            rest = behind;
            count += 1;
            self.advance();
        }
        (count, rest)
    }

    fn advance(&mut self) {
        self.left -= 1;
        self.next = self.next.wrapping_add(self.step);
    }
}
