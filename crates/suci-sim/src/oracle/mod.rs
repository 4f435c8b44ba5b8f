//! The oracle: it watches the messages that programs hand in and are given, and knows the promises.
//!
//! It shares no code with the engine and asks it nothing. Its knowledge has four sources: the
//! messages that `send` accepted, those that `recv` returned, the events that came, and a tap on
//! the wire, which sees the packets going out of one process and into another ([`crate::tap`]). A
//! session is the time between two `Ended` events of one process about one node.
//!
//! Promises (ARCHITECTURE.md) and where they are checked: 1 in `receiver`, 2 in `finish`, 3 and 4
//! in `sender`, `session` and `withdrawn`, 5 in `receiver` (nothing arrives twice, at any receiver)
//! and `suspension`. Promises 6 and 7 are the business of [`crate::invariants`] and
//! [`crate::socket`].

pub mod calls;
mod contact;
mod coverage;
mod credit;
mod finish;
mod first;
pub mod groups;
pub mod matching;
mod question;
mod receiver;
pub mod remote;
mod sender;
mod session;
pub mod sockets;
mod suspension;
#[cfg(test)]
mod tests;
mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use suci_proto::Outcome;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::SessionNumber;

use crate::content::Name;
use crate::packet::{Carried, Packet, ProcId};
use crate::tap::{Part, What};
pub use coverage::Coverage;
use receiver::Inbound;

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A message that no process sent, or that was for another one.
    Invented,
    /// Its bytes, tag, kind or user header differ from those sent.
    Modified,
    /// A message arrived a second time.
    Twice,
    /// A message arrived out of order.
    Order,
    /// An earlier message of its channel is missing.
    Gap,
    /// Messages of two sessions were mixed.
    OldSession,
    /// `Delivered` although the peer's library never got all of it.
    FalselyDelivered,
    /// `NotDelivered` although it was received, or all of it was sent and none refused it.
    FalselyNotDelivered,
    /// `Unknown` although parts of it never left.
    FalselyUnknown,
    /// A second outcome for one message.
    OutcomeTwice,
    /// A message ended without the outcome that was due.
    OutcomeMissing,
    /// An outcome about a message that does not exist or that another process sent.
    OutcomeInvented,
    /// Accepted, both processes alive, the network mended: it must have arrived.
    Undelivered,
    /// A message took longer than lost packets explain: the first one between two processes, or one
    /// to a node whose slots are shared.
    Late,
    /// `Up`, `Lost`, `Quiet` or `Ended` that does not fit the ones before, or the peer.
    Events,
    /// A message was sent after its sender took it back, or taken back after some of it was sent.
    Withdrawn,
    /// A suspended session accepts or sends messages, or it was not suspended by either side.
    Suspended,
    /// A limit of memory, credit, time or the network's interface.
    Invariant,
    /// The kernel dropped packets that the receiver had allowed.
    Overrun,
    /// Packets go on although no process has anything to send.
    Chatter,
    /// A one-sided operation was not applied as it should be.
    Remote,
    /// A number was sealed twice under one key.
    Nonce,
    /// An operation of a group has a wrong result, fails without a reason, or does not end.
    Group,
    /// A connection lost, invented or mixed bytes, failed without a reason, or does not end.
    Socket,
    /// A receive got a message that it does not admit, or not in order, or wrote where it must not.
    Matching,
    /// In the end a member does not know all others, or knows one that is gone; or a living one was
    /// told dead.
    Membership,
    /// The engine panicked.
    Panic,
}

/// The promise that broke, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub kind: Kind,
    /// The description of the violation.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// The result of a check.
pub type Verdict = Result<(), Violation>;

pub(crate) fn broken(kind: Kind, text: impl Into<String>) -> Verdict {
    Err(Violation {
        kind,
        text: text.into(),
    })
}

