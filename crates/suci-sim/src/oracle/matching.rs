//! Receives: each gets messages that it admits, once, whole and in order.
//!
//! The user header of a message has its token, by which the oracle knows what was sent. It knows at
//! each completion:
//!
//! * The message was sent to this node, arrives for the first time, and the receive admits it.
//! * The buffer has its bytes, as many as fit, and nothing else was written.
//! * Of two messages of one session and channel, a receive that admits both got the later one only
//!   if the earlier one was taken before it, by a receive that was posted before, or by a claim.
//! * A buffer that was given back is not written to.
//!
//! In the end each message of a session that goes on was received.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use suci_layers::matching::{Completion, MESSAGE_CHARGE, Matched, Pattern, ReceiveId};
use suci_layers::remote::{AtomicOp, Memory, Width};
use suci_proto::types::{NodeId, Source};

use super::{Kind, Verdict, Violation, broken};
use crate::content::Name;
use crate::packet::ProcId;

/// The tags that programs use.
pub const TAGS: u64 = 4;

/// The channels that programs use.
pub const CHANNELS: u64 = 2;

/// Bytes of a buffer that no message has.
const BLANK: u8 = 0xa5;

/// The longest message, and what it counts beside its bytes.
const ONE_MORE: u64 = 300_000 + MESSAGE_CHARGE + 255;

/// A message that a program sends.
#[derive(Clone, Copy, Debug)]
pub struct SentMessage {
    name: Name,
    tag: u64,
    length: u64,
    fate: MatchFate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchFate {
    /// It must arrive.
    Due,
    /// Its session ended, or its sender: it may arrive or not.
    Excused,
    /// A program claimed it.
    Claimed,
    Received,
}

impl SentMessage {
    /// Returns the number that names it in the run.
    #[must_use]
    pub const fn token(&self) -> u64 {
        self.name.token
    }

    /// Returns its payload.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.name.payload(self.length)
    }
}

/// The buffer of a receive.
#[derive(Debug)]
pub struct Tray(Mutex<TrayState>);

#[derive(Debug)]
struct TrayState {
    bytes: Vec<u8>,
    is_given_back: bool,
    written_late: bool,
}

