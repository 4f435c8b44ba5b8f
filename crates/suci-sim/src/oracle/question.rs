//! How long a message takes to a node that serves more peers than its buffer has slots for. Each
//! peer waits for a turn, so the first contacts of [`super::contact`] say nothing there. But a turn
//! is short: a message that takes longer than a second, and longer than the packets explain that
//! the network lost between both, was held up by silence.

use std::collections::{BTreeMap, BTreeSet};

use suci_proto::time::{Duration, Instant};

use super::{Kind, MessageFate, Oracle, Record, Verdict, broken};
use crate::packet::ProcId;

/// Messages with more lost packets are not judged.
const MOST_LOSSES: u32 = 3;

/// The judged messages of a run.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// How long a message may take without losses, and the longest probe timeout of the run.
    limits: Option<(Duration, Duration)>,
    /// Packets lost between two processes, the lower number first.
    losses: BTreeMap<(ProcId, ProcId), u32>,
    /// Processes that close: their programs take no answers any more.
    closing: BTreeSet<ProcId>,
    due: BTreeSet<Question>,
    judged: u64,
}

/// A message that is open, in the order in which messages are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    at: Instant,
    token: u64,
    from: ProcId,
    to: ProcId,
    /// Packets lost between both before, and before the messages that it waits behind.
    losses: u32,
}

/// Returns true if the message is to be received still.
fn is_open(record: &Record) -> bool {
    record.received_by.is_none() && record.fate == MessageFate::Open && !record.may_be_withdrawn()
}

impl Oracle {
    /// Messages are judged from now on; `probe` is the longest probe timeout of the run.
    pub fn judge_questions(&mut self, within: Duration, probe: Duration) {
        self.questions.limits = Some((within, probe));
    }

    /// Returns the number of messages that were judged.
    #[must_use]
    pub fn questions(&self) -> u64 {
        self.questions.judged
    }

    /// Notes that a process closes.
    pub fn closes(&mut self, process: ProcId) {
        self.questions.closing.insert(process);
    }

    /// Notes that a packet between these processes was lost, or will be late.
    pub(super) fn note_question_loss(&mut self, one: ProcId, other: ProcId) {
        if self.questions.limits.is_some() {
            let pair = (one.min(other), one.max(other));
            *self.questions.losses.entry(pair).or_default() += 1;
        }
    }

    fn losses(&self, one: ProcId, other: ProcId) -> u32 {
        let pair = (one.min(other), one.max(other));
        self.questions.losses.get(&pair).copied().unwrap_or(0)
    }

    fn is_open(&self, token: u64) -> bool {
        self.record(token).is_some_and(is_open)
    }

    /// Notes that a process sent a message to this node.
    pub(super) fn note_question(&mut self, now: Instant, from: ProcId, to: u32, token: u64) {
        let Some((within, _)) = self.questions.limits else {
            return;
        };
        let receiver = self.processes_of(to).next_back();
        let receiver = receiver.filter(|(_, process)| process.stopped_at.is_none());
        let Some((to, _)) = receiver.filter(|(_, process)| process.eager) else {
            return;
        };
        let before = self.questions.due.iter().filter(|question| {
            (question.from, question.to) == (from, to) && self.is_open(question.token)
        });
        let behind = before.map(|question| question.losses).min();
        let losses = behind.unwrap_or_else(|| self.losses(from, to));
        self.questions.due.insert(Question {
            at: now + within,
            token,
            from,
            to,
            losses,
        });
    }

    /// Judges the messages whose time is over, of processes that stay.
    ///
    /// # Errors
    /// The first one that takes longer than its turn and lost packets explain.
    pub(super) fn judge_questions_due(&mut self, now: Instant) -> Verdict {
        let Some((within, probe)) = self.questions.limits else {
            return Ok(());
        };
        let is_due = |question: &&Question| question.at <= now;
        while let Some(&question) = self.questions.due.first().filter(is_due) {
            self.questions.due.pop_first();
            let Question {
                at,
                token,
                from,
                to,
                ..
            } = question;
            let stays = |process| self.lives(process) && !self.questions.closing.contains(&process);
            let Some(record) = self.record(token).filter(|record| is_open(record)) else {
                self.questions.judged += 1;
                continue;
            };
            let losses = self.losses(from, to).saturating_sub(question.losses);
            if !(stays(to) && self.lives(from) && losses <= MOST_LOSSES) {
                continue;
            }
            let within = within + probe * (2 * (2_u32.saturating_pow(losses) - 1));
            let later = record.accepted_at + within;
            if later > at {
                self.questions.due.insert(Question {
                    at: later,
                    ..question
                });
                continue;
            }
            let text = format!("{within:?} with {losses} packets lost, and not received: {record}");
            return broken(Kind::Late, text);
        }
        Ok(())
    }
}