/// A message that a program wants to send, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The destination node.
    pub to: u32,
    /// The channel.
    pub channel: u32,
    /// Bytes of payload.
    pub length: u64,
    /// Bytes of user header.
    pub header: u8,
    /// Its meaning to the program.
    pub kind: u8,
    /// True if it carries a tag.
    pub tagged: bool,
    /// True if `Delivered` was asked for.
    pub notify: bool,
    /// The message may have the token of the one before, so that the library may keep both as one.
    pub twin: bool,
    /// The longest wait before any of it is sent.
    pub deadline: Option<Duration>,
    /// Once it is accepted, the program cancels the message that it sent this many messages before,
    /// to any node.
    pub cancel: Option<u8>,
}

/// How a message ended for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageFate {
    /// The outcome is unknown yet.
    Open,
    /// By the `Delivered` event or outcome.
    Delivered,
    /// By the `NotDelivered` event or outcome.
    NotDelivered,
    /// By the outcome `Unknown`.
    Unknown,
    /// Its session ended without naming it, which says delivered where no notice was asked for.
    Silent,
}

/// A record of one accepted message.
#[derive(Debug)]
struct Record {
    from: ProcId,
    spec: Spec,
    number: u64,
    name: Name,
    accepted_at: Instant,
    /// Position in its stream.
    position: usize,
    /// Its destination is the node that sent it: no packet carries it.
    to_itself: bool,
    fate: MessageFate,
    received_by: Option<ProcId>,
    /// Several sessions ended before its sender was told: its outcome may be left out, since it was
    /// not asked for.
    untold: bool,
    refused: bool,
    /// Its program cancelled it, and the library said that none of it had been sent.
    cancelled: bool,
    /// Its number was sent as that of a void message.
    void: bool,
    /// A library at its destination accepted a packet with the void message.
    void_handed: bool,
    /// Its fate was told, or decided, when its session ended.
    ended: bool,
    /// The request to send it was given to the network.
    asked: bool,
    sent: Coverage,
    offered: Coverage,
    /// The bytes handed to the library of each receiving process.
    handed: Vec<(ProcId, Coverage)>,
    /// The receiving processes whose libraries took some of it, each with its session then.
    taken: Vec<(ProcId, SessionNumber)>,
}

impl Record {
    fn held_by_someone(&self) -> bool {
        self.to_itself || self.handed.iter().any(|(_, coverage)| coverage.is_whole())
    }

    /// Returns true if it arrived, although its program was told nothing. Of one that went to its
    /// own node and may have been taken back nobody knows.
    fn is_surely_held(&self) -> bool {
        self.held_by_someone() && !(self.to_itself && self.may_be_withdrawn())
    }

    /// Returns true if the library of `process` took some of it in that session, or if it is not
    /// known in which one it did.
    fn may_be_in(&self, process: ProcId, session: SessionNumber) -> bool {
        let mut sessions = self.taken.iter().filter(|(by, _)| *by == process);
        let known = sessions.clone().next().is_some();
        !known || sessions.any(|(_, taken_in)| *taken_in == session)
    }

    /// Returns true if undamaged packets gave all of it to the library of `process`, or it never
    /// left that.
    fn held_by(&self, process: ProcId) -> bool {
        if self.to_itself {
            return self.from == process;
        }
        let mut handed = self.handed.iter();
        handed.any(|(by, coverage)| *by == process && coverage.is_whole())
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec {
            to,
            channel,
            length,
            ..
        } = self.spec;
        let (token, from, number) = (self.name.token, self.from, self.number);
        write!(
            f,
            "message {number} of channel {channel} from process {from} to node {to} ({length} B, token {token}, accepted at {} us)",
            self.accepted_at.as_nanos() / 1_000
        )
    }
}

/// All messages of one process to one node on one channel, in the order of acceptance.
#[derive(Debug, Default)]
struct Stream {
    tokens: Vec<u64>,
    /// Position at which the messages of each session begin, the newest last. Programs may hear of
    /// several ends at once, long after numbers began again.
    sessions: Vec<usize>,
    /// The number of the first message there: 0 in a right engine.
    next_number: u64,
}

