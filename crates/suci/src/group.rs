//! Groups of nodes and their collective operations.

mod begin;
mod error;
mod host;
mod pending;
mod recovery;

use crate::error::Error;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::group::{Failure, Purpose, SHRUNK};
use suci_layers::{Collective, LONGEST_MESSAGE, elements_of};
use suci_proto::MemberState;
use suci_proto::limits::MAX_GROUP_MESSAGE;
use suci_proto::types::{NodeId, SessionNumber};

pub use error::GroupError;
pub use host::GroupNode;
pub use pending::Pending;
pub use recovery::Agreed;
pub use suci_layers::group::MemberFailure;
pub use suci_layers::{
    BitAnd, BitOr, BitXor, Custom, Element, Kind as Operation, Max, Min, Operation as Combination,
    Product, Sum,
};

pub(crate) use host::{GroupHost, GroupState, ServedGroups, Waiting, has_room};
pub(crate) use suci_layers::group::Carrier;

const _: () = assert!(
    LONGEST_MESSAGE <= MAX_GROUP_MESSAGE,
    "the engine refuses longer ones"
);

/// Some nodes, in an order that all of them know, and the operations in which they take part.
///
/// Each member makes the group for itself, with the same number and members, and then calls the
/// same operations in the same order; other work may come in between. A member is named by its
/// *rank*, its place in the list. An operation returns once this member has its result, which may
/// be before others have theirs; after a [`barrier`](Group::barrier) all have begun it. Messages of
/// groups wait apart from the program's, and take part in the node's limits of memory.
///
/// Each operation blocks, or is [begun](Group::begin_barrier) and [waited for](Pending::wait)
/// later; one at a time for each group. Events and messages for the program wait meanwhile. Buffers
/// hold numbers ([`Element`]) and go little-endian, so members may run on different kinds of
/// machines. A [`SharedNode`](crate::SharedNode) takes part with any handle, also a fresh clone.
///
/// Members compare the root, the length and the combination of their calls with each message. Where
/// they differ, the operation fails with an error that says so; if members only wait for each
/// other, after a second.
///
/// If a member dies, the operation fails at all others with an error that names it: at once if its
/// death is known, else after the peers' `silence_timeout`, counted from a second after a member
/// began to wait for it. Then only [`agree`](Group::agree) and [`shrink`](Group::shrink) are of
/// use, which give the others a new group. A group ends with this value; nothing is sent for that.
///
/// ```
/// # use std::time::Duration;
/// # use suci::{Node, NodeId};
/// use suci::group::{Group, Sum};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut node = Node::builder().id(NodeId(0)).open()?;
/// # let members = [NodeId(0)];
/// let mut group = Group::new(&node, 1, &members)?;
/// let mut heat = [1.5, 2.5];
/// group.allreduce(&mut node, &mut heat, Sum)?;
/// group.barrier(&mut node)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Group {
    state: Arc<GroupState>,
    limit: Duration,
}

impl Group {
    /// Makes a group of `members`, of which `node` is one. `number`, below 2,097,152, tells groups
    /// apart that have members in common; all members name the same. A number may be used again
    /// after a group whose last operation succeeded at all members, and never after one that
    /// failed.
    ///
    /// # Errors
    /// [`GroupError::Argument`]: the node is no member, a member occurs twice, or the number is too
    /// large or that of a failed group. [`Error::UnknownPeer`]: a member is not in the book.
    pub fn new(node: &impl GroupNode, number: u32, members: &[NodeId]) -> Result<Self, GroupError> {
        let refuse = |problem: String| {
            Err(GroupError::Argument {
                group: number,
                problem,
            })
        };
        if number >= SHRUNK {
            return refuse(format!("take a number below {SHRUNK}"));
        }
        let mut distinct = BTreeSet::new();
        if let Some(twice) = members.iter().find(|member| !distinct.insert(**member)) {
            return refuse(format!("node {twice} is in the list twice: name it once"));
        }
        let own = node.node_id();
        let Some(rank) = members.iter().position(|member| *member == own) else {
            return refuse(format!("node {own}, this one, is not in the list: add it"));
        };
        let failures = Purpose::Failures.channel(number);
        let (states, is_over) = node.member_states(members, failures)?;
        if is_over {
            return refuse("a group of this number failed here: take another number".to_owned());
        }
        let session = |(member, state): (&NodeId, Option<MemberState>)| match state {
            Some(state) if state.known => Ok(state.session),
            _ if *member == own => Ok(SessionNumber::default()),
            _ => Err(Error::UnknownPeer(*member)),
        };
        let sessions = members.iter().zip(states).map(session);
        let sessions = sessions.collect::<Result<_, _>>()?;
        let (members, host) = (members.to_vec(), Waiting::default());
        let state = GroupState::new(number, members, sessions, (rank, own), host);
        Ok(Self {
            state: Arc::new(state),
            limit: Duration::MAX,
        })
    }

