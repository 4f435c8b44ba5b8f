//! The operations that every contender offers.

use suci::Bytes;

use super::control::Waited;
use crate::error::{Failure, Result};

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The message is measured.
    Data,
    /// The client sends no more in this round.
    Last,
    /// The server has received everything.
    Done,
    /// The message is measured, and the server answers it.
    Ask,
}

impl Mark {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Last => 1,
            Self::Done => 2,
            Self::Ask => 3,
        }
    }

    pub(super) fn of(number: u8) -> Option<Self> {
        [Self::Data, Self::Last, Self::Done, Self::Ask]
            .into_iter()
            .find(|mark| mark.number() == number)
    }
}

/// A message received, read byte by byte already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) mark: Mark,
    /// Payload bytes.
    pub(super) length: usize,
}

/// Payload bytes that are collected where batches are measured: about one train.
pub(super) const COLLECTED: usize = 64 << 10;

/// A way to carry messages between two processes.
pub(super) trait Wire {
    /// Sends a message at once; blocks while there is no room.
    fn send(&mut self, payload: &Bytes, mark: Mark) -> Result<()>;

    /// Sends messages that are ready together as a program does that collects them.
    fn send_together<'p>(
        &mut self,
        mut all: impl Iterator<Item = (&'p Bytes, Mark)>,
    ) -> Result<()> {
        all.try_for_each(|(payload, mark)| self.send(payload, mark))
    }

    /// Returns the next message; nothing if none came for a while.
    fn recv(&mut self) -> Result<Option<Received>>;

    /// Appends the next messages, as a program takes them that expects many; none if none came for
    /// a while.
    fn recv_many(&mut self, received: &mut Vec<Received>) -> Result<()> {
        received.extend(self.recv()?);
        Ok(())
    }

    /// Returns the next message if it is here already.
    fn try_recv(&mut self) -> Result<Option<Received>>;

    /// Makes the error for [`PATIENCE`](super::control::PATIENCE) without a message.
    fn silent(&mut self) -> Failure;

    /// Returns the messages and bytes sent that the other side has not acknowledged, as far as the
    /// wire knows.
    fn unacknowledged(&mut self) -> Result<(u64, u64)> {
        Ok((0, 0))
    }

    /// Returns the packets sent so far.
    fn packets(&mut self) -> Result<u64>;

    /// Returns how long messages waited so far, as far as the wire knows.
    fn waits(&mut self) -> Result<Waited> {
        Ok(Waited::default())
    }

    /// Returns true if it promises to deliver.
    fn is_reliable(&self) -> bool {
        true
    }
}

/// Reads a message as a program would that uses it: every cache line once.
pub(super) fn touch(payload: &[u8]) {
    let sum = payload
        .iter()
        .step_by(64)
        .fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    std::hint::black_box(sum);
}
