//! Suspension: which side holds a session back, that nothing is accepted meanwhile, and that
//! nothing flows once the sending process knows.

use suci_proto::Side;
use suci_proto::types::NodeId;

use super::{Kind, Oracle, Verdict, broken};
use crate::packet::{Carried, ProcId};

/// The sides that suspended a session, as one of its processes was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    here: bool,
    there: bool,
}

impl Held {
    fn any(self) -> bool {
        self.here || self.there
    }
}

impl Oracle {
    /// Notes that the program of `process` suspends its session with `node`.
    pub fn suspends(&mut self, process: ProcId, node: u32) {
        if let Some(own) = self.node_of(process) {
            self.suspended.insert((own, node));
        }
    }

    /// Checks a `Suspended` or `Resumed` event.
    pub(super) fn suspension(
        &mut self,
        process: ProcId,
        node: NodeId,
        by: Side,
        now: bool,
    ) -> Verdict {
        let held = self.held.entry((process, node.0)).or_default();
        let side = match by {
            Side::Here => &mut held.here,
            Side::There => &mut held.there,
        };
        let changed = core::mem::replace(side, now) != now;
        let own = self.node_of(process).unwrap_or_default();
        let pair = match by {
            Side::Here => (own, node.0),
            Side::There => (node.0, own),
        };
        if changed && self.suspended.contains(&pair) {
            return Ok(());
        }
        let text = format!("process {process}: {by:?} with node {node} suspended: {now}, no news");
        broken(Kind::Suspended, text)
    }

    /// Notes that the session of `process` with `node` is over, and so is its suspension.
    pub(super) fn suspension_ended(&mut self, process: ProcId, node: u32) {
        self.held.remove(&(process, node));
    }

    /// Checks an accepted message. If it begins a channel, it may begin a session, too, of which
    /// the program hears only after it took the messages of the one before.
    ///
    /// # Errors
    /// The process knows that the session is suspended.
    pub fn check_accepted(&mut self, process: ProcId, node: u32, number: u64) -> Verdict {
        if number == 0 {
            self.suspension_ended(process, node);
        }
        self.check_held(process, node, "accepts a message")
    }

    /// Checks a packet with these parts that leaves `process` for `node`.
    ///
    /// # Errors
    /// The process knows that the session is suspended.
    pub fn check_flow(&self, process: ProcId, node: u32, carries: &[Carried]) -> Verdict {
        if carries.is_empty() {
            return Ok(());
        }
        self.check_held(process, node, "sends parts of messages")
    }

    fn check_held(&self, process: ProcId, node: u32, what: &str) -> Verdict {
        let held = self.held.get(&(process, node)).copied().unwrap_or_default();
        if !held.any() {
            return Ok(());
        }
        let text = format!("process {process} {what} to node {node}: {held:?}");
        broken(Kind::Suspended, text)
    }
}
