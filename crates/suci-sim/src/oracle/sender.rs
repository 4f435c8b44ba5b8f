//! Promises 3 and 4: senders are told the truth, once per message and in full.

use std::collections::BTreeMap;

use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{EndReason, Event, LostCause, MessageOutcome, Outcome};

use super::{Kind, Link, MessageFate, Oracle, ProcessRecord, Record, Verdict, broken};
use crate::packet::ProcId;

/// The names of a message in an event.
#[derive(Clone, Copy)]
struct Named {
    node: NodeId,
    channel: ChannelId,
    number: u64,
    token: u64,
}

impl Oracle {
    /// Checks an event of the library of `process`.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub fn event(&mut self, process: ProcId, event: &Event) -> Verdict {
        match *event {
            Event::Up { node, session } => {
                self.in_session(process, node, session)?;
                self.link(
                    process,
                    node,
                    Link::Up,
                    &[Link::Idle, Link::Lost, Link::Quiet],
                )
            }
            Event::Lost { node, cause } => {
                self.check_silence(process, node, false)?;
                let from = self.before_lost(process, node, cause);
                self.link(process, node, Link::Lost, from)
            }
            Event::Quiet { node } => {
                self.check_silence(process, node, true)?;
                self.link(process, node, Link::Quiet, &[Link::Up])
            }
            Event::Delivered {
                node,
                channel,
                number,
                token,
            }
            | Event::NotDelivered {
                node,
                channel,
                number,
                token,
                ..
            } => {
                let named = self.named(process, node, (channel, number), token);
                if let Event::NotDelivered { reason, .. } = *event {
                    self.check_reason(named.token, reason)?;
                }
                let fate = match event {
                    Event::Delivered { .. } => MessageFate::Delivered,
                    _ => MessageFate::NotDelivered,
                };
                self.settle(process, named, fate)
            }
            Event::Suspended { node, by } => self.suspension(process, node, by, true),
            Event::Resumed { node, by } => self.suspension(process, node, by, false),
            Event::Ended {
                node,
                session,
                sessions,
                reason,
                ref outcomes,
            } => {
                self.end_of_session(process, node, session, sessions)?;
                self.check_missing(process, node, reason, sessions)?;
                self.session_ended(process, node, reason, outcomes)
            }
            Event::Writable { node, class } => self.room(process, node, class),
            Event::ChannelFinished { node, channel } => {
                self.channel_finished(process, node, channel.0)
            }
            // The cluster's members have an oracle of their own.
            Event::Incoming { .. }
            | Event::Refused { .. }
            | Event::MemberJoined { .. }
            | Event::MemberLeft { .. }
            | Event::MemberFailed { .. } => Ok(()),
        }
    }

    /// The states of a link from which a peer may become lost: also of one that never answered, and
    /// of one that said that it would be quiet, if its process died.
    fn before_lost(&self, process: ProcId, node: NodeId, cause: LostCause) -> &'static [Link] {
        match cause {
            LostCause::ProcessDied => &[Link::Idle, Link::Up, Link::Quiet],
            _ if self.is_tried_again(process, node) => &[Link::Idle, Link::Up, Link::Lost],
            _ => &[Link::Idle, Link::Up],
        }
    }

    /// Returns true if a node may become lost again without an answer in between: one that never
    /// answered is given up without an end, and members try again.
    fn is_tried_again(&self, process: ProcId, node: NodeId) -> bool {
        self.has_members && !self.is_in_session(process, node)
    }

    /// Notes that `process` was told to send a message to `node` later, on a channel of this class.
    pub fn wants_room(&mut self, process: ProcId, node: u32, class: u8) {
        self.wants.insert((process, node, class));
    }

    /// Checks the report to `process` that there is room.
    fn room(&mut self, process: ProcId, node: NodeId, class: u8) -> Verdict {
        if self.wants.remove(&(process, node.0, class)) {
            return Ok(());
        }
        let text = format!(
            "process {process} hears of room to node {node} in class {class}, for which it does not wait"
        );
        broken(Kind::Events, text)
    }

    fn link(&mut self, process: ProcId, node: NodeId, to: Link, from: &[Link]) -> Verdict {
        let link = self.links.entry((process, node.0)).or_default();
        let was = *link;
        *link = to;
        self.link_changes += 1;
        if from.contains(&was) {
            return Ok(());
        }
        broken(
            Kind::Events,
            format!("process {process}: node {node} is {to:?} after {was:?}"),
        )
    }

    fn link_of(&self, process: ProcId, node: NodeId) -> Link {
        let link = self.links.get(&(process, node.0));
        link.copied().unwrap_or_default()
    }

    /// Checks that a process may report a node as lost, or as `quiet`, which only nodes are that
    /// announced it.
    fn check_silence(&self, process: ProcId, node: NodeId, quiet: bool) -> Verdict {
        let observer = self.processes.get(process as usize);
        if !self.shaken && observer.is_some_and(|p| p.steady) {
            let text = format!("process {process} lost node {node}, which answers");
            return broken(Kind::Events, text);
        }
        // A node that never answered in this session announced nothing yet. A process that the
        // kernel reports dead is lost, whatever it announced.
        let unheard =
            self.link_of(process, node) == Link::Idle || self.is_tried_again(process, node);
        let fits = |process: &ProcessRecord| {
            process.unattended == quiet || (!quiet && process.stopped_at.is_some())
        };
        let mut candidates = self.processes_of(node.0);
        if (unheard && !quiet) || candidates.any(|(_, process)| fits(process)) {
            return Ok(());
        }
        let text =
            format!("process {process}: node {node} is quiet ({quiet}), which it never said");
        broken(Kind::Events, text)
    }

    fn session_ended(
        &mut self,
        process: ProcId,
        node: NodeId,
        reason: EndReason,
        outcomes: &[MessageOutcome],
    ) -> Verdict {
        self.ended += 1;
        self.link_changes += 1;
        self.links.insert((process, node.0), Link::Idle);
        // By channel, the last message of the session that is named.
        let mut streams = BTreeMap::new();
        // The oracle knows nothing of messages of other layers.
        for outcome in outcomes.iter().filter(|it| it.channel.is_user()) {
            let MessageOutcome {
                channel,
                number,
                token,
                outcome,
                ..
            } = *outcome;
            let named = self.named(process, node, (channel, number), token);
            let token = named.token;
            self.settle(process, named, MessageFate::from(outcome))?;
            self.note_end(token);
            if outcome == Outcome::Unknown {
                self.check_unknown(token)?;
            }
            if let Some(record) = self.record(token) {
                let last = streams.entry(channel.0).or_insert(record.position);
                *last = record.position.max(*last);
            }
        }
        self.inbound_ended(process, node.0);
        self.suspension_ended(process, node.0);
        self.check_unnamed(process, node.0, reason, &streams)
    }

    fn note_end(&mut self, token: u64) {
        if let Some(record) = self.record_mut(token) {
            record.ended = true;
        }
    }

    fn check_unknown(&self, token: u64) -> Verdict {
        match self.record(token) {
            Some(record) if !record.offered.is_whole() => broken(
                Kind::FalselyUnknown,
                format!("unknown, but parts never left: {record}"),
            ),
            _ => Ok(()),
        }
    }

    /// Settles the messages of the ended session that no outcome named: on every channel with a
    /// named message, all up to where numbers began again. Messages of other channels are checked
    /// at the end of the run.
    fn check_unnamed(
        &mut self,
        process: ProcId,
        node: u32,
        reason: EndReason,
        named: &BTreeMap<u32, usize>,
    ) -> Verdict {
        let open = self.open.get(&(process, node)).cloned().unwrap_or_default();
        for token in open {
            let Some(record) = self.record(token) else {
                continue;
            };
            let channel = record.spec.channel;
            let stream = self.streams.get(&(process, node, channel));
            let Some((stream, last)) = stream.zip(named.get(&channel)) else {
                continue;
            };
            if stream
                .end_of_session(*last)
                .is_some_and(|end| record.position >= end)
            {
                continue;
            }
            if record.spec.notify {
                let text =
                    format!("the session ended ({reason:?}) without an outcome for {record}");
                return broken(Kind::OutcomeMissing, text);
            }
            let held = record.is_surely_held();
            if !held && !record.untold && !record.may_be_withdrawn() {
                let text =
                    format!("the session ended ({reason:?}), no outcome, not held there: {record}");
                return broken(Kind::OutcomeMissing, text);
            }
            let fate = if held {
                MessageFate::Silent
            } else {
                MessageFate::Unknown
            };
            self.close(process, node, token, fate);
            self.note_end(token);
        }
        for (channel, last) in named {
            if let Some(stream) = self.streams.get_mut(&(process, node, *channel))
                && stream.end_of_session(*last).is_none()
            {
                stream.sessions.push(stream.tokens.len());
                stream.next_number = 0;
            }
        }
        Ok(())
    }

    /// Names the message of an event with its own token. A twin's event has the token of the first
    /// message of its sequence. Twins follow the first with consecutive numbers. Only the last may
    /// have a lower number, if it is the first message of the next session.
    fn named(
        &self,
        process: ProcId,
        node: NodeId,
        (channel, number): (ChannelId, u64),
        mut token: u64,
    ) -> Named {
        let first = self.record(token).filter(|first| first.spec.twin);
        let stream = self.streams.get(&(process, node.0, channel.0));
        if let Some((first, stream)) = first.zip(stream) {
            let position = match number.checked_sub(first.number) {
                Some(behind) => usize::try_from(behind).map_or(0, |at| first.position + at),
                None => stream.end_of_session(first.position).unwrap_or(0),
            };
            token = stream.tokens.get(position).copied().unwrap_or(token);
        }
        Named {
            node,
            channel,
            number,
            token,
        }
    }

    fn settle(&mut self, process: ProcId, named: Named, fate: MessageFate) -> Verdict {
        let Named {
            node,
            channel,
            number,
            token,
        } = named;
        let Some(record) = self.record(token) else {
            return broken(
                Kind::OutcomeInvented,
                format!("process {process}: token {token}"),
            );
        };
        let ours = record.from == process && record.spec.to == node.0;
        if !ours || record.spec.channel != channel.0 || record.number != number {
            let text = format!(
                "process {process} was told about {record} as {}/{number}",
                channel.0
            );
            return broken(Kind::OutcomeInvented, text);
        }
        if record.fate != MessageFate::Open {
            let text = format!("{fate:?} after {:?}: {record}", record.fate);
            return broken(Kind::OutcomeTwice, text);
        }
        match fate {
            MessageFate::Delivered => check_delivered(record)?,
            MessageFate::NotDelivered => check_not_delivered(record)?,
            MessageFate::Open | MessageFate::Unknown | MessageFate::Silent => {}
        }
        self.close(process, node.0, token, fate);
        Ok(())
    }

    pub(super) fn close(&mut self, process: ProcId, node: u32, token: u64, fate: MessageFate) {
        if let Some(record) = self.record_mut(token) {
            record.fate = fate;
        }
        if let Some(open) = self.open.get_mut(&(process, node)) {
            open.remove(&token);
        }
    }
}

fn check_delivered(record: &Record) -> Verdict {
    if record.received_by.is_some() || record.held_by_someone() {
        return Ok(());
    }
    let handed = &record.handed;
    let text = format!("delivered, but the peer never had all of it: {record}; it had {handed:?}");
    broken(Kind::FalselyDelivered, text)
}

fn check_not_delivered(record: &Record) -> Verdict {
    if let Some(by) = record.received_by {
        let text = format!("not delivered, but process {by} received it: {record}");
        return broken(Kind::FalselyNotDelivered, text);
    }
    if record.sent.is_whole() && !record.refused {
        let text = format!("not delivered, but all of it was sent: {record}");
        return broken(Kind::FalselyNotDelivered, text);
    }
    Ok(())
}
