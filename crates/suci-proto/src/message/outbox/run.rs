//! A long message, one full packet after another.

use super::Outbox;
use crate::message::{index, len64};
use crate::recovery::SentFrame;
use crate::types::{ChannelId, MessageNumber};
use crate::wire::{FragHead, varint};
use core::ops::Range;

/// What follows a piece of a long message, as long as nothing else comes between: the bytes never
/// sent, of which each packet takes as many as it holds.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    place: usize,
    channel: ChannelId,
    message: MessageNumber,
    /// Where the next piece begins in the message, and where that ends.
    range: Range<u64>,
    /// The position of the message's first byte.
    first: u64,
    /// What the channel's turn has left.
    turn: i64,
    /// Charged in its turn so far.
    charged: usize,
}

/// Pieces of one size that follow one another, each for a packet of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    /// Where the first begins in its message.
    pub(crate) start: u64,
    /// Bytes of each.
    pub(crate) len: usize,
    /// How many: at least one.
    pub(crate) count: usize,
}

impl Rest {
    /// Pieces of one size for at most `most` packets that have `room` behind their headers: none if
    /// the channel's turn is over, or if all the rest would fit into one, which is the general
    /// path's ([`Outbox::next`]). Where offsets become longer others follow.
    pub(crate) fn cut(&mut self, room: usize, most: usize) -> Option<Pieces> {
        let start = self.range.start;
        let len = self.head(start).capacity(room).filter(|len| *len > 0)?;
        // All of the packet, as of one that is filled alone.
        let (space, charge) = (len64(len), room);
        let left = self.range.end.checked_sub(start)?.checked_sub(1)?;
        let until_end = left / space;
        let until_longer = varint::last_like(start).checked_sub(start)? / space + 1;
        let turns = u64::try_from(self.turn).ok()?.div_ceil(len64(charge));
        let count = until_end.min(until_longer).min(turns).min(len64(most));
        if count == 0 {
            return None;
        }
        self.range.start = start.saturating_add(count.saturating_mul(space));
        let charged = charge.saturating_mul(index(count));
        self.charged = self.charged.saturating_add(charged);
        Some(Pieces {
            start,
            len,
            count: index(count),
        })
    }

    /// Bytes of the frame's head in front of the offset, which is all that differs from piece to
    /// piece.
    pub(crate) fn lead(&self) -> usize {
        let head = self.head(0);
        head.size(0, true).saturating_sub(1)
    }

    /// The head of a piece that begins at `offset`.
    fn head(&self, offset: u64) -> FragHead<'static> {
        FragHead {
            channel: self.channel,
            message: self.message,
            offset,
            end: false,
            start: None,
        }
    }

    /// The head of the piece that begins at position `start`.
    pub(crate) fn head_at(&self, start: u64) -> FragHead<'static> {
        self.head(start.saturating_sub(self.first))
    }

    /// What packets with these pieces have to remember, all together.
    pub(crate) fn sent(&self, pieces: &Pieces) -> SentFrame {
        let bytes = len64(pieces.len).saturating_mul(len64(pieces.count));
        let start = self.first.saturating_add(pieces.start);
        SentFrame::Data {
            channel: self.channel,
            start,
            end: start.saturating_add(bytes),
        }
    }
}

impl Outbox {
    /// What [`next`](Self::next) would go on cutting pieces from after a packet that carried
    /// `frame` and nothing else, if nothing else is to be said first.
    pub(crate) fn rest_after(&mut self, frame: &SentFrame) -> Option<Rest> {
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
        let (place, terms) = (self.turns.front()?, self.terms());
        let front = self.channels.get(place).filter(|c| c.id() == channel)?;
        let (message, range) = front.rest(start, end, terms)?;
        Some(Rest {
            place,
            channel,
            message,
            first: end.saturating_sub(range.start),
            range,
            turn: self.turns.left(place),
            charged: 0,
        })
    }

    /// The pieces that were cut from `rest` were sent.
    pub(crate) fn on_cut(&mut self, rest: &Rest) {
        if let Some(channel) = self.channels.get_mut(rest.place) {
            let end = rest.first.saturating_add(rest.range.start);
            channel.queue.sent_to(end);
            self.turns.charge(rest.charged);
        }
    }
}
