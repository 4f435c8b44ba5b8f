//! Decisions about large messages: the program decides about the longest, the budget about all
//! others.

use super::Inbox;
use crate::message::answer::AnswerError;
use crate::message::incoming::{Freed, IncomingChannel};
use crate::message::sizes::len64;
use crate::message::{Place, ReceiveBuffer, TOO_LONG};
use suci_link::types::{ChannelId, MessageNumber};

impl Inbox {
    /// Permits a large message. A `buffer`, at least as long as the message, receives it and
    /// becomes its payload. Without one, the message waits until the budget of large messages has
    /// room.
    ///
    /// # Errors
    /// [`AnswerError`]. Nothing has changed then.
    pub fn accept(
        &mut self,
        channel: ChannelId,
        number: MessageNumber,
        buffer: Option<ReceiveBuffer>,
    ) -> Result<(), AnswerError> {
        let (index, total) = self.unanswered(channel, number)?;
        let max = self.max_large;
        match buffer {
            Some(buffer) if len64(buffer.len()) < total => {
                return Err(AnswerError::TooShort {
                    buffer,
                    needed: total,
                });
            }
            None if total > max || usize::try_from(total).is_err() => {
                return Err(AnswerError::NeedsBuffer { total, max });
            }
            Some(buffer) => {
                if let Some(channel) = self.channels.get_mut(index) {
                    channel.grant(Some(buffer), false, &mut self.accounts);
                }
                self.waiting.retain(|waiting| *waiting != index);
                self.list_answer(index);
            }
            None => {
                if let Some(channel) = self.channels.get_mut(index) {
                    channel.wait();
                }
                if !self.waiting.contains(&index) {
                    self.waiting.push_back(index);
                }
            }
        }
        self.withdraw(channel, number);
        self.grant_waiting();
        Ok(())
    }

    /// Refuses a large message; its number is skipped. The sender is told `reason`.
    ///
    /// # Errors
    /// [`AnswerError::NotWaiting`].
    pub fn refuse(
        &mut self,
        channel: ChannelId,
        number: MessageNumber,
        reason: u64,
    ) -> Result<(), AnswerError> {
        let (index, _) = self.unanswered(channel, number)?;
        let refused = self.channels.get_mut(index);
        let freed = refused.map_or_else(Freed::default, |c| c.refuse(reason));
        self.decided += 1;
        self.waiting.retain(|waiting| *waiting != index);
        self.withdraw(channel, number);
        self.list_answer(index);
        self.list_ready(index);
        self.free(index, freed);
        self.grant_waiting();
        Ok(())
    }

    /// Returns true if a message of this length needs no decision of the program.
    pub(super) fn is_short(&self, total: u64) -> bool {
        total <= self.max_message.min(self.max_large)
    }

    /// Decides about a message that was announced on a channel of a handled layer: into memory that
    /// the layer names, else into ours, else not at all.
    pub(super) fn judge_for_layer(&mut self, index: usize) {
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        let (Some((number, total)), id) = (channel.unanswered(), channel.id()) else {
            return;
        };
        let answered = match channel.place_announced(&self.accounts) {
            Place::Later => return,
            Place::Named(memory) => self.accept(id, number, Some(memory)),
            Place::Own if self.is_short(total) => self.accept(id, number, None),
            Place::Own => self.refuse(id, number, TOO_LONG),
        };
        debug_assert!(answered.is_ok(), "it waits for an answer");
    }

    /// Moves the bytes of the program's messages from lent memory to ours. Bytes that are still to
    /// come go there, too.
    pub fn take_back(&mut self) {
        if self.accounts.places.is_some() {
            let of_program = |channel: &IncomingChannel| channel.id().is_user();
            let channels = self.channels.iter_mut().map(|(_, channel)| channel);
            for channel in channels.filter(|channel| of_program(channel)) {
                channel.take_back(&self.accounts);
            }
        }
    }

    fn unanswered(
        &mut self,
        channel: ChannelId,
        number: MessageNumber,
    ) -> Result<(usize, u64), AnswerError> {
        let index = self.find(channel).ok_or(AnswerError::NotWaiting)?;
        let unanswered = self
            .channels
            .get(index)
            .and_then(IncomingChannel::unanswered);
        match unanswered {
            Some((waiting, total)) if waiting == number => Ok((index, total)),
            _ => Err(AnswerError::NotWaiting),
        }
    }

    /// Withdraws an announcement that was answered before the program polled it.
    fn withdraw(&mut self, channel: ChannelId, number: MessageNumber) {
        self.incoming
            .retain(|info| info.channel != channel || info.number != number);
    }

    /// Permits waiting messages, as far as the session's budget allows.
    pub(super) fn grant_waiting(&mut self) {
        while let Some(&index) = self.waiting.front() {
            let wanted = self.large_wanted().unwrap_or(0);
            let large = self.accounts.large.saturating_add(wanted);
            if large > self.large_budget {
                return;
            }
            self.waiting.pop_front();
            if let Some(channel) = self.channels.get_mut(index) {
                // Layers were asked before.
                let is_user = channel.id().is_user();
                let place = is_user.then(|| channel.place_announced(&self.accounts));
                let memory = match place {
                    Some(Place::Named(memory)) => Some(memory),
                    _ => None,
                };
                channel.grant(memory, true, &mut self.accounts);
            }
            self.list_answer(index);
        }
    }
}
