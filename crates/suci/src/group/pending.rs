//! Operations under way.

use super::error::GroupError;
use super::host::{GroupHost, GroupNode, GroupState};
use crate::clock::Deadline;
use crate::error::Error;
use crate::shared::SharedNode;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::group::Finished;
use suci_proto::types::NodeId;

/// A member that keeps this one waiting for longer is watched: it counts as lost if it is silent.
/// Most waits are shorter, and cost nothing.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// An operation of a group that was begun and goes on by itself, whenever something arrives for it:
/// on a [`Node`](crate::Node) in each call of the program that reads the socket, and in the helper;
/// on a [`SharedNode`](crate::SharedNode) in its threads. It keeps a copy of the data.
///
/// A group has one operation at a time. Dropping this value drops the result; the operation still
/// ends by itself, since other members need this one's part.
#[must_use = "wait for it"]
pub struct Pending<R> {
    claim: Claim,
    /// The end of its time, and how long that was.
    deadline: Deadline,
    limit: Duration,
    watch_at: Deadline,
    finish: Box<dyn FnOnce(Finished) -> R + Send>,
}

/// The program's claim to the result.
struct Claim(Arc<GroupState>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<R> std::fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("group", &self.claim.0.number())
            .finish_non_exhaustive()
    }
}

impl Pending<Finished> {
    pub(super) fn new(group: Arc<GroupState>, limit: Duration) -> Self {
        Self {
            claim: Claim(group),
            deadline: Deadline::after(limit),
            limit,
            watch_at: Deadline::after(WATCH_AFTER),
            finish: Box::new(|finished| finished),
        }
    }
}

impl<R: 'static> Pending<R> {
    pub(super) fn map<S>(self, then: impl FnOnce(R) -> S + Send + 'static) -> Pending<S> {
        let Self {
            claim,
            deadline,
            limit,
            watch_at,
            finish,
        } = self;
        Pending {
            claim,
            deadline,
            limit,
            watch_at,
            finish: Box::new(|finished| then(finish(finished))),
        }
    }

    /// Carries the operation on without waiting. Returns true if it is over, well or not:
    /// [`wait`](Self::wait) then returns at once.
    ///
    /// # Errors
    /// [`Error`](crate::Error), if the node's own call failed.
    pub fn test(&mut self, node: &mut impl GroupNode) -> Result<bool, GroupError> {
        self.check_node(node.node_id())?;
        node.turn()?;
        let group = &self.claim.0;
        if group.is_settled() {
            return Ok(true);
        }
        if self.deadline.is_over() {
            self.give_up(node, self.timed_out());
        } else if self.watch_at.is_over() && self.claim.0.watch() {
            node.serve_group(&self.claim.0)?;
        }
        Ok(self.claim.0.is_settled())
    }

    /// Blocks until the operation is over, and returns its result.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn wait(self, node: &mut impl GroupNode) -> Result<R, GroupError> {
        self.check_node(node.node_id())?;
        if let Err(error) = self.settle(node) {
            self.give_up(node, error);
        }
        self.take()
    }

    /// As [`wait`](Self::wait), for tasks. It does not end by the group's
    /// [limit](super::Group::set_limit): use that of the runtime. If the future is dropped before,
    /// the result is dropped, as by dropping this value.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn wait_async(self, node: &SharedNode) -> Result<R, GroupError> {
        self.check_node(node.id())?;
        let mut handle = node.clone();
        let group = &self.claim.0;
        if !group.is_settled() {
            // There is no timer to do so later.
            let served = match group.watch() {
                true => handle.serve_group(group),
                false => Ok(()),
            };
            let settled = match served {
                Ok(()) => node.settled(group).await,
                failed => failed,
            };
            if let Err(error) = self.result(settled) {
                self.give_up(&mut handle, error);
            }
        }
        self.take()
    }

    fn check_node(&self, node: NodeId) -> Result<(), GroupError> {
        let group = &self.claim.0;
        let checked = group.check_node(node);
        checked.map_err(|failure| GroupError::of(group.number(), failure))
    }

    fn take(self) -> Result<R, GroupError> {
        let group = &self.claim.0;
        match group.take_result() {
            Some(Ok(result)) => Ok((self.finish)(result)),
            Some(Err(failure)) => Err(GroupError::of(group.number(), failure)),
            None => Err(GroupError::Argument {
                group: group.number(),
                problem: "the operation has no result any more".to_owned(),
            }),
        }
    }

    fn settle(&self, node: &mut impl GroupNode) -> Result<(), GroupError> {
        let group = &self.claim.0;
        let soon = self.deadline.earlier(self.watch_at);
        if self.result(node.await_group(group, soon))? {
            return Ok(());
        }
        if !self.deadline.is_over() {
            if group.watch() {
                node.serve_group(group)?;
            }
            if self.result(node.await_group(group, self.deadline))? {
                return Ok(());
            }
        }
        Err(self.timed_out())
    }

    fn result<T>(&self, result: Result<T, Error>) -> Result<T, GroupError> {
        result.map_err(|error| match error {
            Error::Woken => GroupError::Woken {
                group: self.claim.0.number(),
            },
            error => error.into(),
        })
    }

    fn timed_out(&self) -> GroupError {
        GroupError::TimedOut {
            group: self.claim.0.number(),
            limit: self.limit,
        }
    }

    /// The operation fails at all members.
    fn give_up(&self, node: &mut impl GroupNode, error: GroupError) {
        self.claim.0.give_up(error);
        // If the node's call fails again, others hear of it by the end of the session.
        let _ = node.serve_group(&self.claim.0);
    }
}
