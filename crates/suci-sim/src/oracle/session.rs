//! Promise 4: a program hears of sessions in their order. After the end of a session it hears
//! nothing more of that one, and before it nothing of the next.

use suci_proto::types::{NodeId, SessionNumber};

use super::{Kind, Oracle, Verdict, broken};
use crate::packet::ProcId;

/// The sessions with one node that a program heard of.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Sessions below this number ended.
    first: SessionNumber,
    /// The session that the program heard of or got a message of, and whose end it has not heard.
    present: Option<SessionNumber>,
}

impl Oracle {
    /// Notes that a program gets a message of this session, or an event that it is up.
    pub(super) fn in_session(
        &mut self,
        process: ProcId,
        node: NodeId,
        session: SessionNumber,
    ) -> Verdict {
        let told = self.sessions.entry((process, node.0)).or_default();
        if session >= told.first && told.present.is_none_or(|present| present == session) {
            told.present = Some(session);
            return Ok(());
        }
        let text = format!("process {process}: session {session} with node {node} after {told:?}");
        broken(Kind::OldSession, text)
    }

    /// Returns true if a program heard of a session with a node, and not of its end.
    pub(super) fn is_in_session(&self, process: ProcId, node: NodeId) -> bool {
        let told = self.sessions.get(&(process, node.0));
        told.is_some_and(|told| told.present.is_some())
    }

    /// Checks the reported end of this session, and of those just before it without an event:
    /// `sessions` in all.
    pub(super) fn end_of_session(
        &mut self,
        process: ProcId,
        node: NodeId,
        session: SessionNumber,
        sessions: u32,
    ) -> Verdict {
        let first = SessionNumber((session.0 + 1).saturating_sub(sessions));
        let told = self.sessions.entry((process, node.0)).or_default();
        let after = core::mem::take(told);
        told.first = session.next();
        let expected = after.present.unwrap_or(after.first);
        if first == expected && sessions > 0 {
            self.leave_out(process, node.0, sessions);
            return Ok(());
        }
        let text =
            format!("process {process}: session {session} with node {node} ended after {after:?}");
        broken(Kind::Events, text)
    }

    /// If several sessions ended together, outcomes that were not asked for may be left out.
    fn leave_out(&mut self, process: ProcId, node: u32, sessions: u32) {
        if sessions < 2 {
            return;
        }
        for token in self.open.get(&(process, node)).cloned().unwrap_or_default() {
            if let Some(record) = self.record_mut(token)
                && !record.spec.notify
            {
                record.untold = true;
            }
        }
    }
}