    /// This member's rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.state.place().rank
    }

    /// The number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.state.place().size
    }

    /// The members, in the order of their ranks.
    #[must_use]
    pub fn members(&self) -> &[NodeId] {
        self.state.members()
    }

    /// Bounds the time that each later operation may take here; by default there is no bound. An
    /// operation that takes longer fails at all members, and the group is of no use then.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Blocks until all members have begun it.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn barrier(&mut self, node: &mut impl GroupNode) -> Result<(), GroupError> {
        self.begin_barrier(node)?.wait(node)
    }

    /// Copies the data of the member `root` to all others. All name the same root and length.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn broadcast<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &mut [T],
    ) -> Result<(), GroupError> {
        let work = self.broadcast_of(root, data)?;
        self.run_in_place(node, work, data)
    }

    /// Combines the elements at equal places of all members' data. The member `root` gets the
    /// result in its data; those of others stay as they are. All have the same length.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn reduce<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let work = self.reduction_of(root, data, operation)?;
        match self.rank() == root {
            true => self.run_in_place(node, work, data),
            false => self.run(node, work).map(drop),
        }
    }

    /// Combines the elements at equal places of all members' data, which have the same length. All
    /// get the same result, to the last bit.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn allreduce<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let work = self.combination_of(data, operation, Collective::allreduce);
        self.run_in_place(node, work, data)
    }

    /// Gives each member the combination of the data of all members up to itself.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn scan<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let work = self.combination_of(data, operation, Collective::scan);
        self.run_in_place(node, work, data)
    }

    /// Gives each member the combination of the data of all members before it. Those of member 0
    /// stay as they are.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn exclusive_scan<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let work = self.combination_of(data, operation, Collective::exclusive_scan);
        self.run_in_place(node, work, data)
    }

    /// Collects the data of all members, which have the same length, at the member `root`: in the
    /// order of their ranks. Returns an empty list at the others.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn gather<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_gather(node, root, data)?.wait(node)
    }

    /// As [`gather`](Self::gather) of data of different lengths: `lengths` has that of each member,
    /// in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn gatherv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_gatherv(node, root, data, lengths)?.wait(node)
    }

    /// Gives each member its part of the data of the member `root`: parts of the same length, in
    /// the order of the ranks. The data of the others do not matter. `length` is that of a part.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn scatter<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
        length: usize,
    ) -> Result<Vec<T>, GroupError> {
        self.begin_scatter(node, root, data, length)?.wait(node)
    }

    /// As [`scatter`](Self::scatter) of parts of different lengths: `lengths` has that of each
    /// member, in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn scatterv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_scatterv(node, root, data, lengths)?.wait(node)
    }

    /// Collects the data of all members, which have the same length, at each of them: in the order
    /// of their ranks.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn allgather<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_allgather(node, data)?.wait(node)
    }

    /// As [`allgather`](Self::allgather) of data of different lengths: `lengths` has that of each
    /// member, in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn allgatherv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_allgatherv(node, data, lengths)?.wait(node)
    }

    /// Sends the i-th part of the data to member i, and returns what the others sent to this one,
    /// in the order of their ranks. All parts of all members have the same length.
    ///
    /// # Errors
    /// [`GroupError`]: the length is no multiple of the number of members.
    pub fn all_to_all<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_all_to_all(node, data)?.wait(node)
    }

    /// As [`all_to_all`](Self::all_to_all) of parts of different lengths: `sent` has the length of
    /// the part for each member, `received` that of the part from each, in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn all_to_allv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
        sent: &[usize],
        received: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        self.begin_all_to_allv(node, data, sent, received)?
            .wait(node)
    }

    /// Runs an operation that replaces the data by its result.
    fn run_in_place<T: Element>(
        &self,
        node: &mut impl GroupNode,
        work: Collective,
        data: &mut [T],
    ) -> Result<(), GroupError> {
        elements_of(&self.run(node, work)?, data);
        Ok(())
    }

    /// Returns the error of a call that makes no sense.
    fn refuse<T>(&self, problem: String) -> Result<T, GroupError> {
        Err(self.error(Failure::Argument(problem)))
    }

    fn error(&self, failure: Failure<GroupError>) -> GroupError {
        GroupError::of(self.state.number(), failure)
    }

    fn run(&self, node: &mut impl GroupNode, work: Collective) -> Result<Vec<u8>, GroupError> {
        self.start_collective(node, work)?.wait(node)
    }
}
