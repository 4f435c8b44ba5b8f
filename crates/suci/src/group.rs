//! Groups of nodes and their collective operations.

use crate::error::Error;
use crate::node::Node;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;
use suci_layers::{Collective, Combine, LONGEST_MESSAGE, Place, Unexpected, bytes_of, elements_of};
use suci_proto::limits::MAX_GROUP_MESSAGE;
use suci_proto::types::{ChannelId, Kind, NodeId, SessionNumber};
use suci_proto::{EndReason, Engine, Link, LostCause, Outgoing};

pub use suci_layers::{
    BitAnd, BitOr, BitXor, Custom, Element, Kind as Operation, Max, Min, Operation as Combination,
    Product, Sum,
};

/// A member that failed, and its failure.
pub(crate) type FailedMember = (NodeId, MemberFailure);

const _: () = assert!(
    LONGEST_MESSAGE <= MAX_GROUP_MESSAGE,
    "the engine refuses longer ones"
);

/// The number of groups that two nodes may have in common.
const GROUPS: u32 = 1 << 23;

/// Why a collective operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The node's own call failed. If an operation had begun, it failed at all members, and the
    /// group is of no use.
    #[error(transparent)]
    Node(#[from] Error),
    /// The operation took longer than the [limit](Group::set_limit). It failed at all members.
    #[error(
        "group {group}: an operation took longer than {limit:?} and failed at all members: make a new group, with more time"
    )]
    TimedOut {
        /// The group's number.
        group: u32,
        /// The limit.
        limit: Duration,
    },
    /// A [`Waker`](crate::Waker) ended the operation. It failed at all members.
    #[error(
        "group {group}: a waker ended an operation, which failed at all members: make a new group"
    )]
    Woken {
        /// The group's number.
        group: u32,
    },
    /// The list of members or an argument makes no sense.
    #[error("group {group}: {problem}")]
    Argument {
        /// The group's number.
        group: u32,
        /// The fault and the remedy.
        problem: String,
    },
    /// A member cannot take part any more. So the group's operations fail at all others, too, and
    /// each later one fails in the same way.
    #[error("group {group}: node {node} failed in the operation {operation}: {failure}")]
    Member {
        /// The group's number.
        group: u32,
        /// The member.
        node: NodeId,
        /// The operation in which this member noticed it.
        operation: Operation,
        /// Its failure.
        failure: MemberFailure,
    },
}

/// The failure of a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberFailure {
    /// It does not answer, or its process died.
    #[error("it is lost ({0:?}); make a group of the others to go on without it")]
    Lost(LostCause),
    /// The session with it ended before it had sent everything.
    #[error("its session ended ({0:?}); make a group of the others to go on without it")]
    Ended(EndReason),
    /// It began another operation, so that the calls of the members differ.
    #[error(
        "it is at another operation, {} (number {number} of the group); all members must call the same ones in the same order",
        .operation.map_or("an unknown one".to_owned(), |operation| operation.to_string())
    )]
    Other {
        /// The number of its operation, from 1.
        number: u64,
        /// Its operation, if this library knows it.
        operation: Option<Operation>,
    },
    /// This node suspended the session with it.
    #[error("this node suspended the session with it; resume it, and make a new group")]
    Suspended,
    /// Its buffer has another length.
    #[error(
        "a message of it has {came} bytes instead of {awaited}; all members must name the same lengths and roots"
    )]
    Length {
        /// Bytes of its message.
        came: usize,
        /// Bytes that this member's arguments demand.
        awaited: usize,
    },
    /// Another member noticed that it failed, or that its calls differ.
    #[error("as node {0} reports; its error says why")]
    Reported(NodeId),
    /// Its own call failed, for example because its time was over.
    #[error("it gave up; its own error says why")]
    GaveUp,
}

