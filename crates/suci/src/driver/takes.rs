//! How the program takes received messages. While it takes many, the clock is read seldom.

use super::{Driver, STALE};
use crate::error::Error;
use crate::message::Message;
use crate::next::Next;
use suci_proto::time::Instant;
use suci_proto::{CallId, CallResult, Event, Filter};

/// Most messages between two readings of the clock: a reading costs as much as taking a small
/// message.
const UNTIMED: usize = 16;

/// Messages taken without a look at the socket.
pub(super) struct Takes {
    /// Messages since the clock was read.
    untimed: usize,
    /// Messages after which the clock is read again.
    most: usize,
    timed_at: Instant,
}

impl Takes {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            untimed: 0,
            most: 1,
            timed_at: now,
        }
    }

    /// Counts messages that the program took. Returns whether to read the clock: after each one,
    /// unless the program took many in much less time than a look may be old.
    pub(super) fn wants_time(&mut self, messages: usize) -> bool {
        self.untimed = self.untimed.saturating_add(messages);
        self.untimed >= self.most
    }

    /// Notes that the clock was read.
    pub(super) fn note(&mut self, now: Instant) {
        let fast = now.since(self.timed_at) < STALE / 8;
        *self = Self {
            untimed: 0,
            most: if fast {
                (self.most * 2).min(UNTIMED)
            } else {
                1
            },
            timed_at: now,
        };
    }
}

impl Driver {
    /// Takes the next message.
    pub(crate) fn take_message(&mut self) -> Option<Message> {
        // Mostly there is none. Taking `None` would move as many bytes as a message has.
        if self.head.is_some() {
            return self.head.take();
        }
        let (from, message) = self.engine.recv()?;
        self.waiter.on_taken(1);
        Some(Message::new(from, message))
    }

    /// Appends the next messages to `messages`, at most `most`. Returns how many.
    pub(crate) fn take_messages(&mut self, most: usize, messages: &mut Vec<Message>) -> usize {
        let before = messages.len();
        if most > 0 {
            messages.extend(self.head.take());
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
        let places = messages.spare_capacity_mut();
        let most = most.min(places.len());
        let mut places = places.iter_mut();
        self.engine.recv_many(most, |from, message| {
            match places.next() {
                Some(place) => {
                    place.write(Message::new(from, message));
                    written += 1;
                }
                // Dropping a message here would make each of them be built on the stack again.
                None => {
                    std::mem::forget(message);
                    debug_assert!(false, "no more than was asked for");
                }
            }
        });
        // SAFETY: the first `written` places behind the `before` messages were written just now,
        // each once, in their order; and there are no more of them than the memory has.
        unsafe { messages.set_len(before + written) };
        self.waiter.on_taken(written);
        written
    }

    /// Takes the next message that `wanted` admits. Fails if there is none, `wanted` admits only
    /// one peer, and the session with that peer ended since the program last heard of such an end.
    pub(crate) fn take_from(&mut self, wanted: Filter) -> Option<Result<Message, Error>> {
        if let Some(head) = self
            .head
            .take_if(|head| wanted.admits(head.from, head.channel))
        {
            return Some(Ok(head));
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
        let (bytes, unread) = self.engine.full_beside(wanted)?;
        Some(Err(Error::MemoryFull {
            from: wanted.node()?,
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
        Error::needs_answer(&announced, self.engine.longest_unasked())
    }

    /// Puts a message back: it is the next one.
    pub(crate) fn put_back(&mut self, message: Message) {
        self.head = Some(message);
    }

    /// Takes the next event. The engine counts a message that was put back as taken; the end of its
    /// session waits for it here.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let held = self.head.as_ref().map(Message::source);
        self.engine.poll_event_beside(held)
    }

    /// Takes the next event, or else the next message. So the end of a session comes between its
    /// last message and the first of the next session.
    pub(crate) fn take_next(&mut self) -> Option<Next> {
        match self.poll_event() {
            Some(event) => Some(Next::Event(event)),
            None => self.take_message().map(Next::Message),
        }
    }

    /// As [`Driver::refresh`], after the program took messages that were already there.
    pub(crate) fn refresh_taking(&mut self, messages: usize) {
        if !self.takes.wants_time(messages) && !self.coalescer.holds_messages() {
            return;
        }
        let now = self.clock.now();
        self.takes.note(now);
        if self.coalescer.is_over(now) {
            self.send_on();
        }
        // The program has its messages even if the socket failed; the next call that needs the
        // socket reports the error.
        let _ = self.refresh(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns how often the clock is read while `messages` are taken, each in the time `each`.
    fn readings(takes: &mut Takes, now: &mut Instant, messages: u32, each: Duration) -> u32 {
        let mut readings = 0;
        for _ in 0..messages {
            *now += each;
            if takes.wants_time(1) {
                takes.note(*now);
                readings += 1;
            }
        }
        readings
    }

    #[test]
    fn a_fast_program_is_timed_seldom_and_a_slow_one_after_each_message() {
        let mut now = Instant::ZERO;
        let mut takes = Takes::new(now);
        let fast = readings(&mut takes, &mut now, 1_600, Duration::from_nanos(50));
        assert!((100..110).contains(&fast), "{fast}");
        let slow = readings(&mut takes, &mut now, 100, Duration::from_millis(1));
        assert!(
            slow > 100 - UNTIMED as u32,
            "{slow}: only the first few are not timed"
        );
    }
}
