//! A channel of the outbox without messages.

use super::{Channel, Queue};
use crate::fold::{Fold, Words};
use crate::message::small::FrameQueue;
use std::collections::VecDeque;

/// Only once [`Channel::rests`] found nothing.
impl Fold for Channel {
    fn fold(&self, to: &mut Words) {
        let Self {
            id,
            queue,
            frames: _,
            charged,
            asked,
            limit,
            used,
            resend: _,
            owed: _,
            turn: _,
        } = self;
        id.fold(to);
        to.put_position(queue.base());
        to.put_position(*charged);
        asked.fold(to);
        limit.fold(to);
        used.fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        let channel = Self::new(Fold::unfold(from), 0);
        Self {
            queue: Queue::at(from.take_position()),
            charged: from.take_position(),
            asked: Fold::unfold(from),
            limit: Fold::unfold(from),
            used: Fold::unfold(from),
            ..channel
        }
    }
}

impl Channel {
    /// Gives back what messages needed. False if there is one.
    pub(in crate::message) fn rests(&mut self) -> bool {
        let nothing = self.queue.is_empty() && self.owed == 0;
        if nothing {
            self.queue = Queue::at(self.queue.end());
            self.frames = FrameQueue::default();
            self.resend = VecDeque::new();
        }
        nothing && self.turn.parked.is_none() && !self.turn.to_report
    }
}
