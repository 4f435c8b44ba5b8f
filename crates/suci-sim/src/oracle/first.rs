//! The first message of a process that uses a node ID again: it arrives, or its sender is told that
//! it may not have, and neither takes long.

use std::collections::{BTreeMap, VecDeque};

use suci_proto::time::{Duration, Instant};

use super::{Kind, MessageFate, Oracle, Record, Verdict, broken};
use crate::packet::ProcId;

/// The state of the first messages.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    processes: BTreeMap<ProcId, First>,
    /// First messages, and when they must have arrived or been told of.
    due: VecDeque<(Instant, ProcId)>,
}

#[derive(Debug)]
struct First {
    within: Duration,
    /// The run loses no packets, so the message must arrive.
    arrives: bool,
    token: Option<u64>,
}

impl Oracle {
    /// The first message of this process is judged: after `within`, and when the process closed in
    /// order. With `arrives` it must have arrived then, else its sender may have been told
    /// otherwise.
    pub fn judge_first(&mut self, process: ProcId, within: Duration, arrives: bool) {
        let first = First {
            within,
            arrives,
            token: None,
        };
        self.firsts.processes.insert(process, first);
    }

    /// Notes that a process sent a message.
    pub(super) fn note_first(&mut self, now: Instant, process: ProcId, token: u64) {
        if let Some(first) = self.firsts.processes.get_mut(&process)
            && first.token.is_none()
        {
            first.token = Some(token);
            self.firsts.due.push_back((now + first.within, process));
        }
    }

    /// Judges the first messages whose time is over. Processes that are gone were judged before, or
    /// need not be. A program that takes its time may leave no room for more: messages to it are
    /// judged when their process closes, or in the end.
    ///
    /// # Errors
    /// The first message that did not arrive, and whose sender was not told so.
    pub fn judge_due(&mut self, now: Instant) -> Verdict {
        while let Some((_, process)) = self.firsts.due.pop_front_if(|(at, _)| *at <= now) {
            if self.lives(process) && !self.sent_to_slow(process) {
                self.judge(process)?;
            }
        }
        self.judge_contacts_due(now)?;
        self.judge_questions_due(now)
    }

    /// Checks a process that closed in order: every message that it sent must be settled.
    ///
    /// # Errors
    /// Its first message did not arrive, and its program was not told.
    pub fn closed_in_order(&mut self, process: ProcId) -> Verdict {
        self.note_held(process);
        self.judge(process)
    }

    /// Notes that the first message of a process that closed in order arrived, if the library of
    /// its receiver has it: the end of the session names none that asked for no notice. Its program
    /// may take it later.
    fn note_held(&mut self, process: ProcId) {
        let held = self.first(process).filter(|(_, record)| {
            let open = record.fate == MessageFate::Open;
            open && !record.spec.notify && record.is_surely_held()
        });
        if let Some((_, record)) = held {
            let (node, token) = (record.spec.to, record.name.token);
            self.close(process, node, token, MessageFate::Silent);
        }
    }

    /// Returns the first message of a process.
    fn first(&self, process: ProcId) -> Option<(&First, &Record)> {
        let first = self.firsts.processes.get(&process)?;
        Some((first, self.record(first.token?)?))
    }

    /// Returns true if the first message of a process goes to a program that takes its time.
    fn sent_to_slow(&self, process: ProcId) -> bool {
        self.first(process)
            .is_some_and(|(_, record)| self.is_slow(record.spec.to))
    }

    fn is_slow(&self, node: u32) -> bool {
        self.processes_of(node).any(|(_, process)| !process.eager)
    }

    fn judge(&self, process: ProcId) -> Verdict {
        let Some((first, record)) = self.first(process) else {
            return Ok(());
        };
        // The rest is judged in the end: a slow program may not have taken the message yet.
        let must_arrive = first.arrives && !self.is_slow(record.spec.to);
        let told = !must_arrive && record.fate != MessageFate::Open;
        if told || record.may_be_withdrawn() || record.received_by.is_some() {
            return Ok(());
        }
        let text = format!(
            "first message of its process, {:?} and not received: {record}",
            record.fate
        );
        broken(Kind::Undelivered, text)
    }
}