impl Tray {
    /// Returns an empty buffer.
    #[must_use]
    pub fn new(length: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(TrayState {
            bytes: vec![BLANK; usize::try_from(length).unwrap_or(0)],
            is_given_back: false,
            written_late: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, TrayState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn range(at: u64, length: usize) -> Option<core::ops::Range<usize>> {
    let at = usize::try_from(at).ok()?;
    Some(at..at.checked_add(length)?)
}

impl Memory for Tray {
    fn len(&self) -> u64 {
        self.lock().bytes.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let tray = self.lock();
        let from = range(at, into.len()).and_then(|range| tray.bytes.get(range));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let mut tray = self.lock();
        tray.written_late |= tray.is_given_back;
        let into = range(at, bytes.len()).and_then(|range| tray.bytes.get_mut(range));
        let fits = into.map(|into| into.copy_from_slice(bytes)).is_some();
        tray.written_late |= !fits;
        fits
    }

    fn atomic(&self, _: u64, _: Width, _: AtomicOp) -> Option<u64> {
        None
    }
}

/// The messages that a receive admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The channel.
    pub channel: u32,
    /// The node, or any.
    pub from: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// The bits of the tag that do not count.
    pub ignore: u64,
}

impl Wanted {
    /// Admits all messages on a channel.
    #[must_use]
    pub const fn all(channel: u32) -> Self {
        Self {
            channel,
            from: None,
            tag: 0,
            ignore: u64::MAX,
        }
    }

    /// Returns the same for the layer.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        let pattern = Pattern::tag(self.tag)
            .ignoring(self.ignore)
            .on(self.channel);
        match self.from {
            Some(node) => pattern.from(NodeId(node)),
            None => pattern,
        }
    }

    /// Returns true if it admits a message of a node. That is on the same channel.
    fn admits(&self, node: u32, tag: u64) -> bool {
        self.from.is_none_or(|from| from == node) && (self.tag ^ tag) & !self.ignore == 0
    }
}

/// A receive of a program.
#[derive(Debug)]
pub struct Posted {
    /// Nothing if it is for a message that was claimed.
    wanted: Option<Wanted>,
    tray: Arc<Tray>,
    is_multiple: bool,
    /// Bytes of the buffer that messages have.
    used: BTreeMap<u64, u64>,
    is_over: bool,
}

impl Posted {
    /// Returns a receive that was posted.
    #[must_use]
    pub const fn new(wanted: Option<Wanted>, tray: Arc<Tray>, is_multiple: bool) -> Self {
        Self {
            wanted,
            tray,
            is_multiple,
            used: BTreeMap::new(),
            is_over: false,
        }
    }
}

/// A message that a receive got.
#[derive(Clone, Copy, Debug)]
struct Got {
    token: u64,
    tag: u64,
    receive: ReceiveId,
    wanted: Option<Wanted>,
}

/// The knowledge of the oracle about all receives.
#[derive(Debug, Default)]
pub struct MatchingOracle {
    sent: BTreeMap<u64, SentMessage>,
    next: u64,
    posted: BTreeMap<(ProcId, ReceiveId), Posted>,
    /// The messages of a session and channel that receives of a process got, in that order.
    streams: BTreeMap<(ProcId, Source, u32), Vec<Got>>,
    stopped: Vec<ProcId>,
    /// The highest number of a process that sent something.
    last_sender: ProcId,
    received: u64,
}

/// An oracle that programs share.
#[derive(Clone, Debug, Default)]
pub struct SharedMatchingOracle(Arc<Mutex<MatchingOracle>>);

impl SharedMatchingOracle {
    /// Locks the oracle.
    pub fn lock(&self) -> MutexGuard<'_, MatchingOracle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MatchingOracle {
    /// Describes the next message.
    pub fn describe(
        &mut self,
        from: ProcId,
        to: u32,
        channel: u32,
        tag: u64,
        length: u64,
    ) -> SentMessage {
        let token = self.next;
        self.next += 1;
        let name = Name {
            seed: 0,
            from,
            to,
            channel,
            token,
        };
        SentMessage {
            name,
            tag,
            length,
            fate: MatchFate::Due,
        }
    }

    /// Notes that the engine accepted a message.
    pub fn sent(&mut self, sent: SentMessage) {
        self.last_sender = sent.name.from.max(self.last_sender);
        self.sent.insert(sent.token(), sent);
    }

    /// Notes that a receive was posted.
    pub fn posted(&mut self, process: ProcId, receive: ReceiveId, posted: Posted) {
        self.posted.insert((process, receive), posted);
    }

    /// Notes that a receive was withdrawn.
    pub fn cancelled(&mut self, process: ProcId, receive: ReceiveId) {
        if let Some(posted) = self.posted.get_mut(&(process, receive)) {
            posted.is_over = true;
            posted.tray.lock().is_given_back = true;
        }
    }

    /// Notes that a program claimed a message.
    pub fn claimed(&mut self, user_header: &[u8]) {
        if let Some(sent) = token(user_header).and_then(|token| self.sent.get_mut(&token)) {
            sent.fate = MatchFate::Claimed;
        }
    }

    /// Returns the receives of a process that are not over.
    #[must_use]
    pub fn open(&self, process: ProcId) -> Vec<ReceiveId> {
        let all = self.of(process).filter(|(_, posted)| !posted.is_over);
        all.map(|(id, _)| id).collect()
    }

    /// Returns how many receives with this pattern a process has open.
    #[must_use]
    pub fn waiting(&self, process: ProcId, wanted: Wanted) -> usize {
        let open = self.of(process).filter(|(_, posted)| !posted.is_over);
        open.filter(|(_, posted)| posted.wanted == Some(wanted))
            .count()
    }

    fn of(&self, process: ProcId) -> impl Iterator<Item = (ReceiveId, &Posted)> {
        let range = (process, ReceiveId(0))..=(process, ReceiveId(u64::MAX));
        let all = self.posted.range(range);
        all.map(|((_, receive), posted)| (*receive, posted))
    }

    /// Notes that a process heard of the end of its session with a node. What it sent may be lost.
    pub fn ended(&mut self, process: ProcId, node: u32) {
        for sent in self.sent.values_mut() {
            if (sent.name.from, sent.name.to) == (process, node) && sent.fate == MatchFate::Due {
                sent.fate = MatchFate::Excused;
            }
        }
    }

    /// Notes that a process of a node is gone, with what its library had received.
    pub fn process_stopped(&mut self, process: ProcId, node: u32) {
        self.stopped.push(process);
        for sent in self.sent.values_mut() {
            if sent.name.to == node && sent.fate == MatchFate::Due {
                sent.fate = MatchFate::Excused;
            }
        }
    }

    /// Checks the memory for messages that no receive has taken.
    ///
    /// # Errors
    /// It is more than the process may hold.
    pub fn held(&self, node: u32, held: u64, memory: u64) -> Verdict {
        // One message of each node may come beside.
        let most = memory + (u64::from(self.last_sender) + 1) * ONE_MORE;
        match held > most {
            true => wrong(format!(
                "node {node} keeps {held} B of messages, {most} B may be"
            )),
            false => Ok(()),
        }
    }

    /// Checks a completion.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn completed(&mut self, process: ProcId, node: u32, done: Completion) -> Verdict {
        let key = (process, done.receive);
        let Some(posted) = self.posted.get_mut(&key).filter(|posted| !posted.is_over) else {
            return wrong(format!(
                "process {process} has no receive {:?}",
                done.receive
            ));
        };
        posted.is_over = done.released;
        let mut tray = posted.tray.lock();
        tray.is_given_back = done.released;
        if tray.written_late {
            return wrong(format!("written late, or outside: {:?}", done.receive));
        }
        drop(tray);
        let Ok(matched) = done.result else {
            return Ok(());
        };
        if !done.released && !posted.is_multiple {
            return wrong(format!(
                "{:?} has its message and is not over",
                done.receive
            ));
        }
        let wanted = posted.wanted;
        self.check_bytes(key, node, &matched)?;
        let got = Got {
            token: token(&matched.user_header).unwrap_or(0),
            tag: matched.tag,
            receive: done.receive,
            wanted,
        };
        self.check_order((process, matched.from, matched.channel.0), got)
    }

    fn check_bytes(&mut self, key: (ProcId, ReceiveId), node: u32, matched: &Matched) -> Verdict {
        let sent = token(&matched.user_header).and_then(|token| self.sent.get_mut(&token));
        let Some(sent) = sent.filter(|sent| sent.name.to == node) else {
            return broken(
                Kind::Invented,
                format!("nobody sent node {node} {matched:?}"),
            );
        };
        if core::mem::replace(&mut sent.fate, MatchFate::Received) == MatchFate::Received {
            return broken(Kind::Twice, format!("received twice: {sent:?}"));
        }
        self.received += 1;
        let channel = matched.channel.of_group_number();
        let described = (channel, matched.tag, matched.total);
        if described != (sent.name.channel, sent.tag, sent.length) {
            return broken(Kind::Modified, format!("{matched:?} was sent as {sent:?}"));
        }
        let payload = sent.payload();
        let Some(posted) = self.posted.get_mut(&key) else {
            return Ok(());
        };
        let tray = posted.tray.lock();
        let length = usize::try_from(matched.length).unwrap_or(usize::MAX);
        let place = range(matched.offset, length).and_then(|range| tray.bytes.get(range));
        if place.is_none() || place != payload.get(..length) {
            return broken(Kind::Modified, format!("other bytes: {matched:?}"));
        }
        // Where nothing follows, a shorter part would not be noticed otherwise.
        let end = matched.offset.saturating_add(matched.length);
        let is_full = end == tray.bytes.len() as u64;
        if length != payload.len() && !is_full {
            return broken(Kind::Modified, format!("cut short: {matched:?}"));
        }
        drop(tray);
        let before = posted.used.range(..=matched.offset).next_back();
        let overlaps = before.is_some_and(|(at, length)| at + length > matched.offset)
            || posted
                .used
                .range(matched.offset..)
                .next()
                .is_some_and(|(at, _)| *at < end);
        if overlaps && matched.length > 0 {
            return wrong(format!("two messages in one place: {matched:?}"));
        }
        if matched.length > 0 {
            posted.used.insert(matched.offset, matched.length);
        }
        Ok(())
    }

    /// Checks a message against those that came before it.
    fn check_order(&mut self, stream: (ProcId, Source, u32), got: Got) -> Verdict {
        let before = self.streams.entry(stream).or_default();
        for other in &*before {
            let (earlier, later) = match other.token < got.token {
                true => (other, &got),
                false => (&got, other),
            };
            // Claims take messages out of order.
            let (Some(_), Some(wanted)) = (earlier.wanted, later.wanted) else {
                continue;
            };
            if !wanted.admits(stream.1.node.0, earlier.tag) {
                continue;
            }
            if earlier.token == got.token || later.receive < earlier.receive {
                let text = format!("{later:?} should have got the message of {earlier:?}");
                return broken(Kind::Order, text);
            }
        }
        before.push(got);
        Ok(())
    }

    /// Returns the number of messages received.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Checks that everything arrived.
    ///
    /// # Errors
    /// A message is missing.
    pub fn finish(&self) -> Verdict {
        let missing = self.sent.values().find(|sent| {
            let is_due = matches!(sent.fate, MatchFate::Due);
            is_due && !self.stopped.contains(&sent.name.from)
        });
        match missing {
            Some(sent) => broken(Kind::Undelivered, format!("no receive got {sent:?}")),
            None => Ok(()),
        }
    }
}

fn token(user_header: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(user_header.try_into().ok()?))
}

fn wrong(text: String) -> Result<(), Violation> {
    broken(Kind::Matching, text)
}
