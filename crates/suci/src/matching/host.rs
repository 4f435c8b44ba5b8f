//! The verbs for matching that both kinds of node have.

use crate::clock::Deadline;
use crate::error::Error;
use crate::fork::OriginalProcess;
use crate::message::OutgoingMessage;
use crate::shared::Sleepers;
use std::sync::Arc;
use suci_layers::matching::{Matching as Queues, MatchingTable, ReceiveId};
use suci_proto::types::NodeId;

/// The receives of a node, and the threads that wait for them.
#[derive(Debug)]
pub struct MatchingState {
    pub(crate) table: Arc<MatchingTable>,
    pub(crate) process: OriginalProcess,
    waiters: Sleepers<AwaitedMatch>,
}

/// The thing that a thread waits for.
#[derive(Clone, Copy, Debug)]
pub enum AwaitedMatch {
    /// The completion of a receive.
    Completion(ReceiveId),
    /// The completion of any receive.
    AnyCompletion,
    /// A message.
    Message,
}

impl MatchingState {
    /// No receives, of a node that was opened in this process.
    pub(crate) fn new(process: OriginalProcess) -> Self {
        Self {
            table: Arc::default(),
            process,
            waiters: Sleepers::new(),
        }
    }

    /// Withdraws a receive that nobody waits for any more. Does nothing in the child of a fork: a
    /// thread may hold the lock for ever that does not exist there.
    pub(crate) fn abandon(&self, receive: ReceiveId) {
        if !self.process.is_forked() {
            self.table.with(|table| table.abandon(receive));
        }
    }

    /// Wakes the threads that may go on. Call it after the layer was served.
    pub(crate) fn wake(&self) {
        self.waiters.wake_those(|awaited| match awaited {
            AwaitedMatch::Completion(receive) => self
                .table
                .with(|table| table.is_complete(receive) || !table.is_open(receive)),
            AwaitedMatch::AnyCompletion => self.table.with(|table| table.has_completion()),
            AwaitedMatch::Message => true,
        });
    }

    /// The threads that wait.
    pub(crate) const fn waiters(&self) -> &Sleepers<AwaitedMatch> {
        &self.waiters
    }
}

/// A node that matches messages with receives: a [`Node`](crate::Node) or a
/// [`SharedNode`](crate::SharedNode).
pub trait MatchingNode: MatchingHost {}

impl<N: MatchingHost> MatchingNode for N {}

/// The verbs that matching needs of its node.
pub trait MatchingHost {
    /// The receives.
    fn state(&self) -> &Arc<MatchingState>;

    /// Returns the error of a call that needs an open node, if the node is not open.
    fn check_open(&self) -> Result<(), Error>;

    /// Sends a message, whose channel is one of matching.
    fn send_matched(&self, to: NodeId, message: OutgoingMessage) -> Result<(), Error>;

    /// Has announced messages answered.
    fn serve(&self) -> Result<(), Error>;

    /// Takes what has arrived, if that is not done without the program.
    fn turn(&self) -> Result<(), Error>;

    /// Waits until `take` returns something, which `awaited` describes. Returns nothing if
    /// `deadline` comes first.
    fn await_match<T>(
        &self,
        awaited: AwaitedMatch,
        deadline: Deadline,
        take: impl FnMut(&mut Queues) -> Option<T>,
    ) -> Result<Option<T>, Error>;

    /// Notes that a wait for messages of a node began or, if it is not `awaited` any more, ended. A
    /// node that is awaited counts as lost if it is silent.
    fn watch(&self, node: NodeId, awaited: bool) -> Result<(), Error>;
}
