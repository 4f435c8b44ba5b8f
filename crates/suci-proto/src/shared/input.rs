//! The input of layers at their ports.

use crate::event::{EndReason, LostCause};
use suci_channels::message::Message;
use suci_link::types::{ChannelId, NodeId, SessionNumber, Source};

/// The input of a layer, in order for each peer. Ports that
/// [hear of peers](crate::Port::hears_of_peers) have all of it, others have messages only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortInput {
    /// A message.
    Message(Source, Message),
    /// A message of a session that is over: no answer can reach it.
    Last(Source, Message),
    /// The receiver refused a message, or does not permit this node the layer.
    Refused {
        /// The receiver.
        node: NodeId,
        /// The channel.
        channel: ChannelId,
        /// The message's token.
        token: u64,
        /// The receiver's reason, or [`NOT_PERMITTED`](crate::NOT_PERMITTED).
        reason: u64,
    },
    /// The peer answers, for the first time or again.
    Up(NodeId),
    /// The peer does not answer.
    Lost(NodeId, LostCause),
    /// No process has the peer's UDP port at any of its addresses: this machine's kernel reports
    /// it, or the network does and a few questions stayed unanswered. The peer may start later.
    NoProcess(NodeId),
    /// No way leads to any of the peer's addresses: the network reports it of each, and a few
    /// questions stayed unanswered.
    NoWay(NodeId),
    /// The session is over. All its messages came before.
    Ended(NodeId, SessionNumber, EndReason),
}

/// A change of the cluster's members ([`Engine::report_member`](crate::Engine::report_member)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A node joined.
    Joined,
    /// A member left.
    Left,
    /// A member failed.
    Failed,
}
