//! Promise 1 (complete, unmodified, in order, at most once, no gaps) and promise 5 (nothing is
//! resent to a new incarnation), on every message that a program is given.

use std::collections::{BTreeMap, BTreeSet};

use suci_proto::types::{NodeId, Source};
use suci_proto::{EndReason, Message};

use super::{Kind, MessageFate, Oracle, Record, Verdict, Violation, broken};
use crate::content::token_of;
use crate::packet::ProcId;

/// The messages that a process received from a node in the present session.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// The process that all of it came from.
    source: Option<ProcId>,
    channels: BTreeMap<u32, ChannelProgress>,
}

/// How far one channel got.
#[derive(Debug, Default)]
struct ChannelProgress {
    next: u64,
    /// The last message received: its number and its position in the sender's stream.
    last: Option<(u64, usize)>,
    /// Numbers that this program refused; they never arrive.
    refused: BTreeSet<u64>,
    /// The program was told that nothing more comes.
    over: bool,
}

impl Oracle {
    /// Checks a message that `recv` of `process` returned.
    ///
    /// # Errors
    /// The promise that this breaks.
    pub fn received(&mut self, process: ProcId, source: Source, message: &Message) -> Verdict {
        let from = source.node;
        self.in_session(process, from, source.session)?;
        let inbound = self.inbound.entry((process, from.0)).or_default();
        let progress = inbound.channels.entry(message.channel.0).or_default();
        while progress.refused.remove(&progress.next) {
            progress.next += 1;
        }
        let expected = progress.next;
        if progress.over {
            let text = format!(
                "process {process} got number {} of channel {} from node {from}, which was finished",
                message.number, message.channel.0
            );
            return broken(Kind::Order, text);
        }
        let unexpected = format!(
            "process {process} got number {} of channel {} from node {from}, expected {expected}",
            message.number, message.channel.0
        );
        if message.number < expected {
            return broken(Kind::Order, unexpected);
        }
        let (sender, last, refused) = (inbound.source, progress.last, progress.refused.clone());
        let found = self.find(process, source, message, sender, last);
        let passed_over = |number: u64| {
            let void = |token: &u64| self.is_void_before(*token, number);
            refused.contains(&number) || found.as_ref().is_ok_and(void)
        };
        if !(expected..message.number).all(passed_over) {
            return broken(Kind::Gap, unexpected);
        }
        let token = found?;
        self.check_received(process, source, token, message)?;
        self.delivered += 1;
        self.bytes += message.payload.len() as u64;
        let Some(record) = self.record_mut(token) else {
            return Ok(());
        };
        record.received_by = Some(process);
        let (sender, position) = (record.from, record.position);
        let inbound = self.inbound.entry((process, from.0)).or_default();
        inbound.source = Some(sender);
        let progress = inbound.channels.entry(message.channel.0).or_default();
        progress.next = message.number + 1;
        progress.last = Some((message.number, position));
        progress.refused = progress.refused.split_off(&progress.next);
        Ok(())
    }

    /// Notes that the program of `process` refused a message before it arrived.
    pub fn refused(&mut self, process: ProcId, from: NodeId, channel: u32, number: u64) {
        let Some(node) = self.node_of(process) else {
            return;
        };
        let inbound = self.inbound.entry((process, from.0)).or_default();
        inbound
            .channels
            .entry(channel)
            .or_default()
            .refused
            .insert(number);
        let senders = self.senders(from.0);
        for sender in senders {
            let Some(stream) = self.streams.get(&(sender, node, channel)) else {
                continue;
            };
            let tokens: Vec<u64> = stream.tokens.clone();
            for token in tokens {
                if let Some(record) = self.record_mut(token)
                    && record.number == number
                    && record.received_by.is_none()
                {
                    record.refused = true;
                }
            }
        }
    }

    /// Checks that the peer closed in order if no message is missing on the channels on which one
    /// arrived, or before all arrived if that many messages may be missing.
    pub(super) fn check_missing(
        &self,
        process: ProcId,
        node: NodeId,
        reason: EndReason,
        sessions: u32,
    ) -> Verdict {
        let claimed = match reason {
            EndReason::Closed => 0,
            EndReason::CutShort { missing } => missing,
            _ => return Ok(()),
        };
        if sessions > 1 {
            return Ok(());
        }
        let missing = self.missing_here(process, node);
        let ever = self.unreceived_from(process, node);
        if missing <= claimed && (claimed <= ever || self.has_layers) {
            return Ok(());
        }
        let text = format!(
            "process {process}: node {node} ended with {reason:?}, of whose messages {missing} are missing, {ever} at most"
        );
        broken(Kind::Events, text)
    }

