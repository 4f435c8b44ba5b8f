//! Matching on a shared node. All threads have one table: a receive may admit messages of any node.

use super::SharedNode;
use super::inner::Inner;
use super::shard::Command;
use super::sleepers::Registration;
use crate::clock::Deadline;
use crate::error::Error;
use crate::matching::{AwaitedMatch, Matching, MatchingHost, MatchingState};
use crate::message::OutgoingMessage;
use std::sync::Arc;
use std::task::{Context, Poll};
use suci_layers::matching::Matching as Queues;
use suci_proto::types::NodeId;

impl SharedNode {
    /// The program's receives, which take messages by tag and source, and messages for those of
    /// other nodes. Several threads may use it at the same time.
    #[must_use]
    pub fn matching(&self) -> Matching<'_, Self> {
        Matching::new(self)
    }
}

impl Inner {
    /// Polls `take` under the lock of the receives until it returns something.
    fn polling_matches<T>(
        &self,
        awaited: AwaitedMatch,
        mut take: impl FnMut(&mut Queues) -> Option<T>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<T, Error>> {
        let matched = &self.fixed.matched;
        let mut registration = Registration::wanting(matched.waiters(), awaited);
        let mut ending = self.ending();
        move |cx| {
            let taken = registration.poll(cx, || match matched.table.with(&mut take) {
                Some(taken) => Poll::Ready(Ok(taken)),
                None => Poll::Pending,
            });
            match taken {
                Poll::Pending => ending(cx).map(Err),
                ready => ready,
            }
        }
    }
}

impl MatchingHost for SharedNode {
    fn state(&self) -> &Arc<MatchingState> {
        &self.inner.fixed.matched
    }

    fn check_open(&self) -> Result<(), Error> {
        self.inner.check_open()
    }

    fn send_matched(&self, to: NodeId, message: OutgoingMessage) -> Result<(), Error> {
        let sent = self
            .inner
            .enqueue(to, message.into_outgoing(), |_| (None, ()));
        sent.map_err(|error| self.inner.want_room(error))
    }

    fn serve(&self) -> Result<(), Error> {
        for shard in self.inner.shards.iter() {
            let serve = Command::run(|worker| {
                worker.driver.read_clock();
                worker.driver.serve_matching();
            });
            self.inner.wait_for(self.inner.pushing(shard, serve))??;
        }
        Ok(())
    }

    fn turn(&self) -> Result<(), Error> {
        self.inner.check_open()
    }

    fn await_match<T>(
        &self,
        awaited: AwaitedMatch,
        deadline: Deadline,
        take: impl FnMut(&mut Queues) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let polling = self.inner.polling_matches(awaited, take);
        self.inner.wait_until(deadline, polling)?.transpose()
    }

    fn watch(&self, node: NodeId, awaited: bool) -> Result<(), Error> {
        let (shard, watch) = (self.inner.shard_of(node), Inner::watching(node, awaited));
        self.inner.wait_for(self.inner.pushing(shard, watch))?
    }
}
