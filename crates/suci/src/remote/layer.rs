//! The state of one-sided operations that a driver and its engine share.

use crate::error::Error;
use std::collections::BTreeMap;
use suci_layers::remote::{
    BeginError, Body, Completion, Description, Initiator, MAX_OPERATIONS, OperationError,
    OperationId, PlaceDecision, Placement, Regions, Target,
};
use suci_proto::message::IncomingInfo;
use suci_proto::types::NodeId;
use suci_proto::{LentMemory, Message, Place, ReceiveBuffer};

/// The result of an operation.
pub(crate) type Outcome = Result<Option<u64>, OperationError>;

/// One-sided operations of one shard: those of others at this node's regions, and the program's at
/// regions of others.
#[derive(Debug)]
pub(crate) struct RemoteLayer {
    pub(crate) target: Target,
    pub(crate) initiator: Initiator,
    /// Results that the program did not take.
    done: BTreeMap<OperationId, Outcome>,
}

impl RemoteLayer {
    pub(crate) fn new(regions: Regions) -> Self {
        Self {
            target: Target::new(regions),
            initiator: Initiator::new(),
            done: BTreeMap::new(),
        }
    }

    /// Decides where the bytes of a message of this layer go.
    pub(crate) fn place(&mut self, from: NodeId, message: &IncomingInfo) -> Place {
        let description = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: message.total,
        };
        let decision = match message.channel.carries_remote() {
            true => self.target.place(from, &description),
            false => self.initiator.place(from, &description),
        };
        match decision {
            PlaceDecision::Direct(placement) => {
                Place::Named(ReceiveBuffer::lent(LentPlacement(placement)))
            }
            PlaceDecision::AfterEarlier => Place::Later,
            PlaceDecision::Buffer => Place::Own,
        }
    }

    /// Handles a message of this layer; `is_last` if its session is over.
    pub(crate) fn on_message(&mut self, from: NodeId, message: &Message, is_last: bool) {
        let payload = &message.payload;
        let (total, body) = match payload.placed() {
            Some(total) => (total, Body::Placed),
            None => (payload.len() as u64, Body::Bytes(payload)),
        };
        let description = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total,
        };
        match (message.channel.carries_remote(), is_last) {
            (true, false) => self.target.on_request(from, &description, body),
            (true, true) => self.target.on_last_request(&description, body),
            (false, _) => self.initiator.on_reply(from, &description, body),
        }
    }

    /// Returns an error if the program left as many results as there may be.
    pub(crate) fn check_results(&mut self) -> Result<(), BeginError> {
        self.collect();
        match self.done.len() < MAX_OPERATIONS {
            true => Ok(()),
            false => Err(BeginError::TooManyOperations),
        }
    }

    /// Takes the result of an operation, if it is complete.
    pub(crate) fn take(&mut self, operation: OperationId) -> Option<Outcome> {
        self.collect();
        self.done.remove(&operation)
    }

    fn collect(&mut self) {
        let initiator = &mut self.initiator;
        let complete = std::iter::from_fn(|| initiator.poll_completion());
        let complete = complete.map(|Completion { operation, result }| (operation, result));
        self.done.extend(complete);
    }
}

/// The place of a message's bytes in memory that this layer named.
struct LentPlacement(Placement);

impl LentMemory for LentPlacement {
    fn length(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        // Memory that was withdrawn gets no byte more; the request then fails.
        self.0.write(at as u64, bytes);
    }

    fn read(&self, _: usize, _: &mut [u8]) {
        debug_assert!(false, "messages of this layer are not taken back");
    }
}

/// Why one-sided operations on a node cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteFailure {
    /// The node's own call failed.
    #[error(transparent)]
    Node(#[from] Error),
    /// The operation was not begun.
    #[error(transparent)]
    NotBegun(#[from] BeginError),
    /// The operation failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// This node suspended the session with the target.
    #[error("this node suspended the session with node {0}: resume it first")]
    Suspended(NodeId),
    /// The operation is neither open nor waits to be taken.
    #[error("the result of the operation was taken before: wait for it once")]
    Taken,
}