impl Stream {
    /// Returns the position at which the newest session's messages begin.
    fn newest(&self) -> usize {
        self.sessions.last().copied().unwrap_or(0)
    }

    /// Returns the position at which the session after that of the message begins, if there is one.
    fn end_of_session(&self, position: usize) -> Option<usize> {
        self.sessions
            .iter()
            .copied()
            .find(|start| *start > position)
    }
}

/// One process as the oracle knows it.
#[derive(Debug)]
struct ProcessRecord {
    node: u32,
    stopped_at: Option<Instant>,
    /// Its peers answer all the time: it may lose none.
    steady: bool,
    /// The process said that nothing serves it while it computes.
    unattended: bool,
    /// Its program takes its messages at once.
    eager: bool,
}

/// The state of a link, as a process was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Link {
    #[default]
    Idle,
    Up,
    Lost,
    Quiet,
}

/// The record of everything that the programs of a run handed in and were given.
#[derive(Debug, Default)]
pub struct Oracle {
    seed: u64,
    records: Vec<Record>,
    processes: Vec<ProcessRecord>,
    streams: BTreeMap<(ProcId, u32, u32), Stream>,
    /// Messages without an outcome, by sending process and node.
    open: BTreeMap<(ProcId, u32), BTreeSet<u64>>,
    inbound: BTreeMap<(ProcId, u32), Inbound>,
    /// Channels that a process ever finished, with which node.
    finished: BTreeSet<(ProcId, u32, u32)>,
    /// Processes that wait for room: to which node, and in which class.
    wants: BTreeSet<(ProcId, u32, u8)>,
    links: BTreeMap<(ProcId, u32), Link>,
    sessions: BTreeMap<(ProcId, u32), session::Told>,
    returns: credit::Returns,
    held: BTreeMap<(ProcId, u32), suspension::Held>,
    /// Pairs of nodes, the first of which ever suspended its session with the second.
    suspended: BTreeSet<(u32, u32)>,
    firsts: first::Firsts,
    contacts: contact::Contacts,
    questions: question::Questions,
    /// Processes by node, in the order of their starts.
    by_node: BTreeMap<u32, Vec<ProcId>>,
    shaken: bool,
    /// Layers send messages, too, which the oracle does not see.
    has_layers: bool,
    /// Processes are members of a cluster or of groups.
    has_members: bool,
    /// How often the sessions of all processes came up, were lost or ended.
    link_changes: u64,
    delivered: u64,
    withdrawn: u64,
    bytes: u64,
    ended: u64,
}

impl Oracle {
    /// Returns an oracle that has seen nothing of the run with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Checks that the sender of a packet that reached a process kept to its credit.
    ///
    /// # Errors
    /// The sender used credit that it had returned.
    pub fn arrived(&mut self, now: Instant, at: ProcId, packet: &Packet) -> Result<(), Violation> {
        self.returns.arrived(now, at, packet)
    }

    /// Returns the messages received by programs.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the payload bytes received by programs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if a program received the message.
    #[must_use]
    pub fn is_received(&self, token: u64) -> bool {
        let record = self.record(token);
        record.is_some_and(|record| record.received_by.is_some())
    }

    /// Returns the messages accepted by `send`.
    #[must_use]
    pub fn accepted_count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the number of sessions that ended, counted at each side.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Notes that a process begins, and returns its number.
    pub fn process_started(&mut self, node: u32) -> ProcId {
        self.processes.push(ProcessRecord {
            node,
            stopped_at: None,
            steady: false,
            unattended: false,
            eager: false,
        });
        let id = ProcId::try_from(self.processes.len() - 1).unwrap_or(ProcId::MAX);
        self.by_node.entry(node).or_default().push(id);
        id
    }

    /// Notes that this run gives the process no reason to report a peer as lost.
    pub fn peers_stay(&mut self, process: ProcId) {
        if let Some(process) = self.processes.get_mut(process as usize) {
            process.steady = true;
        }
    }

