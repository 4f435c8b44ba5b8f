//! A long message, one full packet after another.

use super::{HEAD, Outbox};
use crate::message::{index, len64};
use crate::recovery::SentFrame;
use crate::types::{ChannelId, MessageNumber};
use crate::wire::FragHead;
use core::ops::Range;

/// What follows a piece of a long message, as long as nothing else comes between: the bytes never sent, of which
/// each packet takes as many as it holds.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    place: usize,
    channel: ChannelId,
    message: MessageNumber,
    /// Where the next piece begins, and where the message ends.
    range: Range<u64>,
    /// What the channel's turn has left.
    turn: i64,
    /// Charged in its turn so far.
    charged: usize,
}

impl Rest {
    /// The next piece for a packet that has `room` behind its header: none if its channel's turn is over, or if all
    /// the rest would fit, which is the general path's ([`Outbox::next`]).
    pub(crate) fn cut(&mut self, room: usize) -> Option<Range<u64>> {
        let start = self.range.start;
        let space = len64(self.head(start).capacity(room)?);
        if self.turn <= 0 || space == 0 || space >= self.range.end.saturating_sub(start) {
            return None;
        }
        let end = start.saturating_add(space);
        self.range.start = end;
        let charge = index(space).saturating_add(HEAD);
        self.charged = self.charged.saturating_add(charge);
        self.turn = self
            .turn
            .saturating_sub(i64::try_from(charge).unwrap_or(i64::MAX));
        Some(start..end)
    }

    /// Bytes of the frame's head in front of the offset, which is all that differs from piece to piece.
    pub(crate) fn lead(&self) -> usize {
        let head = self.head(0);
        head.size(0, true).saturating_sub(1)
    }

    /// The head of a piece that begins at `offset`.
    pub(crate) fn head(&self, offset: u64) -> FragHead<'static> {
        FragHead {
            channel: self.channel,
            message: self.message,
            offset,
            end: false,
            start: None,
        }
    }

    /// What a packet with this piece has to remember.
    pub(crate) fn sent(&self, piece: &Range<u64>) -> SentFrame {
        SentFrame::Part {
            channel: self.channel,
            message: self.message,
            start: piece.start,
            end: piece.end,
        }
    }
}

impl Outbox {
    /// What [`next`](Self::next) would go on cutting pieces from after a packet that carried `frame` and nothing else:
    /// had a request been due, or something of a higher class, that packet would have carried it.
    pub(crate) fn rest_after(&mut self, frame: &SentFrame) -> Option<Rest> {
        let SentFrame::Part {
            channel,
            message,
            start: 1..,
            end,
        } = *frame
        else {
            return None;
        };
        let place = self.turns.front()?;
        let front = self.channels.get(place).filter(|c| c.id() == channel)?;
        let range = front.rest(message, end)?;
        Some(Rest {
            place,
            channel,
            message,
            range,
            turn: self.turns.left(place),
            charged: 0,
        })
    }

    /// The pieces that were cut from `rest` were sent.
    pub(crate) fn on_cut(&mut self, rest: &Rest) {
        if let Some(channel) = self.channels.get_mut(rest.place) {
            channel.sent_to(rest.message, rest.range.start);
            self.turns.charge(rest.charged);
        }
    }
}
