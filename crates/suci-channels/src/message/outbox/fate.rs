//! Acknowledgements and losses of sent frames.

use super::Outbox;
use crate::message::send_queue::Released;
use crate::message::{ByClass, SentFrame};

impl Outbox {
    /// Handles the acknowledgement of a sent frame. Frames that are not the outbox's are ignored.
    pub fn on_acked(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::Data {
                channel,
                start,
                end,
            } => {
                let Some(index) = self.find(channel) else {
                    return;
                };
                if let Some(channel) = self.channels.get_mut(index) {
                    let released = channel.acked(start..end, &mut self.completions);
                    self.release(index, released);
                }
            }
            SentFrame::Rts { channel, message } => {
                if let Some(channel) = self.find(channel).and_then(|p| self.channels.get_mut(p)) {
                    channel.rts_lost(message, false);
                }
            }
            SentFrame::Fin { channel } => self.on_fin_acked(channel),
            _ => {}
        }
    }

    /// Schedules all unacknowledged bytes for retransmission. O(messages).
    pub fn on_all_lost(&mut self) {
        for (index, channel) in &mut self.channels {
            channel.all_lost();
            self.scheduler.add(index);
        }
    }

    /// Handles the loss of a frame, or the replacement of its connection. Its unacknowledged bytes
    /// are sent again. Frames that are not the outbox's are ignored.
    pub fn on_lost(&mut self, frame: &SentFrame) {
        if let SentFrame::Fin { channel } = *frame {
            return self.on_fin_lost(channel);
        }
        let (SentFrame::Data { channel, .. }
        | SentFrame::Rts { channel, .. }
        | SentFrame::ChannelBlocked { channel }) = *frame
        else {
            return;
        };
        let Some(index) = self.find(channel) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        match *frame {
            SentFrame::Data { start, end, .. } => channel.queue.lost(start..end),
            SentFrame::Rts { message, .. } => channel.rts_lost(message, true),
            _ => {
                self.report(index);
                self.cool_down(index);
                return;
            }
        }
        self.activate(index);
    }

    /// Counts released messages: the queue has room again, and the channel may be idle.
    pub(super) fn release(&mut self, index: usize, released: Released) {
        if released.messages == 0 {
            // Even an acknowledgement that releases nothing may leave the channel idle.
            self.cool_down(index);
            return;
        }
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        channel.queue.give_back(&mut self.caches);
        let (parked, empty) = (channel.wait.parked.is_some(), channel.queue.is_empty());
        let (Released { over, left, .. }, id) = (released, channel.id());
        let sum = self.sum_of(index, id);
        self.queued
            .change(sum, |all| all.without(released.freed).minus(left));
        if sum != ByClass::INTERNAL {
            self.over = self.over.plus(over).minus(left);
        }
        self.voids = self.voids.saturating_sub(released.voids);
        if parked {
            // The new first message may be announced instead of waiting for credit.
            self.activate(index);
        } else if empty {
            self.list_fin(index);
            self.cool_down(index);
            self.compact();
        }
    }
}
