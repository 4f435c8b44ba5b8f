//! The end of a session: the outcomes of its messages, and the event for the program.

use super::event_queue::EndedSession;
use super::{Closing, Peer, Session};
use crate::counters::LinkState;
use crate::event::{EndReason, Event, Side};
use crate::log::LogRecord;
use crate::shared::{MemoryShares, Shared};
use std::collections::VecDeque;
use suci_channels::message::{Inbox, Message, Outcome, undelivered};
use suci_channels::port::Port;
use suci_link::planted;
use suci_link::time::Instant;
use suci_link::wire::close_code;

/// The cause of a session's end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    For(EndReason),
    /// The peer's CLOSE, with the number of messages that it had accepted.
    ByPeer {
        sent: u64,
    },
}

impl Peer {
    /// Ends the session and its connection.
    pub(crate) fn end(&mut self, now: Instant, reason: EndReason, shared: &mut Shared) {
        self.drop_connection(shared);
        self.finish_session(now, Ending::For(reason), shared);
    }

    /// Ends the session: every outstanding message gets its outcome, and the next session begins
    /// empty. The event follows when the program took the messages that had arrived.
    pub(super) fn finish_session(&mut self, now: Instant, ending: Ending, shared: &mut Shared) {
        self.drop_attempt(shared);
        self.report_completions(shared);
        let ending = match self.closing {
            Closing::Sent { .. } => Ending::For(EndReason::ClosedHere),
            _ => ending,
        };
        let mut old = core::mem::replace(
            &mut self.session,
            Session::new(self.node, &shared.config, &shared.pool),
        );
        let priorities = old.outbox.take_priorities();
        self.session.inbox.set_priorities(priorities.clone());
        self.session.outbox.set_priorities(priorities);
        let wanted = old.outbox.take_wanted_room();
        self.session.outbox.set_wanted_room(wanted);
        self.session.manual = old.manual;
        self.session.set_number(old.number);
        if let Some(incarnation) = old.remote {
            self.history.ended(incarnation, old.epoch);
        }
        if old.suspended_by().is_some() {
            shared.on_suspension(self.node);
        }
        self.closing = Closing::Open;
        self.accepted = None;
        let was_lost = self.life.link() == LinkState::Lost;
        let is_gone = self.life.is_gone();
        self.life = self.life.for_next_session(now);
        if self.is_itself {
            self.life.hear(now);
        }
        let established = old.is_established();
        // The program was told that a peer is lost for which only layers had messages, or which
        // died before it ever talked.
        let was_told = was_lost && (is_gone || !old.outbox.is_empty());
        let (number, suspended_here) = (old.number, old.suspension.ours());
        let Remains {
            mut ended_session,
            replies,
            untaken,
            of_layers,
        } = ended_session(old, ending, &mut shared.memory);
        self.end_calls(number, replies, ended_session.reason, shared);
        self.end_groups(&mut ended_session, untaken, &mut shared.memory);
        if established || was_told || !ended_session.outcomes.is_empty() {
            self.end_layers(number, of_layers, ended_session.reason, shared);
            shared.log.add(now, || LogRecord::Ended {
                peer: self.node,
                session: number,
                reason: ended_session.reason,
                undelivered: ended_session.failed,
            });
            self.session.set_number(number.next());
            self.change_events(&mut shared.notices, |events| events.end(ended_session));
        } else {
            shared.memory.release(ended_session.promise);
            if suspended_here {
                // The program gets no other event for the end of a session that never began.
                let (node, by) = (self.node, Side::Here);
                self.push_event(Event::Resumed { node, by }, &mut shared.notices);
            }
        }
        self.report_room(&mut shared.notices);
    }

    /// Ends the session because the peer broke the protocol, and tells the peer why.
    pub(crate) fn fail(
        &mut self,
        now: Instant,
        error: suci_link::types::ProtocolError,
        shared: &mut Shared,
    ) {
        shared.counters.protocol_errors += 1;
        if self.lingering.is_some() {
            // The connection's session is over, and another may have begun.
            self.drop_connection(shared);
            return;
        }
        self.send_final_close(close_code(&error), shared);
        self.end(now, EndReason::Protocol(error), shared);
    }
}

/// The remains of a session. The program gets the messages that had arrived, the reason of the end,
/// and one outcome for each message of its own. Calls and layers get the other messages.
struct Remains {
    ended_session: EndedSession,
    replies: Vec<Message>,
    untaken: VecDeque<Message>,
    of_layers: VecDeque<Message>,
}

/// Returns the next message at any port.
fn of_any_port(inbox: &mut Inbox) -> Option<(Port, Message)> {
    let mut ports = Port::ALL.into_iter();
    ports.find_map(|port| Some((port, inbox.pop_for(port)?)))
}

fn ended_session(mut old: Session, ending: Ending, memory: &mut MemoryShares) -> Remains {
    let held = old.inbox.memory_used();
    old.inbox.set_large_budget(0);
    old.inbox.take_back();
    let (mut messages, mut replies) = (VecDeque::new(), Vec::new());
    let (mut untaken, mut of_layers) = (VecDeque::new(), VecDeque::new());
    loop {
        // A message may come before a reply on its channel, or the reverse.
        if let Some(message) = old.inbox.pop() {
            messages.push_back(message);
        } else if let Some(reply) = old.inbox.pop_reply() {
            replies.push(reply);
        } else if let Some(message) = old.inbox.pop_of_any_group() {
            untaken.push_back(message);
        } else if let Some((port, message)) = of_any_port(&mut old.inbox) {
            match port {
                Port::Active => untaken.push_back(message),
                Port::Remote | Port::Membership | Port::Sockets | Port::Matching => {
                    of_layers.push_back(message);
                }
                // Its sender repeats what it carries.
                Port::Forwarded => {}
            }
        } else {
            break;
        }
    }
    let held = held.saturating_sub(old.inbox.memory_used());
    let reason = match ending {
        Ending::For(reason) => reason,
        Ending::ByPeer { sent } => match old.inbox.missing_of(sent) {
            0 => EndReason::Closed,
            missing => EndReason::CutShort { missing },
        },
    };
    let mut outcomes = old.outbox.end();
    // Nothing of the program's depends on these.
    outcomes.retain(|ended| !ended.channel.is_internal());
    for ended in &mut outcomes {
        ended.outcome = planted_outcome(ended.outcome, reason);
    }
    let mut promise = old.promise;
    memory.end(&mut promise, held);
    if messages.is_empty() && untaken.is_empty() {
        memory.release(core::mem::take(&mut promise));
    }
    let ended_session = EndedSession {
        session: old.number,
        sessions: 1,
        messages,
        held,
        promise,
        reason,
        failed: undelivered(&outcomes),
        heard: false,
        outcomes,
    };
    Remains {
        ended_session,
        replies,
        untaken,
        of_layers,
    }
}

/// Returns `outcome`, or with the planted fault `outcome-wrong-after-restart` reports a message
/// that may have arrived as not delivered.
fn planted_outcome(outcome: Outcome, reason: EndReason) -> Outcome {
    if planted("outcome-wrong-after-restart")
        && (reason, outcome) == (EndReason::Restarted, Outcome::Unknown)
    {
        return Outcome::NotDelivered;
    }
    outcome
}