/// Some nodes, in an order that all of them know, and the operations in which they take part.
///
/// Each member makes the group for itself, with the same number and members, and then calls the
/// same operations in the same order; other work may come in between. A member is named by its
/// *rank*, its place in the list. An operation returns once this member has its result, which may
/// be before others have theirs; after a [`barrier`](Group::barrier) all have begun it. Messages of
/// groups wait apart from the program's, and take part in the node's limits of memory.
///
/// Operations block. Events and messages for the program wait meanwhile. Buffers hold numbers
/// ([`Element`]) and go little-endian, so members may run on different kinds of machines.
///
/// If a member dies, the operation fails at all others with an error that names it: at once if its
/// death is known, else after the peers' `silence_timeout`, counted from a second after a member
/// began to wait for it. The group is of no use then. A group ends with this value; nothing is sent
/// for that.
///
/// ```
/// # use std::time::Duration;
/// # use suci::{AddressBook, Node, NodeId};
/// use suci::group::{Group, Sum};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut node = Node::builder().id(NodeId(0)).book(AddressBook::new()).open()?;
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
    number: u32,
    members: Vec<NodeId>,
    /// The session with each member, or the one that will be the first.
    sessions: Vec<SessionNumber>,
    place: Place,
    /// Operations that were begun.
    begun: u64,
    limit: Duration,
    /// The earliest failure that others reported: in the operation of this number, of a member.
    reported: Option<(u64, NodeId, MemberFailure)>,
    /// The member that failed, in which operation, and why.
    failed: Option<(NodeId, Operation, MemberFailure)>,
}

impl Group {
    /// Makes a group of `members`, of which `node` is one. `number`, below 8,388,608, tells groups
    /// apart that have members in common; all members name the same. A number may be used again
    /// after a group whose last operation succeeded at all members, and never after one that
    /// failed.
    ///
    /// # Errors
    /// [`GroupError::Argument`]: the node is no member, a member occurs twice, or the number is too
    /// large or that of a failed group. [`Error::UnknownPeer`]: a member is not in the book.
    pub fn new(node: &Node, number: u32, members: &[NodeId]) -> Result<Self, GroupError> {
        let refuse = |problem: String| {
            Err(GroupError::Argument {
                group: number,
                problem,
            })
        };
        if number >= GROUPS {
            return refuse(format!("take a number below {GROUPS}"));
        }
        let mut distinct = BTreeSet::new();
        if let Some(twice) = members.iter().find(|member| !distinct.insert(**member)) {
            return refuse(format!("node {twice} is in the list twice: name it once"));
        }
        let own = node.id();
        let Some(rank) = members.iter().position(|member| *member == own) else {
            return refuse(format!("node {own}, this one, is not in the list: add it"));
        };
        let driver = node.enter_open()?;
        if driver.engine.is_group_over(ChannelId::of_group(number * 2)) {
            return refuse("a group of this number failed here: take another number".to_owned());
        }
        let session = |member: &NodeId| match driver.engine.member_state(*member) {
            Some(state) if state.known => Ok(state.session),
            _ if *member == own => Ok(SessionNumber::default()),
            _ => Err(Error::UnknownPeer(*member)),
        };
        let sessions = members.iter().map(session).collect::<Result<_, _>>()?;
        let size = members.len();
        Ok(Self {
            number,
            members: members.to_vec(),
            sessions,
            place: Place { rank, size },
            begun: 0,
            limit: Duration::MAX,
            reported: None,
            failed: None,
        })
    }

