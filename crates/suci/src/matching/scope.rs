//! Receives into borrowed memory.
//!
//! A receive writes into its buffer while the program runs on, so the buffer's borrow must last as
//! long as the receive does, even if the program forgets the value that stands for it. A scope
//! makes sure of that, as `std::thread::scope` does for threads: at its end it withdraws what is
//! left.

use super::host::MatchingState;
use super::{
    Matched, MatchingError, MatchingNode, MessageId, Pattern, ReceiveId, await_completion,
};
use crate::error::Error;
use crate::lent::{LentBytes, Loan};
use crate::node::Node;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::matching::{Buffer, Matching as Queues};
use suci_layers::remote::Memory;
use suci_proto::types::NodeId;

/// The receives of one call of [`Matching::scope`](super::Matching::scope).
pub struct MatchingScope<'a, 'env, N = Node> {
    node: &'a N,
    state: Arc<MatchingState>,
    /// The memory of each receive.
    loans: RefCell<Vec<(ReceiveId, Arc<LentBytes>)>>,
    /// The lifetime of the buffers may become neither shorter nor longer, as for threads.
    env: PhantomData<&'env mut &'env ()>,
}

impl<N> std::fmt::Debug for MatchingScope<'_, '_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MatchingScope").finish_non_exhaustive()
    }
}

/// A receive that was posted. Dropping it withdraws it.
#[must_use = "wait for it; dropping it withdraws the receive"]
pub struct Posted<'env> {
    loan: Option<Loan<'env>>,
    receive: ReceiveId,
    /// The node whose messages alone it admits.
    from: Option<NodeId>,
    state: Arc<MatchingState>,
    /// Its completion was taken.
    is_over: bool,
}

impl std::fmt::Debug for Posted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Posted")
            .field("receive", &self.receive)
            .finish_non_exhaustive()
    }
}

impl<'env> Posted<'env> {
    /// Withdraws the receive, unless it is over, and returns its buffer.
    #[must_use]
    pub fn into_buffer(mut self) -> &'env mut [u8] {
        self.withdraw();
        let loan = self.loan.take();
        loan.map_or_else(Default::default, Loan::end)
    }

    fn withdraw(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.state.abandon(self.receive);
        }
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        self.withdraw();
        // Nothing in the child of a fork uses the memory. The lock of the loan may be held for ever
        // there, by a thread that does not exist. Elsewhere dropping the loan ends it.
        if self.state.process.is_forked() {
            std::mem::forget(self.loan.take());
        }
    }
}

impl<'a, 'env, N: MatchingNode> MatchingScope<'a, 'env, N> {
    pub(super) fn new(node: &'a N) -> Self {
        Self {
            node,
            state: Arc::clone(node.state()),
            loans: RefCell::default(),
            env: PhantomData,
        }
    }

    /// Posts a receive: the next message that `pattern` admits comes into `buffer`, which is the
    /// program's again once the receive [is over](Self::wait), or dropped. Of a longer message the
    /// rest is discarded ([`Matched::total`]).
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Forked`]; [`Error::Io`].
    pub fn post(&self, pattern: Pattern, buffer: &'env mut [u8]) -> Result<Posted<'env>, Error> {
        self.begin(buffer, pattern.node(), |table, buffer| {
            Ok(table.post(pattern, buffer))
        })
    }

    /// Receives a message that was [claimed](super::Matching::claim).
    ///
    /// # Errors
    /// [`MatchingError::NoSuchMessage`]; as [`post`](Self::post).
    pub fn receive_claimed(
        &self,
        message: MessageId,
        buffer: &'env mut [u8],
    ) -> Result<Posted<'env>, MatchingError> {
        self.begin(buffer, None, |table, buffer| {
            Ok(table.receive_claimed(message, buffer)?)
        })
    }

    /// Blocks until the receive has its message, for at most `limit`; nothing if none came, or if
    /// its message was taken before.
    ///
    /// # Errors
    /// [`Error::Ended`]: it gets none. [`Error::Closed`]; [`Error::Woken`]; [`Error::Io`].
    pub fn wait(
        &self,
        posted: &mut Posted<'env>,
        limit: Duration,
    ) -> Result<Option<Matched>, Error> {
        if posted.is_over {
            return Ok(None);
        }
        let Some(completion) = await_completion(self.node, posted.receive, posted.from, limit)?
        else {
            return Ok(None);
        };
        posted.is_over = true;
        self.loans
            .borrow_mut()
            .retain(|(receive, _)| *receive != posted.receive);
        match completion.result {
            Ok(matched) => Ok(Some(matched)),
            Err(ended) => Err(Error::Ended {
                node: ended.node,
                reason: ended.reason,
            }),
        }
    }

    fn begin<E: From<Error>>(
        &self,
        buffer: &'env mut [u8],
        from: Option<NodeId>,
        begin: impl FnOnce(&mut Queues, Buffer) -> Result<ReceiveId, E>,
    ) -> Result<Posted<'env>, E> {
        self.node.check_open()?;
        let mut loan = Loan::new(buffer);
        let lent = loan.lend();
        let memory = Buffer::from(Arc::clone(&lent) as Arc<dyn Memory>);
        let receive = self.state.table.with(|table| begin(table, memory))?;
        self.loans.borrow_mut().push((receive, lent));
        let posted = Posted {
            loan: Some(loan),
            receive,
            from,
            state: Arc::clone(&self.state),
            is_over: false,
        };
        if self.state.table.wants_service() {
            self.node.serve()?;
        }
        Ok(posted)
    }
}

impl<N> Drop for MatchingScope<'_, '_, N> {
    fn drop(&mut self) {
        // Those are left whose values were forgotten, or outlive the scope.
        for (receive, lent) in self.loans.get_mut() {
            self.state.abandon(*receive);
            if !self.state.process.is_forked() {
                lent.withdraw();
            }
        }
    }
}