    /// Returns the messages of the present session that are missing behind those received on their
    /// channels.
    fn missing_here(&self, process: ProcId, from: NodeId) -> u64 {
        let Some((inbound, source, node)) = self.inbound_of(process, from) else {
            return 0;
        };
        let behind = inbound.channels.iter().map(|(channel, progress)| {
            let stream = self.streams.get(&(source, node, *channel));
            let Some((stream, (_, last))) = stream.zip(progress.last) else {
                return 0;
            };
            let end = stream.end_of_session(last).unwrap_or(stream.tokens.len());
            let behind = stream.tokens.get(last + 1..end).unwrap_or_default();
            let records = behind.iter().filter_map(|token| self.record(*token));
            let missing = records.filter(|record| !record.refused && !record.may_be_withdrawn());
            missing.count() as u64
        });
        behind.sum()
    }

    fn inbound_of(&self, process: ProcId, from: NodeId) -> Option<(&Inbound, ProcId, u32)> {
        let inbound = self.inbound.get(&(process, from.0))?;
        Some((inbound, inbound.source?, self.node_of(process)?))
    }

    /// Returns the messages that a node ever sent here and that were not received.
    fn unreceived_from(&self, process: ProcId, from: NodeId) -> u64 {
        let node = self.node_of(process);
        let unreceived = self.records.iter().filter(|record| {
            record.received_by.is_none()
                && Some(record.spec.to) == node
                && self.node_of(record.from) == Some(from.0)
        });
        unreceived.count() as u64
    }

    /// Notes that `process` finished a channel to `node`.
    pub fn finishes(&mut self, process: ProcId, node: u32, channel: u32) {
        self.finished.insert((process, node, channel));
    }

    /// Checks the report to `process` that `from` finished a channel. A message that comes later
    /// breaks the order, and one that never comes is missed in the end.
    ///
    /// # Errors
    /// No process finished it, or it was told before.
    pub(super) fn channel_finished(
        &mut self,
        process: ProcId,
        from: NodeId,
        channel: u32,
    ) -> Verdict {
        let node = self.node_of(process).unwrap_or_default();
        let finished = |sender: &ProcId| self.finished.contains(&(*sender, node, channel));
        if !self.senders(from.0).iter().any(finished) {
            let text = format!(
                "process {process} heard that node {from} finished channel {channel}, which nobody did"
            );
            return broken(Kind::Events, text);
        }
        let inbound = self.inbound.entry((process, from.0)).or_default();
        let progress = inbound.channels.entry(channel).or_default();
        if std::mem::replace(&mut progress.over, true) {
            let text = format!(
                "process {process} heard twice that channel {channel} of node {from} is over"
            );
            return broken(Kind::Events, text);
        }
        Ok(())
    }

    /// Notes that the session of `process` with `node` is over: the next message begins anew.
    pub(super) fn inbound_ended(&mut self, process: ProcId, node: u32) {
        self.inbound.remove(&(process, node));
    }

    fn senders(&self, node: u32) -> Vec<ProcId> {
        self.processes_of(node).rev().map(|(id, _)| id).collect()
    }

    /// Finds the message of the run that this must be. After the first of a channel it is the
    /// sender's next one. The first is told by its tag, or by being some first message of that
    /// content.
    fn find(
        &self,
        process: ProcId,
        from: Source,
        message: &Message,
        sender: Option<ProcId>,
        last: Option<(u64, usize)>,
    ) -> Result<u64, Violation> {
        let channel = message.channel.0;
        let node = self.node_of(process).unwrap_or_default();
        let by_tag = (message.tag != 0)
            .then(|| token_of(self.seed, message.tag))
            .flatten();
        let expected = sender.zip(last).and_then(|(sender, (number, position))| {
            let stream = self.streams.get(&(sender, node, channel))?;
            let ahead = usize::try_from(message.number.checked_sub(number)?).ok()?;
            stream.tokens.get(position.checked_add(ahead)?).copied()
        });
        let found = match (by_tag, expected) {
            (Some(tagged), _) => Some(tagged),
            (None, Some(expected)) => Some(expected),
            (None, None) if last.is_none() => self.search(process, from, message, sender),
            (None, None) => None,
        };
        if let (Some(tagged), Some(expected)) = (by_tag, expected)
            && tagged != expected
        {
            let text = format!("token {tagged} arrived where {expected} is due");
            return Err(Violation {
                kind: Kind::OldSession,
                text,
            });
        }
        found.filter(|token| self.record(*token).is_some()).ok_or_else(|| Violation {
            kind: Kind::Invented,
            text: format!(
                "node {node} got number {} of channel {channel} from node {} ({} B), which nobody sent",
                message.number,
                from.node,
                message.payload.len()
            ),
        })
    }

