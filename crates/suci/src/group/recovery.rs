//! Agreement after a failure, and the group of the members that are left.

use super::error::GroupError;
use super::host::GroupNode;
use super::pending::Pending;
use super::{Group, Waiting};
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
    /// All members that get a result, and are still there, get the same.
    ///
    /// Members that are dead for certain are left out: their process ended on this machine or, as
    /// `suci run` reports, on another; or it closed its node, or started anew. Members that are
    /// only silent for their `silence_timeout` may be alive, and cut off. They are left out only if
    /// the others are more than half of the members that the last agreement left, or half with the
    /// lowest rank. So of the parts of a divided network at most one goes on. The members of other
    /// parts get [`GroupError::CutOff`], and a member that the others left out gets
    /// [`GroupError::Excluded`]: both take part in nothing more.
    /// [`let_parts_go_on`](Self::let_parts_go_on) changes that.
    ///
    /// # Errors
    /// [`GroupError::CutOff`], [`GroupError::Excluded`]. After [`GroupError::TimedOut`],
    /// [`GroupError::Woken`] and [`GroupError::Node`] this member is out: the others go on without
    /// it. If their agreement still counts it in, their next operation fails.
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
        let number = self.state.number();
        let (mut shrinking, mut step) = Shrinking::begin(number, node.shrunk_numbers());
        loop {
            match step {
                ShrinkStep::Agree(value, number) => {
                    let known = self.exchange(node, value, number)?.wait(node)?;
                    step = shrinking.next(known, node.shrunk_numbers());
                }
                ShrinkStep::Done(known, number) => {
                    let left = self.state.without(&known, number, Waiting::default());
                    node.serve_group(&self.state)?;
                    return Ok(Self {
                        state: left,
                        limit: self.limit,
                    });
                }
                ShrinkStep::NoNumber => {
                    return self.refuse("its node has shrunk too many groups".to_owned());
                }
            }
        }
    }

    /// Lets each part of a divided network go on by itself from the next [`agree`](Self::agree) or
    /// [`shrink`](Self::shrink) on, also in the groups that this one becomes: silent members count
    /// as dead. By default at most one part goes on. All members must set the same.
    ///
    /// This is for programs that do no harm if several groups go on, and of which one process must
    /// do so even alone. Members may then get different results, and several groups the same
    /// number: never let nodes of two parts meet in a group again.
    pub fn let_parts_go_on(&mut self, parts_go_on: bool) {
        self.state.let_parts_go_on(parts_go_on);
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
