//! Promise 2 (every accepted message arrives once both processes live and the network delivers),
//! and checks that are possible only when a run is over.

use super::{Kind, MessageFate, Oracle, Record, Verdict, broken};

impl Oracle {
    /// Checks that everything is settled, after the network was mended and all remaining processes
    /// ran.
    ///
    /// # Errors
    /// The first message that should have arrived and did not.
    pub fn finish(&self) -> Verdict {
        for record in &self.records {
            self.finish_message(record)?;
        }
        Ok(())
    }

    /// Checks, when all messages are sent and acknowledged, that no process still waits for room.
    /// Queues to processes that died may be full.
    ///
    /// # Errors
    /// The first process that waits.
    pub fn finish_wants(&self) -> Verdict {
        let wants = self.wants.iter();
        for (process, node, class) in wants.filter(|(process, ..)| self.lives(*process)) {
            let open = self.open.get(&(*process, *node)).into_iter().flatten();
            let mut records = open.filter_map(|token| self.record(*token));
            if !records.any(|record| self.receiver_died(record)) {
                let text = format!(
                    "process {process} was never told of room to node {node} in class {class}"
                );
                return broken(Kind::Events, text);
            }
        }
        Ok(())
    }

    /// Returns true if every message of living processes is settled: the end of a liveness run.
    /// `Delivered` says that the peer's library holds a message (promise 3), so its program may
    /// still have to take it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.finish().is_ok()
    }

    /// Returns the bytes that are still to come from one process to one node, at most: with every
    /// message's share of a packet.
    #[must_use]
    pub fn owed(&self) -> u64 {
        const HEAD: u64 = 64;
        let open = self.open.values().map(|tokens| {
            let open = tokens.iter().filter(|token| !self.is_arrived(**token));
            let records = open.filter_map(|token| self.record(*token));
            records.map(|record| record.spec.length + HEAD).sum()
        });
        open.max().unwrap_or(0)
    }

    fn is_arrived(&self, token: u64) -> bool {
        self.record(token).is_none_or(|record| {
            let over = record.received_by.is_some() || self.is_excused(record);
            !record.spec.notify && over
        })
    }

    pub(super) fn lives(&self, process: u32) -> bool {
        self.processes
            .get(process as usize)
            .is_some_and(|process| process.stopped_at.is_none())
    }

    fn finish_message(&self, record: &Record) -> Verdict {
        let received = record.received_by.is_some();
        match record.fate {
            MessageFate::Open if !self.lives(record.from) => Ok(()),
            MessageFate::Open if record.spec.notify => {
                let text = if received {
                    "received, never told"
                } else {
                    "never received"
                };
                broken(Kind::Undelivered, format!("{text}: {record}"))
            }
            MessageFate::Open if !received && !self.is_excused(record) => {
                broken(Kind::Undelivered, format!("never received: {record}"))
            }
            MessageFate::Delivered | MessageFate::Silent if !received => {
                self.finish_unreceived(record)
            }
            MessageFate::Open
            | MessageFate::Delivered
            | MessageFate::Silent
            | MessageFate::NotDelivered
            | MessageFate::Unknown => Ok(()),
        }
    }

    /// Returns true if it need not arrive.
    fn is_excused(&self, record: &Record) -> bool {
        record.untold || record.may_be_withdrawn() || self.receiver_died(record)
    }

    /// Checks a message that the peer's library held and its program never received: its process
    /// must have died, or an earlier message of the channel was missing when the session ended. If
    /// its outcome was left out, a later process may have got its packets, which knew nothing of
    /// the session.
    fn finish_unreceived(&self, record: &Record) -> Verdict {
        if record.untold || self.misses_before(record, record.ended) || self.receiver_died(record) {
            return Ok(());
        }
        let text = format!("delivered, but the program never got it: {record}");
        broken(Kind::Undelivered, text)
    }

    /// Returns true if a process of the receiver died after the message was accepted. A process on
    /// a busy host may be killed amid a cycle that ends later: then the message to itself counts.
    fn receiver_died(&self, record: &Record) -> bool {
        self.processes_of(record.spec.to).any(|(id, process)| {
            let died = process.stopped_at;
            died.is_some_and(|at| at >= record.accepted_at || id == record.from)
        })
    }

    /// Returns true if a message before it on its channel did not arrive. One that was taken back
    /// arrives as a void message; if the session `ended` with this one's fate open, perhaps not.
    fn misses_before(&self, record: &Record, ended: bool) -> bool {
        let before = || {
            let stream = (record.from, record.spec.to, record.spec.channel);
            let stream = self.streams.get(&stream)?;
            self.record(*stream.tokens.get(record.position.checked_sub(1)?)?)
        };
        let Some(before) = before().filter(|before| before.number + 1 == record.number) else {
            return false;
        };
        match before.is_void() {
            true => (ended && !before.void_handed) || self.misses_before(before, ended),
            false => before.received_by.is_none(),
        }
    }
}