    /// Notes that the program of this process takes its messages at once.
    pub fn takes_at_once(&mut self, process: ProcId) {
        if let Some(process) = self.processes.get_mut(process as usize) {
            process.eager = true;
        }
    }

    /// Notes that a process announced that its engine does not run while its program computes: its
    /// silence does not show its end.
    pub fn is_unattended(&mut self, process: ProcId) {
        if let Some(process) = self.processes.get_mut(process as usize) {
            process.unattended = true;
        }
    }

    /// Returns how often the sessions of all processes came up, were lost or ended.
    #[must_use]
    pub fn link_changes(&self) -> u64 {
        self.link_changes
    }

    /// Notes that layers send messages in this run.
    pub fn layers_send(&mut self) {
        self.has_layers = true;
    }

    /// Notes that processes are members of a cluster or of groups, which connect by themselves.
    pub fn members_connect(&mut self) {
        self.has_members = true;
    }

    /// Notes a fault of a process or of the whole network: peers may be lost from now on.
    pub fn shaken(&mut self) {
        self.shaken = true;
    }

    /// Notes that a process is gone, with all that its library held.
    pub fn process_stopped(&mut self, process: ProcId, now: Instant) {
        if let Some(process) = self.processes.get_mut(process as usize) {
            process.stopped_at = Some(now);
        }
    }

    /// Returns the content of the next message that is accepted, should it be this one.
    #[must_use]
    pub fn draft(&self, from: ProcId, spec: &Spec) -> Name {
        let token = self.records.len() as u64;
        Name {
            seed: self.seed,
            from,
            to: spec.to,
            channel: spec.channel,
            token,
        }
    }

    /// Notes that `send` accepted the message that was drafted last and gave it this number.
    ///
    /// # Errors
    /// Numbers of a channel rise by one, or begin at 0 with a new session.
    pub fn accepted(&mut self, now: Instant, name: Name, spec: Spec, number: u64) -> Verdict {
        let key = (name.from, spec.to, spec.channel);
        let stream = self.streams.entry(key).or_default();
        if number != stream.next_number {
            if number != 0 {
                let text = format!(
                    "number {number} accepted after {} on {key:?}",
                    stream.next_number
                );
                return broken(Kind::Order, text);
            }
            stream.sessions.push(stream.tokens.len());
        }
        stream.next_number = number + 1;
        let position = stream.tokens.len();
        stream.tokens.push(name.token);
        self.note_first(now, name.from, name.token);
        self.note_contact(now, name.from, &spec, name.token);
        self.note_question(now, name.from, spec.to, name.token);
        self.open
            .entry((name.from, spec.to))
            .or_default()
            .insert(name.token);
        self.records.push(Record {
            from: name.from,
            spec,
            number,
            name,
            accepted_at: now,
            position,
            to_itself: self.node_of(name.from) == Some(spec.to),
            fate: MessageFate::Open,
            received_by: None,
            untold: false,
            refused: false,
            cancelled: false,
            void: false,
            void_handed: false,
            ended: false,
            asked: false,
            sent: Coverage::Nothing,
            offered: Coverage::Nothing,
            handed: Vec::new(),
            taken: Vec::new(),
        });
        Ok(())
    }

    /// Returns the wire names a message by channel and number; this finds which of the run's it is.
    /// Only the newest session of a process with a node sends, so the newest one of that number is
    /// meant.
    #[must_use]
    pub fn identify(&self, from: ProcId, to: u32, part: Part) -> Option<Carried> {
        let stream = self.streams.get(&(from, to, part.channel))?;
        let offset = usize::try_from(part.number).ok()?;
        let token = *stream.tokens.get(stream.newest().checked_add(offset)?)?;
        Some(Carried {
            token,
            start: part.start,
            end: part.end,
            what: part.what,
        })
    }

