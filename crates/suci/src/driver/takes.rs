//! How the program takes received messages. While it takes many, the clock is read seldom.

use super::{Driver, STALE};
use crate::error::Error;
use crate::message::Message;
use crate::next::Next;
use std::time::Duration;
use suci_proto::types::{ChannelId, Source};
use suci_proto::{CallId, CallResult, Event, Filter};

/// Maximum number of messages between two readings of the clock: a reading costs as much as taking
/// a small message.
const UNTIMED: usize = 16;

/// Messages taken since the clock was read.
#[derive(Debug, Default)]
pub(super) struct Takes {
    untimed: usize,
    /// The clock is read again after this many, and after one if it is 0.
    most: usize,
}

impl Takes {
    /// Counts messages that the program took. Returns whether to read the clock: after each one,
    /// unless the program took many in much less time than a poll may be old.
    fn wants_time(&mut self, messages: usize) -> bool {
        self.untimed = self.untimed.saturating_add(messages);
        self.untimed >= self.most
    }

    /// Notes that the clock was read, for the first time in `pause`.
    fn on_clock(&mut self, pause: Duration) {
        self.untimed = 0;
        self.most = match pause < STALE / 8 {
            true => (2 * self.most).clamp(2, UNTIMED),
            false => 0,
        };
    }
}

impl Driver {
    /// Takes the next message.
    pub(crate) fn take_message(&mut self) -> Option<Message> {
        // Mostly there is none. Taking `None` would move as many bytes as a message has.
        if self.returned.is_some() {
            return self.returned.take();
        }
        let (from, message) = self.engine.recv()?;
        self.waiter.on_taken(1);
        Some(Message::new(from, message))
    }

    /// Appends the next messages to `messages`, at most `most`. Returns how many.
    pub(crate) fn take_messages(&mut self, most: usize, messages: &mut Vec<Message>) -> usize {
        let before = messages.len();
        if most > 0 {
            messages.extend(self.returned.take());
        }
        loop {
            let left = most.saturating_sub(messages.len() - before);
            if left == 0 || !self.engine.has_message() {
                return messages.len() - before;
            }
            if messages.len() == messages.capacity() {
                messages.reserve(1);
            }
            if self.take_into(messages, left) == 0 {
                return messages.len() - before;
            }
        }
    }

    /// Takes as many messages as `messages` has memory for.
    ///
    /// They are written where they stay. A push would build each on the stack, because growing may
    /// fail, and copy it from there in larger pieces than were written a moment before. The
    /// processor would wait for that as long as the rest takes.
    fn take_into(&mut self, messages: &mut Vec<Message>, most: usize) -> usize {
        let (before, mut written) = (messages.len(), 0);
        let slots = messages.spare_capacity_mut();
        let most = most.min(slots.len());
        let mut slots = slots.iter_mut();
        self.engine.recv_many(most, |from, message| {
            match slots.next() {
                Some(slot) => {
                    slot.write(Message::new(from, message));
                    written += 1;
                }
                // Dropping a message here would make each of them be built on the stack again.
                None => {
                    std::mem::forget(message);
                    debug_assert!(false, "no more than was asked for");
                }
            }
        });
        // SAFETY: the first `written` slots behind the `before` messages were written just now,
        // each once, in their order; and there are no more of them than the memory has.
        unsafe { messages.set_len(before + written) };
        self.waiter.on_taken(written);
        written
    }

    /// Takes the next active message, on the channel `only` if one is named. From now on such
    /// messages count as messages for the program, which takes them.
    pub(crate) fn take_active(
        &mut self,
        only: Option<ChannelId>,
    ) -> Option<(Source, suci_proto::Message)> {
        self.takes_active = true;
        let received = match only {
            Some(channel) => self.engine.recv_active_on(channel),
            None => self.engine.recv_active(),
        }?;
        self.waiter.on_taken(1);
        Some(received)
    }

