//! What became of what was sent: acknowledged, or owed again.

use super::Outbox;
use crate::message::outgoing::Released;
use crate::recovery::SentFrame;

impl Outbox {
    /// What a packet carried has arrived. Frames that are not the outbox's are ignored.
    pub fn on_acked(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::Whole {
                channel,
                first,
                count,
            } => {
                let Some(place) = self.find(channel) else {
                    return;
                };
                if let Some(channel) = self.channels.get_mut(place) {
                    let released = channel.whole_acked(first, count);
                    self.release(place, released);
                }
            }
            SentFrame::Part {
                channel,
                message,
                start,
                end,
            } => {
                let Some(place) = self.find(channel) else {
                    return;
                };
                if let Some(channel) = self.channels.get_mut(place) {
                    let released = channel.part_acked(message, start..end);
                    self.release(place, released);
                }
            }
            SentFrame::Rts { channel, message } => {
                if let Some(channel) = self.find(channel).and_then(|p| self.channels.get_mut(p)) {
                    channel.rts_acked(message);
                }
            }
            SentFrame::Fin { channel } => self.on_fin_acked(channel),
            _ => {}
        }
    }

    /// All that was sent and is not known to have arrived is owed again. O(messages).
    pub fn on_all_lost(&mut self) {
        for (place, channel) in &mut self.channels {
            channel.all_lost();
            self.turns.add(place);
        }
    }

    /// What a packet carried is lost, or its connection is: what is not known to have arrived is
    /// owed again. Frames that are not the outbox's are ignored.
    pub fn on_lost(&mut self, frame: &SentFrame) {
        if let SentFrame::Fin { channel } = *frame {
            return self.on_fin_lost(channel);
        }
        let (SentFrame::Whole { channel, .. }
        | SentFrame::Part { channel, .. }
        | SentFrame::Rts { channel, .. }
        | SentFrame::ChannelBlocked { channel }) = *frame
        else {
            return;
        };
        let Some(place) = self.find(channel) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(place) else {
            return;
        };
        match *frame {
            SentFrame::Whole { first, count, .. } => {
                channel.whole_lost(first, count);
            }
            SentFrame::Part {
                message,
                start,
                end,
                ..
            } => channel.part_lost(message, start..end),
            SentFrame::Rts { message, .. } => channel.rts_lost(message),
            _ => {
                self.report(place);
                self.cool(place);
                return;
            }
        }
        self.activate(place);
    }

    /// Messages are over: the queue has room, and the channel's front may be done.
    pub(super) fn release(&mut self, place: usize, released: Released) {
        if released.messages == 0 && released.voids == 0 {
            // What arrived may be long known.
            self.cool(place);
            return;
        }
        let Some(channel) = self.channels.get_mut(place) else {
            return;
        };
        let popped = channel.pop_done(&mut self.completions);
        channel.give_back(&mut self.spares);
        let (parked, empty) = (channel.turn.parked.is_some(), channel.is_empty());
        let gone = popped.kept();
        let class = self.turns.priority(place).class();
        self.queued
            .change(class, |all| all.without(released.freed()).minus(gone));
        self.over = self.over.plus(released.kept()).minus(gone);
        self.voids = self.voids.saturating_sub(popped.voids);
        if parked {
            // With all before it delivered, a message may ask instead of waiting for credit.
            self.activate(place);
        } else if empty {
            self.list_fin(place);
            self.cool(place);
            self.tidy();
        }
    }
}