    /// Finds an untagged message, the first of its channel, by its content, among those that the
    /// library was handed in this session. A short content may be the same from several processes
    /// of one node ID. So the process of the session comes first; otherwise the sender could not be
    /// told.
    fn search(
        &self,
        process: ProcId,
        from: Source,
        message: &Message,
        sender: Option<ProcId>,
    ) -> Option<u64> {
        let node = self.node_of(process)?;
        let senders = self.senders(from.node.0);
        let streams = senders
            .iter()
            .filter_map(|s| self.streams.get(&(*s, node, message.channel.0)));
        let tokens = streams.flat_map(|stream| stream.tokens.iter().rev());
        let fitting = tokens
            .filter_map(|token| Some((*token, self.record(*token)?)))
            .filter(|(_, record)| {
                record.number == message.number
                    && record.received_by.is_none()
                    && record.held_by(process)
                    && record.may_be_in(process, from.session)
                    && differs(record, message).is_none()
            });
        // Of equals, the newest.
        fitting
            .min_by_key(|(_, record)| sender.is_some_and(|sender| sender != record.from))
            .map(|(token, _)| token)
    }

    fn check_received(
        &self,
        process: ProcId,
        source: Source,
        token: u64,
        message: &Message,
    ) -> Verdict {
        let from = source.node;
        let Some(record) = self.record(token) else {
            return Ok(());
        };
        let node = self.node_of(process);
        if self.node_of(record.from) != Some(from.0) || Some(record.spec.to) != node {
            return broken(
                Kind::Invented,
                format!("process {process} got {record} from node {from}"),
            );
        }
        if let Some(before) = record.received_by {
            let text = format!("process {process} got {record}, which process {before} has");
            return broken(Kind::Twice, text);
        }
        if record.number != message.number || record.spec.channel != message.channel.0 {
            let text = format!(
                "process {process} got {record} as number {} of channel {}",
                message.number, message.channel.0
            );
            return broken(Kind::OldSession, text);
        }
        if let Some(what) = differs(record, message) {
            return broken(
                Kind::Modified,
                format!("process {process} got {record}: {what}"),
            );
        }
        if !record.held_by(process) {
            let text =
                format!("process {process} got {record}, of which its library was not handed all");
            return broken(Kind::Invented, text);
        }
        if !record.may_be_in(process, source.session) {
            let (by, session) = (&record.taken, source.session);
            let text = format!("process {process} got {record} in {session}, taken in {by:?}");
            return broken(Kind::OldSession, text);
        }
        if record.fate == MessageFate::NotDelivered {
            let text =
                format!("process {process} got {record} after the sender was told it never would");
            return broken(Kind::FalselyNotDelivered, text);
        }
        let sender = self
            .inbound
            .get(&(process, from.0))
            .and_then(|inbound| inbound.source);
        if sender.is_some_and(|sender| sender != record.from) {
            let text =
                format!("process {process} got {record} within the session of process {sender:?}");
            return broken(Kind::OldSession, text);
        }
        Ok(())
    }
}

/// Returns the difference between a message and the one that was sent, if any.
fn differs(record: &Record, message: &Message) -> Option<String> {
    let spec = &record.spec;
    if message.payload.len() as u64 != spec.length {
        return Some(format!("{} B of payload", message.payload.len()));
    }
    let tag = if spec.tagged { record.name.tag() } else { 0 };
    if message.tag != tag || message.kind.0 != spec.kind {
        return Some(format!(
            "tag {:#x} or kind {} changed",
            message.tag, message.kind.0
        ));
    }
    if message.user_header != record.name.header(spec.header) {
        return Some("the user header changed".into());
    }
    let payload = record.name.payload(spec.length);
    if message.payload != payload {
        let at = message
            .payload
            .iter()
            .zip(payload.iter())
            .position(|(got, sent)| got != sent);
        return Some(format!("the payload changed at byte {at:?}"));
    }
    None
}
