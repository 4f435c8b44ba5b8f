//! Messages in a stream of bytes, each behind its length: for contenders that keep no boundaries.

use super::wire::{Received, Result};

/// Bytes read ahead behind the message that is being read.
const AHEAD: usize = 256 << 10;

pub(crate) struct Frames {
    /// Read ahead: `ahead[from..to]` comes next.
    ahead: Vec<u8>,
    from: usize,
    to: usize,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self {
            ahead: vec![0; AHEAD],
            from: 0,
            to: 0,
        }
    }

    /// Room behind the buffered bytes, never none as long as messages taken from here are short.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.to == AHEAD {
            self.ahead.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.ahead[self.to..]
    }

    /// `count` bytes of the room were filled.
    pub(crate) fn filled(&mut self, count: usize) {
        self.to += count;
    }

    /// Length of the next message.
    pub(crate) fn length(&self) -> Option<usize> {
        let prefix = self.ahead[self.from..self.to].first_chunk::<4>()?;
        Some(u32::from_le_bytes(*prefix) as usize)
    }

    /// The next message, if all of it is here.
    pub(crate) fn take(&mut self) -> Result<Option<Received>> {
        let Some(length) = self.length() else {
            return Ok(None);
        };
        let begin = self.from + 4;
        if self.to - begin < length {
            return Ok(None);
        }
        self.from = begin + length;
        Received::touch(&self.ahead[begin..begin + length]).map(Some)
    }

    /// Moves the buffered beginning of the next message, which is not all of it, to `message`.
    /// Returns its length.
    pub(crate) fn begin(&mut self, message: &mut [u8]) -> usize {
        let begin = self.from + 4;
        let have = self.to - begin;
        message[..have].copy_from_slice(&self.ahead[begin..self.to]);
        (self.from, self.to) = (0, 0);
        have
    }
}