    /// This member's rank, from 0.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.place.rank
    }

    /// The number of members.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.place.size
    }

    /// The members, in the order of their ranks.
    #[must_use]
    pub fn members(&self) -> &[NodeId] {
        &self.members
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
    pub fn barrier(&mut self, node: &mut Node) -> Result<(), GroupError> {
        self.run(node, Collective::barrier(self.place)).map(drop)
    }

    /// Copies the data of the member `root` to all others. All name the same root and length.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn broadcast<T: Element>(
        &mut self,
        node: &mut Node,
        root: usize,
        data: &mut [T],
    ) -> Result<(), GroupError> {
        self.check_root(root)?;
        let work = Collective::broadcast(self.place, root, bytes_of(data));
        let result = self.run(node, work)?;
        elements_of(&result, data);
        Ok(())
    }

    /// Combines the elements at equal places of all members' data. The member `root` gets the
    /// result in its data; those of others stay as they are. All have the same length.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn reduce<T: Element>(
        &mut self,
        node: &mut Node,
        root: usize,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        self.check_root(root)?;
        let combine = Combine::new::<T, _>(operation);
        let work = Collective::reduce(self.place, root, bytes_of(data), combine);
        let result = self.run(node, work)?;
        if self.place.rank == root {
            elements_of(&result, data);
        }
        Ok(())
    }

    /// Combines the elements at equal places of all members' data, which have the same length. All
    /// get the same result, to the last bit.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn allreduce<T: Element>(
        &mut self,
        node: &mut Node,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let combine = Combine::new::<T, _>(operation);
        let work = Collective::allreduce(self.place, bytes_of(data), combine);
        elements_of(&self.run(node, work)?, data);
        Ok(())
    }

    /// Gives each member the combination of the data of all members up to itself.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn scan<T: Element>(
        &mut self,
        node: &mut Node,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let combine = Combine::new::<T, _>(operation);
        let work = Collective::scan(self.place, bytes_of(data), combine);
        elements_of(&self.run(node, work)?, data);
        Ok(())
    }

    /// Gives each member the combination of the data of all members before it. Those of member 0
    /// stay as they are.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn exclusive_scan<T: Element>(
        &mut self,
        node: &mut Node,
        data: &mut [T],
        operation: impl Combination<T>,
    ) -> Result<(), GroupError> {
        let combine = Combine::new::<T, _>(operation);
        let work = Collective::exclusive_scan(self.place, bytes_of(data), combine);
        elements_of(&self.run(node, work)?, data);
        Ok(())
    }

    /// Collects the data of all members, which have the same length, at the member `root`: in the
    /// order of their ranks. Returns an empty list at the others.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn gather<T: Element>(
        &mut self,
        node: &mut Node,
        root: usize,
        data: &[T],
    ) -> Result<Vec<T>, GroupError> {
        self.gatherv(node, root, data, &vec![data.len(); self.place.size])
    }

    /// As [`gather`](Self::gather) of data of different lengths: `lengths` has that of each member,
    /// in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn gatherv<T: Element>(
        &mut self,
        node: &mut Node,
        root: usize,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        self.check_root(root)?;
        let lengths = self.bytes_each::<T>(lengths)?;
        self.check_length::<T>(data, lengths.get(self.place.rank))?;
        let work = Collective::gather(self.place, root, &lengths, bytes_of(data));
        let result = self.run(node, work)?;
        Ok(match self.place.rank == root {
            true => list_of(&result),
            false => Vec::new(),
        })
    }

    /// Gives each member its part of the data of the member `root`: parts of the same length, in
    /// the order of the ranks. The data of the others do not matter. `length` is that of a part.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn scatter<T: Element>(
        &mut self,
        node: &mut Node,
        root: usize,
        data: &[T],
        length: usize,
    ) -> Result<Vec<T>, GroupError> {
        self.scatterv(node, root, data, &vec![length; self.place.size])
    }

    /// As [`scatter`](Self::scatter) of parts of different lengths: `lengths` has that of each
    /// member, in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn scatterv<T: Element>(
        &mut self,
        node: &mut Node,
        root: usize,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        self.check_root(root)?;
        let lengths = self.bytes_each::<T>(lengths)?;
        let all = match self.place.rank == root {
            true => data,
            false => &[],
        };
        if self.place.rank == root {
            self.check_length::<T>(all, Some(&lengths.iter().sum()))?;
        }
        let work = Collective::scatter(self.place, root, &lengths, bytes_of(all));
        let result = self.run(node, work)?;
        let before: usize = lengths.iter().take(root).sum();
        let own = lengths.get(root).copied().unwrap_or_default();
        Ok(match self.place.rank == root {
            true => list_of(result.get(before..before + own).unwrap_or_default()),
            false => list_of(&result),
        })
    }

    /// Collects the data of all members, which have the same length, at each of them: in the order
    /// of their ranks.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn allgather<T: Element>(
        &mut self,
        node: &mut Node,
        data: &[T],
    ) -> Result<Vec<T>, GroupError> {
        self.allgatherv(node, data, &vec![data.len(); self.place.size])
    }

    /// As [`allgather`](Self::allgather) of data of different lengths: `lengths` has that of each
    /// member, in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn allgatherv<T: Element>(
        &mut self,
        node: &mut Node,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        let lengths = self.bytes_each::<T>(lengths)?;
        self.check_length::<T>(data, lengths.get(self.place.rank))?;
        let work = Collective::allgather(self.place, &lengths, &bytes_of(data));
        Ok(list_of(&self.run(node, work)?))
    }

    /// Sends the i-th part of the data to member i, and returns what the others sent to this one,
    /// in the order of their ranks. All parts of all members have the same length.
    ///
    /// # Errors
    /// [`GroupError`]: the length is no multiple of the number of members.
    pub fn all_to_all<T: Element>(
        &mut self,
        node: &mut Node,
        data: &[T],
    ) -> Result<Vec<T>, GroupError> {
        let size = self.place.size;
        if !data.len().is_multiple_of(size) {
            let length = data.len();
            return self.refuse(format!(
                "{length} elements do not part evenly among {size} members: name the lengths (all_to_allv)"
            ));
        }
        let lengths = vec![data.len() / size; size];
        self.all_to_allv(node, data, &lengths, &lengths)
    }

    /// As [`all_to_all`](Self::all_to_all) of parts of different lengths: `sent` has the length of
    /// the part for each member, `received` that of the part from each, in elements.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn all_to_allv<T: Element>(
        &mut self,
        node: &mut Node,
        data: &[T],
        sent: &[usize],
        received: &[usize],
    ) -> Result<Vec<T>, GroupError> {
        let sent = self.bytes_each::<T>(sent)?;
        let received = self.bytes_each::<T>(received)?;
        self.check_length::<T>(data, Some(&sent.iter().sum()))?;
        let own = self.place.rank;
        if sent.get(own) != received.get(own) {
            return self.refuse(
                "this member sends itself another length than it receives: name one".to_owned(),
            );
        }
        let work = Collective::all_to_all(self.place, &sent, &received, &bytes_of(data));
        Ok(list_of(&self.run(node, work)?))
    }

    fn run(&mut self, node: &mut Node, work: Collective) -> Result<Vec<u8>, GroupError> {
        node.run_collective(self, work)
    }

    fn refuse<T>(&self, problem: String) -> Result<T, GroupError> {
        Err(GroupError::Argument {
            group: self.number,
            problem,
        })
    }

    fn check_root(&self, root: usize) -> Result<(), GroupError> {
        let size = self.place.size;
        match root < size {
            true => Ok(()),
            false => self.refuse(format!(
                "root {root} is no rank of {size} members: name one from 0 to {}",
                size - 1
            )),
        }
    }

    /// Returns the lengths in bytes; there must be one for each member.
    fn bytes_each<T: Element>(&self, lengths: &[usize]) -> Result<Vec<usize>, GroupError> {
        let (given, size) = (lengths.len(), self.place.size);
        if given != size {
            return self.refuse(format!("{given} lengths for {size} members: name one each"));
        }
        let bytes = lengths.iter().map(|length| length.checked_mul(T::SIZE));
        let bytes: Option<Vec<_>> = bytes.collect();
        let total = |bytes: &Vec<usize>| {
            let mut sum = bytes.iter();
            sum.try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes))
                .is_some()
        };
        match bytes.filter(total) {
            Some(bytes) => Ok(bytes),
            None => self.refuse("the lengths are more than memory can hold: name less".to_owned()),
        }
    }

    fn check_length<T: Element>(
        &self,
        data: &[T],
        bytes: Option<&usize>,
    ) -> Result<(), GroupError> {
        let (length, wanted) = (data.len(), bytes.map_or(0, |bytes| bytes / T::SIZE));
        match length == wanted {
            true => Ok(()),
            false => self.refuse(format!(
                "the data have {length} elements and the lengths say {wanted}: make them equal"
            )),
        }
    }

    // ---- for the node that runs an operation

    /// Begins an operation, or fails as an earlier one did.
    pub(crate) fn begin(&mut self, node: NodeId) -> Result<Duration, GroupError> {
        if self.member(self.place.rank) != Some(node) {
            return self.refuse(format!(
                "node {node} did not make it: use it with the node that it was made for"
            ));
        }
        self.begun += 1;
        match self.failed {
            Some(failed) => Err(self.error(failed)),
            None => Ok(self.limit),
        }
    }

    /// The error of an operation that this member gave up.
    pub(crate) fn gave_up(&self, error: Error) -> GroupError {
        let group = self.number;
        match error {
            Error::TimedOut { limit, .. } => GroupError::TimedOut { group, limit },
            Error::Woken => GroupError::Woken { group },
            error => error.into(),
        }
    }

    fn error(&self, failed: (NodeId, Operation, MemberFailure)) -> GroupError {
        let (node, operation, failure) = failed;
        GroupError::Member {
            group: self.number,
            node,
            operation,
            failure,
        }
    }

    /// The node ID of a member.
    pub(crate) fn member(&self, rank: usize) -> Option<NodeId> {
        self.members.get(rank).copied()
    }

    /// The channel of data.
    pub(crate) fn data_channel(&self) -> ChannelId {
        ChannelId::of_group(self.number * 2)
    }

    /// The channel on which members tell of a failed one.
    fn failure_channel(&self) -> ChannelId {
        ChannelId::of_group(self.number * 2 + 1)
    }

    /// Both of its channels.
    pub(crate) fn channels(&self) -> [ChannelId; 2] {
        [self.data_channel(), self.failure_channel()]
    }

    /// Makes a message of the operation that goes on.
    pub(crate) fn message(&self, operation: Operation, bytes: &[u8]) -> Outgoing {
        debug_assert!(bytes.len() <= LONGEST_MESSAGE);
        let payload = Bytes::copy_from_slice(bytes);
        outgoing(self.data_channel(), self.tag(operation), payload)
    }

    /// Names the operation that goes on.
    fn tag(&self, operation: Operation) -> u64 {
        (self.begun << 8) | u64::from(operation as u8)
    }

    /// Takes messages that have come for the operation. Returns nothing if none has; fails if a
    /// member did.
    pub(crate) fn take(
        &mut self,
        engine: &mut Engine,
        work: &mut Collective,
    ) -> Option<Result<(), FailedMember>> {
        if let Err(failed) = self.check_reports(engine) {
            return Some(Err(failed));
        }
        let awaited: BTreeSet<_> = work.awaited().collect();
        let mut any = false;
        for rank in awaited {
            let Some(node) = self.member(rank) else {
                continue;
            };
            match self.take_from(engine, work, rank, node) {
                Ok(took) => any |= took,
                Err(failure) => return Some(Err((node, failure))),
            }
        }
        any.then_some(Ok(()))
    }

    /// Takes what has come from one member. Fails if nothing has, and nothing will.
    fn take_from(
        &self,
        engine: &mut Engine,
        work: &mut Collective,
        rank: usize,
        node: NodeId,
    ) -> Result<bool, MemberFailure> {
        let mut any = false;
        let session = self.sessions.get(rank).copied().unwrap_or_default();
        while work.awaited().any(|other| other == rank) {
            let Some((came_in, message)) = engine.recv_of_group(node, self.data_channel()) else {
                break;
            };
            if came_in != session {
                return Err(MemberFailure::Ended(EndReason::Restarted));
            }
            if message.tag != self.tag(work.kind()) {
                let kind = u8::try_from(message.tag & 0xff).ok();
                return Err(MemberFailure::Other {
                    number: message.tag >> 8,
                    operation: kind.and_then(Operation::from_number),
                });
            }
            match work.on_message(rank, &message.payload) {
                Ok(()) => any = true,
                Err(Unexpected::Length { came, awaited }) => {
                    return Err(MemberFailure::Length { came, awaited });
                }
                Err(Unexpected::NotAwaited) => break,
            }
        }
        match any {
            true => Ok(true),
            false => self.check_member(engine, rank).map(|()| false),
        }
    }

    /// Checks that a member can still take part.
    pub(crate) fn check_member(&self, engine: &Engine, rank: usize) -> Result<(), MemberFailure> {
        let session = self.sessions.get(rank).copied().unwrap_or_default();
        let state = self.member(rank).and_then(|node| engine.member_state(node));
        match state {
            Some(state) if state.session != session => {
                let reason = state.last_end.unwrap_or(EndReason::Restarted);
                Err(MemberFailure::Ended(reason))
            }
            Some(state) if state.suspended_here => Err(MemberFailure::Suspended),
            Some(state) if state.link == Link::Lost => Err(MemberFailure::Lost(state.cause)),
            _ => Ok(()),
        }
    }

    /// Takes the reports of members that another one, or they themselves, failed.
    ///
    /// # Errors
    /// The failure, unless it happened in a later operation than this one: the member still did its
    /// part of this one.
    pub(crate) fn check_reports(&mut self, engine: &mut Engine) -> Result<(), FailedMember> {
        if engine.has_group_message() {
            self.take_reports(engine);
        }
        match self.reported {
            Some((begun, about, failure)) if begun <= self.begun => Err((about, failure)),
            _ => Ok(()),
        }
    }

    fn take_reports(&mut self, engine: &mut Engine) {
        let channel = self.failure_channel();
        for (node, session) in self.members.iter().zip(&self.sessions) {
            let Some((came_in, message)) = engine.recv_of_group(*node, channel) else {
                continue;
            };
            let about = u32::try_from(message.tag).map(NodeId);
            let begun = message.payload.as_ref().try_into().map(u64::from_le_bytes);
            if let (true, Ok(about), Ok(begun)) = (came_in == *session, about, begun)
                && self.reported.is_none_or(|(earlier, ..)| begun < earlier)
            {
                let failure = match about == *node {
                    true => MemberFailure::GaveUp,
                    false => MemberFailure::Reported(*node),
                };
                self.reported = Some((begun, about, failure));
            }
        }
    }

    /// Notes that a member failed. Returns the error for the program, and the reports for all
    /// others that are still there.
    pub(crate) fn fail(
        &mut self,
        engine: &Engine,
        (node, failure): FailedMember,
        operation: Operation,
    ) -> (GroupError, Vec<(NodeId, Outgoing)>) {
        let failed = (node, operation, failure);
        self.failed = Some(failed);
        let begun = Bytes::copy_from_slice(&self.begun.to_le_bytes());
        let others = (0..self.place.size).filter(|rank| *rank != self.place.rank);
        let reports = others.filter_map(|rank| {
            // A message to one that has ended or died would wait for its next process. One that is
            // only silent may come back, and must not wait for this member then.
            let to = self.member(rank)?;
            let link = engine.member_state(to).map(|state| state.link);
            let gone = match self.check_member(engine, rank) {
                Err(MemberFailure::Ended(_) | MemberFailure::Lost(LostCause::ProcessDied)) => true,
                _ => to == node && link == Some(Link::Idle),
            };
            let report = outgoing(self.failure_channel(), node.0.into(), begun.clone());
            (!gone).then_some((to, report))
        });
        (self.error(failed), reports.collect())
    }
}

fn outgoing(channel: ChannelId, tag: u64, payload: Bytes) -> Outgoing {
    Outgoing {
        channel,
        tag,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload,
        notify: false,
        token: 0,
        deadline: None,
    }
}

fn list_of<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::read).collect()
}
