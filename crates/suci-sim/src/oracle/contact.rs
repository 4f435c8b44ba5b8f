//! How long two processes take to make contact: the first message in each direction arrives within
//! a few probe timeouts, and each packet that the network lost between them costs one more, with
//! back-off.
//!
//! Why the bound holds, P being the longest probe timeout of the run, and no shorter than the first
//! wait for an answer to HELLO or INIT (100 ms). Without losses a message takes HELLO, COOKIE, INIT
//! (it may ride there), ACCEPT, DATA, and perhaps a CREDIT and more DATA: at most seven ways, 3.5
//! round trips. P is 3 round trips. So 5 P leave room for a driver that the socket holds up. Each
//! packet that is lost is repeated by a timer: HELLO and INIT after 100 ms, doubled each time;
//! DATA, CREDIT and everything else of a connection after a probe timeout, doubled each time (RFC
//! 9002, 6.2). Losses in different phases each cost the first wait of theirs, so that `n` losses of
//! one phase cost most: P (1 + 2 + ... ) = P (2^n - 1). Twice that covers a timer that had backed
//! off before, since a round trip was longer than its first wait. Packets that are held back or
//! overtaken count as lost.

use std::collections::{BTreeMap, BTreeSet};

use suci_proto::time::{Duration, Instant};

use super::{Kind, Oracle, Record, Spec, Verdict, broken};
use crate::packet::ProcId;

/// Probe timeouts for a contact without losses.
const PROBES: u32 = 5;

/// Contacts with more losses are not judged.
const MOST_LOSSES: u32 = 3;

/// Longer messages are not judged: they take more packets than the first grant may carry, and round
/// trips with it.
const LONGEST: u64 = 3_000;

/// The contacts of a run.
#[derive(Debug, Default)]
pub(super) struct Contacts {
    /// The longest probe timeout, while contacts are judged.
    probe: Option<Duration>,
    /// Contacts by pairs of processes, the lower number first.
    pairs: BTreeMap<(ProcId, ProcId), Contact>,
    /// Processes that sent to a node at which no process ran. They may be in a long wait when one
    /// does.
    early: BTreeSet<(ProcId, u32)>,
    /// First messages that are open, and when they are judged.
    due: BTreeSet<(Instant, u64, (ProcId, ProcId))>,
    judged: u64,
}

/// The facts about a pair of processes.
#[derive(Debug, Default)]
struct Contact {
    /// Packets between them that were lost or late since one first sent to the other.
    losses: u32,
    /// The processes of the pair that sent to the other one.
    sent: BTreeSet<ProcId>,
}

fn pair(one: ProcId, other: ProcId) -> (ProcId, ProcId) {
    (one.min(other), one.max(other))
}

/// Returns how long a first message may take.
fn bound(probe: Duration, losses: u32) -> Duration {
    let backed_off = 2_u32.saturating_pow(losses) - 1;
    probe * (PROBES + 2 * backed_off)
}

impl Oracle {
    /// Contacts are judged from now on; `probe` is the longest probe timeout of the run.
    pub fn judge_contacts(&mut self, probe: Duration) {
        self.contacts.probe = Some(probe);
    }

    /// Excuses all contacts from now on, since an event may delay any of them.
    pub fn excuse_contacts(&mut self) {
        self.contacts = Contacts {
            judged: self.contacts.judged,
            ..Contacts::default()
        };
    }

    /// Returns the number of first messages that were judged.
    #[must_use]
    pub fn contacts(&self) -> u64 {
        self.contacts.judged
    }

    /// Notes that a packet between these processes was lost, or will be late.
    pub fn lost_between(&mut self, one: ProcId, other: ProcId) {
        self.note_question_loss(one, other);
        if let Some(contact) = self.contacts.pairs.get_mut(&pair(one, other)) {
            contact.losses = contact.losses.saturating_add(1);
        }
    }

    /// Notes that a process sent a message.
    pub(super) fn note_contact(&mut self, now: Instant, from: ProcId, spec: &Spec, token: u64) {
        let Some(probe) = self.contacts.probe else {
            return;
        };
        let own = self.node_of(from).unwrap_or(u32::MAX);
        let receiver = self.processes_of(spec.to).next_back();
        let receiver = receiver.filter(|(_, process)| process.stopped_at.is_none());
        let Some((to, eager)) = receiver.map(|(to, process)| (to, process.eager)) else {
            self.contacts.early.insert((from, spec.to));
            return;
        };
        let contacts = &mut self.contacts;
        let early = &contacts.early;
        if early.contains(&(from, spec.to)) || early.contains(&(to, own)) {
            return;
        }
        let key = pair(from, to);
        let first = contacts.pairs.entry(key).or_default().sent.insert(from);
        let short = spec.length + u64::from(spec.header) <= LONGEST;
        if first && short && eager {
            let at = now + bound(probe, 0);
            contacts.due.insert((at, token, key));
        }
    }

    /// Judges the first messages whose time is over.
    ///
    /// # Errors
    /// The first one that takes longer than lost packets explain.
    pub(super) fn judge_contacts_due(&mut self, now: Instant) -> Verdict {
        while let Some(&(at, token, key)) = self.contacts.due.first().filter(|(at, ..)| *at <= now)
        {
            self.contacts.due.pop_first();
            let record = self.record(token);
            let is_owed =
                |record: &&Record| record.received_by.is_none() && !record.may_be_withdrawn();
            let Some(record) = record.filter(is_owed) else {
                self.contacts.judged += 1;
                continue;
            };
            let losses = self.contacts.pairs.get(&key).map_or(0, |it| it.losses);
            let (Some(probe), true) = (self.contacts.probe, losses <= MOST_LOSSES) else {
                continue;
            };
            let within = bound(probe, losses);
            let later = record.accepted_at + within;
            if later > at {
                self.contacts.due.insert((later, token, key));
                continue;
            }
            let text = format!(
                "{within:?} with {losses} packets lost, and not received: first of its process to that node, {record}"
            );
            return broken(Kind::Late, text);
        }
        Ok(())
    }
}