    /// Notes that a packet with these parts was given to the network; `surely` if it took it for
    /// certain.
    pub fn sent(&mut self, carries: &[Carried], surely: bool) {
        for carried in carries {
            if let Some(record) = self.record_mut(carried.token) {
                record.asked |= carried.what == What::Request;
                if carried.what != What::Bytes {
                    continue;
                }
                record
                    .offered
                    .add(carried.start, carried.end, record.spec.length);
                if surely {
                    record
                        .sent
                        .add(carried.start, carried.end, record.spec.length);
                }
            }
        }
    }

    /// Notes that an undamaged packet with these parts was given to the library of `process`.
    pub fn handed(&mut self, process: ProcId, carries: &[Carried]) {
        let Some(node) = self.node_of(process) else {
            return;
        };
        for carried in carries {
            let Some(record) = self.record_mut(carried.token) else {
                continue;
            };
            if record.spec.to != node {
                continue;
            }
            if carried.what != What::Bytes {
                continue;
            }
            let length = record.spec.length;
            match record.handed.iter_mut().find(|(by, _)| *by == process) {
                Some((_, coverage)) => coverage.add(carried.start, carried.end, length),
                None => {
                    let mut coverage = Coverage::Nothing;
                    coverage.add(carried.start, carried.end, length);
                    record.handed.push((process, coverage));
                }
            }
        }
    }

    /// Notes that the library of `process` took a packet with these parts, after it was
    /// [`handed`](Self::handed), in its session of this number with the sender; `surely` unless
    /// that session ended meanwhile, perhaps before the library read the packet to its end.
    pub fn taken(
        &mut self,
        process: ProcId,
        carries: &[Carried],
        session: SessionNumber,
        surely: bool,
    ) {
        let node = self.node_of(process);
        for carried in carries {
            let record = self.record_mut(carried.token);
            let Some(record) = record.filter(|record| node == Some(record.spec.to)) else {
                continue;
            };
            match carried.what {
                What::Void => record.void_handed |= surely,
                What::Bytes if !record.taken.contains(&(process, session)) => {
                    record.taken.push((process, session));
                }
                _ => {}
            }
        }
    }

    /// Returns true if the last thing in a packet is part of a message that does not end there.
    #[must_use]
    pub fn is_part(&self, carries: &[Carried]) -> bool {
        let last = carries
            .last()
            .and_then(|last| Some((last, self.record(last.token)?)));
        last.is_some_and(|(last, record)| last.end < record.spec.length && last.end > last.start)
    }

    /// Returns the bytes of payload that reached the library of a process and were not received by
    /// its program: the bytes that it must hold, as seen from outside.
    #[must_use]
    pub fn held(&self, process: ProcId) -> u64 {
        let unreceived = self
            .records
            .iter()
            .filter(|record| record.received_by.is_none());
        unreceived
            .flat_map(|record| record.handed.iter().map(move |handed| (record, handed)))
            .filter(|(record, (by, _))| *by == process && record.fate != MessageFate::NotDelivered)
            .map(|(record, (_, coverage))| coverage.bytes(record.spec.length))
            .sum()
    }

    fn record(&self, token: u64) -> Option<&Record> {
        self.records.get(usize::try_from(token).ok()?)
    }

    fn record_mut(&mut self, token: u64) -> Option<&mut Record> {
        self.records.get_mut(usize::try_from(token).ok()?)
    }

    /// Returns the processes that ever had this node ID.
    fn processes_of(&self, node: u32) -> impl DoubleEndedIterator<Item = (ProcId, &ProcessRecord)> {
        let ids = self.by_node.get(&node).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.processes.get(*id as usize)?)))
    }

    fn node_of(&self, process: ProcId) -> Option<u32> {
        self.processes
            .get(process as usize)
            .map(|process| process.node)
    }
}

impl From<Outcome> for MessageFate {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::NotDelivered => Self::NotDelivered,
            Outcome::Unknown => Self::Unknown,
        }
    }
}
