//! Cutting a large message into pieces that fill packets.

use super::Outbox;
use crate::message::SentFrame;
use crate::message::sizes::{len64, to_usize};
use core::ops::Range;
use suci_link::link::Cut;
use suci_link::types::{ChannelId, MessageNumber};
use suci_link::wire::{FragHead, varint};

/// The unsent bytes of a large message. Each packet takes as many as it holds, until something else
/// must be sent first.
#[derive(Clone, Debug)]
pub struct Rest {
    index: usize,
    channel: ChannelId,
    message: MessageNumber,
    /// The range of the message that is left.
    range: Range<u64>,
    /// The position of the message's first byte.
    first: u64,
    /// Bytes that the channel may still send in its round.
    left_in_round: i64,
    /// Bytes of the round that [`cut`](Self::cut) used.
    charged: usize,
}

impl Rest {
    /// Cuts pieces of one size for at most `most` packets with `room` bytes behind their headers.
    /// Returns `None` if the channel's round is over, or if the rest fits into one packet, which
    /// [`Outbox::next`] builds. All pieces of a call have offsets of one encoded length.
    pub fn cut(&mut self, room: usize, most: usize) -> Option<Cut<SentFrame>> {
        let start = self.range.start;
        let len = self.head(start).capacity(room).filter(|len| *len > 0)?;
        // A packet counts with all of its room, as in `Outbox::fill`.
        let (space, charge) = (len64(len), room);
        let left = self.range.end.checked_sub(start)?.checked_sub(1)?;
        let until_end = left / space;
        let until_longer = varint::last_like(start).checked_sub(start)? / space + 1;
        let in_round = u64::try_from(self.left_in_round)
            .ok()?
            .div_ceil(len64(charge));
        let count = until_end.min(until_longer).min(in_round).min(len64(most));
        if count == 0 {
            return None;
        }
        self.range.start = start.saturating_add(count.saturating_mul(space));
        let charged = charge.saturating_mul(to_usize(count));
        self.charged = self.charged.saturating_add(charged);
        let position = self.first.saturating_add(start);
        Some(Cut {
            offset: start,
            len,
            count: to_usize(count),
            // Heads differ in their offset only.
            lead: self.head(0).size(0, true).saturating_sub(1),
            sent: SentFrame::Data {
                channel: self.channel,
                start: position,
                end: position.saturating_add(count.saturating_mul(space)),
            },
        })
    }

    /// Returns the head of a piece that begins at `offset`.
    fn head(&self, offset: u64) -> FragHead<'static> {
        FragHead {
            channel: self.channel,
            message: self.message,
            offset,
            end: false,
            start: None,
        }
    }

    /// Returns the head of the piece that begins at position `start`.
    pub fn head_at(&self, start: u64) -> FragHead<'static> {
        self.head(start.saturating_sub(self.first))
    }
}

impl Outbox {
    /// Returns the rest of the message from which [`next`](Self::next) would cut the next piece,
    /// after a packet that carried `frame` and nothing else. Returns `None` if something else must
    /// be sent before.
    pub fn rest_after(&mut self, frame: &SentFrame) -> Option<Rest> {
        let SentFrame::Data {
            channel,
            start,
            end,
        } = *frame
        else {
            return None;
        };
        if self.has_blocked_channels() {
            return None;
        }
        let (index, limits) = (self.scheduler.front()?, self.send_limits());
        let front = self.channels.get(index).filter(|c| c.id() == channel)?;
        let (message, range) = front.rest(start, end, limits)?;
        Some(Rest {
            index,
            channel,
            message,
            first: end.saturating_sub(range.start),
            range,
            left_in_round: self.scheduler.left(index),
            charged: 0,
        })
    }

    /// Counts the pieces that were cut from `rest` as sent.
    pub fn on_cut(&mut self, rest: &Rest) {
        if let Some(channel) = self.channels.get_mut(rest.index) {
            let end = rest.first.saturating_add(rest.range.start);
            channel.queue.sent_to(end);
            self.scheduler.charge(rest.charged);
        }
    }
}
