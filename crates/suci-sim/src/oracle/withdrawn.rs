//! Messages that their sender took back: by a call, or because their deadline passed. No part of
//! such a message is sent, and the receiving program's channel has no gap for it. The wire names
//! them: their numbers go to the peer as void messages. A message with a deadline, which the
//! peer was not asked about and of which nothing was sent, may have expired, too.

use suci_proto::time::Instant;
use suci_proto::{CANCELLED, EXPIRED};

use super::{Kind, MessageFate, Oracle, Record, Verdict, broken};
use crate::oracle::coverage::Coverage;
use crate::packet::{Carried, ProcId};
use crate::tap::What;

impl Record {
    /// Returns true if nothing of it was given to the network.
    fn is_unsent(&self) -> bool {
        self.offered == Coverage::Nothing && !self.asked
    }

    /// Returns true if its deadline has passed.
    fn is_expired(&self, now: Instant) -> bool {
        let deadline = self.spec.deadline;
        deadline.is_some_and(|deadline| self.accepted_at + deadline <= now)
    }

    /// Returns true if the peer was told that it was taken back. Of one that went to its own node
    /// no packet says so.
    pub(super) fn is_void(&self) -> bool {
        let taken_back = self.to_itself && self.received_by.is_none() && self.may_be_withdrawn();
        self.void || taken_back
    }

    /// Returns true if it was taken back, or may have been: then it need not be received.
    pub(super) fn may_be_withdrawn(&self) -> bool {
        let may_expire = self.spec.deadline.is_some() && self.is_unsent();
        self.cancelled || self.void || may_expire
    }
}

impl Oracle {
    /// Notes that the program of `process` cancelled its messages to `node` on `channel` with the
    /// library's `token`, and that the library reports `count` withdrawn messages.
    ///
    /// # Errors
    /// The library took back more than it could: a part of one of them was sent.
    pub fn cancelled(
        &mut self,
        process: ProcId,
        node: u32,
        channel: u32,
        token: u64,
        count: u64,
    ) -> Verdict {
        let mut sequence = self.sequence_of(token, (process, node, channel));
        let waits = |token: &u64| {
            self.record(*token).is_some_and(|record| {
                record.is_unsent()
                    && !record.cancelled
                    && !record.void
                    && record.fate == MessageFate::Open
            })
        };
        sequence.retain(waits);
        let kept = usize::try_from(count).map_or(None, |count| sequence.len().checked_sub(count));
        let Some(kept) = kept else {
            let text = format!(
                "process {process} cancelled {count} messages to node {node} on channel {channel}, of which {} were not sent",
                sequence.len()
            );
            return broken(Kind::Withdrawn, text);
        };
        // Messages leave in order.
        for token in sequence.split_off(kept) {
            self.withdrawn += 1;
            let Some(record) = self.record_mut(token) else {
                continue;
            };
            record.cancelled = true;
            if !record.spec.notify {
                self.close(process, node, token, MessageFate::NotDelivered);
            }
        }
        Ok(())
    }

    /// Returns the messages of one stream that have this token in the library: of twins the whole
    /// sequence, and the next session's first message, if that is a twin, too.
    fn sequence_of(&self, token: u64, stream: (ProcId, u32, u32)) -> Vec<u64> {
        let stream = self.streams.get(&stream);
        let Some((first, stream)) = self.record(token).zip(stream) else {
            return Vec::new();
        };
        // No sequence begins with a session.
        if !first.spec.twin || first.number == 0 {
            return vec![token];
        }
        let behind = stream.tokens.get(first.position..).unwrap_or_default();
        let mut sequence = Vec::new();
        for (token, number) in behind.iter().zip(first.number..) {
            match self.record(*token) {
                Some(twin) if twin.spec.twin => sequence.push(*token),
                _ => break,
            }
            if self
                .record(*token)
                .is_some_and(|twin| twin.number != number)
            {
                break;
            }
        }
        sequence
    }

    /// Checks a packet with these parts that is given to the network. It was built at `now`, if
    /// that is known.
    ///
    /// # Errors
    /// A message was sent that was taken back before, or taken back for no reason.
    pub fn check_withdrawn(&mut self, now: Option<Instant>, carries: &[Carried]) -> Verdict {
        for carried in carries {
            let Some(record) = self.record_mut(carried.token) else {
                continue;
            };
            let unsent = record.is_unsent();
            let expired = now.is_some_and(|now| record.is_expired(now));
            let may_expire = now.is_none() && record.spec.deadline.is_some();
            let void = carried.what == What::Void;
            let text = match void {
                true if !unsent => "taken back after some of it was sent",
                true if !(record.cancelled || expired || may_expire) => "taken back for no reason",
                false if record.cancelled || record.void => "sent after it was taken back",
                false if unsent && expired => "first sent after its deadline",
                _ => "",
            };
            if !text.is_empty() {
                let text = format!("{text}: {record}");
                return broken(Kind::Withdrawn, text);
            }
            if void && !std::mem::replace(&mut record.void, true) && !record.cancelled {
                self.withdrawn += 1;
            }
        }
        Ok(())
    }

    /// Checks the report to a sender that this message is not delivered for this reason.
    pub(super) fn check_reason(&self, token: u64, reason: u64) -> Verdict {
        let Some(record) = self.record(token) else {
            return Ok(());
        };
        let fits = match reason {
            CANCELLED => record.cancelled,
            EXPIRED => record.spec.deadline.is_some() && !record.cancelled,
            _ => return Ok(()),
        };
        if fits && record.spec.notify && record.is_unsent() {
            return Ok(());
        }
        let text = format!("its sender was told that it was taken back: {record}");
        broken(Kind::Withdrawn, text)
    }

    /// Returns true if the message of that number, which stands before `next` on its channel, was
    /// taken back.
    pub(super) fn is_void_before(&self, next: u64, number: u64) -> bool {
        let void = || {
            let next = self.record(next)?;
            let stream = (next.from, next.spec.to, next.spec.channel);
            let before = usize::try_from(next.number.checked_sub(number)?).ok()?;
            let position = next.position.checked_sub(before)?;
            let token = *self.streams.get(&stream)?.tokens.get(position)?;
            let record = self.record(token)?;
            Some(record.number == number && record.is_void())
        };
        void().unwrap_or(false)
    }

    /// Returns the messages that were taken back, as far as was seen.
    #[must_use]
    pub fn withdrawn(&self) -> u64 {
        self.withdrawn
    }
}
