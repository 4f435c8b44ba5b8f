//! What is left of a long message that is being sent for the first time.

use super::{LargePhase, OutgoingChannel, Terms};
use crate::types::MessageNumber;
use core::ops::Range;

impl OutgoingChannel {
    /// The bytes never sent of `message`, if it is the one being sent, the pieces sent so far end
    /// at `end`, and nothing is owed again or to be asked, which would go first.
    pub(in crate::message) fn rest(
        &self,
        message: MessageNumber,
        end: u64,
        terms: Terms,
    ) -> Option<Range<u64>> {
        let entry = self.long(message)?;
        let parts = match &entry.phase {
            LargePhase::Parts(parts) if message == self.queue.cursor() && self.owed == 0 => parts,
            _ => return None,
        };
        let goes_on = parts.next == end && self.asks_ahead(terms).is_none();
        goes_on.then(|| end..entry.total())
    }

    /// The bytes of `message` up to `end`, which is not its own, were sent.
    pub(in crate::message) fn sent_to(&mut self, message: MessageNumber, end: u64) {
        if let Some(entry) = self.long_mut(message)
            && let LargePhase::Parts(parts) = &mut entry.phase
        {
            parts.next = end;
        }
    }
}
