//! Agreement after a failure, and the group of the members that are left.

use super::error::GroupError;
use super::host::GroupNode;
use super::pending::Pending;
use super::{Group, Waiting};
use std::sync::Arc;
use suci_layers::Knowledge;
use suci_layers::group::{Finished, GroupWork, ShrinkStep, Shrinking};
use suci_proto::types::NodeId;

/// The result of an agreement of the members that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The bits that the values of all of them have in common. The value of a member that failed
    /// during the agreement counts for all of them or for none.
    pub value: u64,
    /// The members that failed, by their ranks. The list is the same at all that are left.
    pub failed: Vec<NodeId>,
}

impl Group {
    /// Agrees with all members that are left on a value, the bitwise and of their values, and on
    /// the list of those that failed, as MPI's `MPI_Comm_agree`. All that are left call it, also
    /// after an operation failed, and even if more of them fail meanwhile: then it takes another
    /// round of messages, and ends well all the same.
    ///
    /// Blocks until all have begun it or failed. A member that died is noticed as in any operation.
    /// Members that agree count a failed one as failed for ever, even if it was only silent: that
    /// one gets [`GroupError::Excluded`], and takes part in nothing more. If the network falls into
    /// parts that cannot reach each other, each part goes on by itself.
    ///
    /// # Errors
    /// [`GroupError::Excluded`]. After [`GroupError::TimedOut`], [`GroupError::Woken`] and
    /// [`GroupError::Node`] this member is out: the others go on without it, though they may count
    /// it as there in the agreement that it gave up.
    pub fn agree(&mut self, node: &mut impl GroupNode, value: u64) -> Result<Agreed, GroupError> {
        self.begin_agree(node, value)?.wait(node)
    }

    /// Begins [`agree`](Self::agree).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_agree(
        &mut self,
        node: &mut impl GroupNode,
        value: u64,
    ) -> Result<Pending<Agreed>, GroupError> {
        let members = self.members().to_vec();
        Ok(self.exchange(node, value, 0)?.map(move |known| Agreed {
            value: known.value,
            failed: named(&members, &known),
        }))
    }

    /// Makes a group of the members that are left, in the order of their ranks, as MPI's
    /// `MPI_Comm_shrink`. All of them call it; it blocks as [`agree`](Self::agree). The new group
    /// has the same members at all of them, and a number that no other group has. This group is
    /// over then: dropping it is all that is left to do.
    ///
    /// More members may die at any time, so the first operation of the new group may fail: shrink
    /// that again.
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    pub fn shrink(&mut self, node: &mut impl GroupNode) -> Result<Self, GroupError> {
        let mut shrinking = Shrinking::default();
        let mut step = shrinking.begin(node.last_shrunk());
        loop {
            match step {
                ShrinkStep::Agree(value, number) => {
                    let known = self.exchange(node, value, number)?.wait(node)?;
                    step = shrinking.next(known, node.last_shrunk());
                }
                ShrinkStep::Done(known, number) => {
                    let left = self.state.without(&known, number, Waiting::default());
                    node.serve_group(&self.state)?;
                    return Ok(Self {
                        state: Arc::new(left),
                        limit: self.limit,
                    });
                }
                ShrinkStep::NoNumber => {
                    return self.refuse("its node has shrunk too many groups".to_owned());
                }
            }
        }
    }

    /// Begins an agreement.
    fn exchange(
        &self,
        node: &mut impl GroupNode,
        value: u64,
        number: u32,
    ) -> Result<Pending<Knowledge>, GroupError> {
        let work = self.state.agreement(value, number);
        let work = work.map_err(|failure| self.error(failure))?;
        let pending = self.start(node, GroupWork::Agreement(work))?;
        Ok(pending.map(|finished| match finished {
            Finished::Agreed(known) => known,
            Finished::Data(_) => Knowledge::default(),
        }))
    }
}

fn named(members: &[NodeId], known: &Knowledge) -> Vec<NodeId> {
    let ranks = known.failed.iter();
    ranks
        .filter_map(|rank| members.get(*rank).copied())
        .collect()
}