    /// Takes the next message that `wanted` admits. Fails if there is none, `wanted` admits only
    /// one peer, and the session with that peer ended since the program last heard of such an end.
    pub(crate) fn take_from(&mut self, wanted: Filter) -> Option<Result<Message, Error>> {
        let is_wanted = |message: &mut Message| wanted.admits(message.from, message.channel);
        if let Some(message) = self.returned.take_if(is_wanted) {
            return Some(Ok(message));
        }
        if let Some((from, message)) = self.engine.recv_from(wanted) {
            self.waiter.on_taken(1);
            return Some(Ok(Message::new(from, message)));
        }
        let node = wanted.node()?;
        let reason = self.engine.take_unheard_end(node)?;
        Some(Err(Error::Ended { node, reason }))
    }

    /// As [`Driver::take_from`], for a call that waits if it finds nothing. It also fails if only
    /// the program could end the wait.
    pub(crate) fn await_from(&mut self, wanted: Filter) -> Option<Result<Message, Error>> {
        if let Some(taken) = self.take_from(wanted) {
            return Some(taken);
        }
        let from = wanted.node()?;
        if !self.engine.may_hear_from(from) {
            return Some(Err(Error::UnknownPeer(from)));
        }
        let (bytes, unread) = self.engine.blocked_by_unread(wanted)?;
        Some(Err(Error::MemoryFull {
            from,
            channel: wanted.channel()?,
            bytes,
            unread,
        }))
    }

    /// The next message that `wanted` admits.
    pub(crate) fn take_wanted(&mut self, wanted: Filter) -> Option<Message> {
        let (from, message) = self.engine.recv_from(wanted)?;
        Some(Message::new(from, message))
    }

    /// Takes the result of the call `id`, if it has one.
    pub(crate) fn take_call(&mut self, id: CallId) -> Option<CallResult> {
        while let Some((other, result)) = self.engine.poll_call() {
            debug_assert_eq!(other, id, "one at a time");
            if other == id {
                self.waiter.on_taken(1);
                return Some(result);
            }
        }
        None
    }

    /// Returns the error for a receiving call that would wait for an announced message, which comes
    /// only if the program answers. Each announcement is told once.
    pub(crate) fn unanswered(&mut self) -> Option<Error> {
        let (_, announced) = self.engine.poll_unanswered()?;
        Error::needs_answer(&announced, self.engine.max_unannounced())
    }

    /// Puts a message back: it is the next one.
    pub(crate) fn put_back(&mut self, message: Message) {
        self.returned = Some(message);
    }

    /// Takes the next event. The engine counts a message that was put back as taken; the end of its
    /// session waits for it here.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let held = self.returned.as_ref().map(Message::source);
        self.engine.poll_event_holding(held)
    }

    /// Takes the next event, or else the next message. So the end of a session comes between its
    /// last message and the first of the next session.
    pub(crate) fn take_next(&mut self) -> Option<Next> {
        match self.poll_event() {
            Some(event) => Some(Next::Event(event)),
            None => self.take_message().map(Next::Message),
        }
    }

    /// Lets input and output go on after the program took messages that were already there.
    pub(crate) fn after_taking(&mut self, messages: usize) {
        if !self.takes.wants_time(messages) && !self.coalescer.holds_messages() {
            return;
        }
        let before = self.now;
        let now = self.read_clock();
        self.takes.on_clock(now.since(before));
        if self.coalescer.is_over(now) {
            self.send_accepted();
        }
        // The program has its messages even if the socket failed; the next call that needs the
        // socket reports the error.
        let _ = self.run_cycle_if_stale();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often the clock is read while `messages` are taken, each in the time `each`.
    fn readings(takes: &mut Takes, messages: u32, each: Duration) -> u32 {
        let (mut readings, mut pause) = (0, Duration::ZERO);
        for _ in 0..messages {
            pause += each;
            if takes.wants_time(1) {
                takes.on_clock(core::mem::take(&mut pause));
                readings += 1;
            }
        }
        readings
    }

    #[test]
    fn a_fast_program_is_timed_seldom_and_a_slow_one_after_each_message() {
        let mut takes = Takes::default();
        let fast = readings(&mut takes, 1_600, Duration::from_nanos(50));
        assert!((100..110).contains(&fast), "{fast}");
        let slow = readings(&mut takes, 100, Duration::from_millis(1));
        assert!(
            slow > 100 - UNTIMED as u32,
            "{slow}: only the first few are not timed"
        );
    }
}
