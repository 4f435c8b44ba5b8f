//! The calls of an engine that have no reply yet.

use crate::event::EndReason;
use std::collections::{BTreeMap, VecDeque};
use suci_channels::message::{Completion, Message};
use suci_link::types::{ChannelId, MessageNumber, NodeId, Source};

/// Names a call of a node. Each gets another number, the first a random one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Why a call ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The session in which the request was sent ended.
    Ended(EndReason),
    /// The peer's process died, before the call or during it, as this machine's kernel or the
    /// launcher says ([`LostCause::ProcessDied`](crate::LostCause::ProcessDied)).
    Died,
    /// The receiving program refused the request, for this reason.
    Refused(u64),
    /// The reply is longer than [`Config::max_message`](crate::Config::max_message): it was
    /// refused.
    TooLong {
        /// Bytes of the reply.
        length: u64,
    },
}

/// The result of a call: the reply and its source, or the reason why there is none.
pub type CallResult = Result<(Source, Message), CallError>;

/// A request without a reply so far.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) node: NodeId,
    pub(crate) channel: ChannelId,
    pub(crate) number: MessageNumber,
}

/// The calls of an engine that have no reply yet, and those that ended without one.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) open: BTreeMap<CallId, OpenCall>,
    /// Results of calls that the driver did not take yet: at most one entry for each call that it
    /// made.
    pub(crate) done: VecDeque<(CallId, CallResult)>,
}

impl Calls {
    /// Ends the call that `message` from `node` replies to. Returns `None` if no such call is open:
    /// the reply is late.
    pub(crate) fn answered(&mut self, node: NodeId, message: &Message) -> Option<CallId> {
        let id = CallId(message.tag);
        let open = self.open.get(&id)?;
        if open.node != node || open.channel.replies() != message.channel {
            return None;
        }
        self.open.remove(&id);
        Some(id)
    }

    /// Ends the calls of the session `of`, which ended after these last replies arrived. Returns
    /// how many of the replies were late.
    pub(crate) fn end(
        &mut self,
        of: Source,
        reason: EndReason,
        replies: impl Iterator<Item = Message>,
    ) -> u64 {
        let (node, mut late) = (of.node, 0);
        for message in replies {
            match self.answered(node, &message) {
                Some(id) => self.done.push_back((id, Ok((of, message)))),
                None => late += 1,
            }
        }
        self.end_all(node, CallError::Ended(reason));
        late
    }

    /// Ends all calls to `node`, whose process died.
    pub(crate) fn died(&mut self, node: NodeId) {
        self.end_all(node, CallError::Died);
    }

    fn end_all(&mut self, node: NodeId, error: CallError) {
        let of_node = |_: &CallId, open: &mut OpenCall| open.node == node;
        let ended = self.open.extract_if(.., of_node);
        self.done.extend(ended.map(|(id, _)| (id, Err(error))));
    }

    /// Ends the call whose request the receiver refused. Returns whether there is one.
    pub(crate) fn refused(&mut self, node: NodeId, done: &Completion, reason: u64) -> bool {
        let id = CallId(done.token);
        let is_this = |open: &OpenCall| {
            (open.node, open.channel, open.number) == (node, done.channel, done.number)
        };
        self.fail(id, CallError::Refused(reason), is_this)
    }

    /// Ends the call to which the peer wants to send a reply of `length` bytes, which is too long.
    /// Returns whether there is one.
    pub(crate) fn too_long(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        tag: u64,
        length: u64,
    ) -> bool {
        let is_this = |open: &OpenCall| (open.node, open.channel.replies()) == (node, channel);
        self.fail(CallId(tag), CallError::TooLong { length }, is_this)
    }

    fn fail(&mut self, id: CallId, error: CallError, is_this: impl Fn(&OpenCall) -> bool) -> bool {
        if !self.open.get(&id).is_some_and(is_this) {
            return false;
        }
        self.open.remove(&id);
        self.done.push_back((id, Err(error)));
        true
    }
}
