//! The choice of messages that a program wants to receive next.

use suci_link::types::{ChannelId, NodeId};

/// A choice of messages to receive: of one peer, on one channel, or both.
///
/// A peer, a channel and a pair of both convert into a filter.
///
/// ```
/// use suci_proto::{Filter, types::{ChannelId, NodeId}};
/// let (node, channel) = (NodeId(3), ChannelId(7));
/// assert_eq!(Filter::from(node).on(channel), Filter::from((node, channel)));
/// assert!(Filter::from(channel).admits(node, channel));
/// assert!(!Filter::from(node).admits(NodeId(4), channel));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    node: Option<NodeId>,
    channel: Option<ChannelId>,
}

impl Filter {
    /// Returns the same, but on this channel only.
    #[must_use]
    pub const fn on(self, channel: ChannelId) -> Self {
        Self {
            node: self.node,
            channel: Some(channel),
        }
    }

    /// Returns the only peer whose messages it admits, if there is one.
    #[must_use]
    pub const fn node(self) -> Option<NodeId> {
        self.node
    }

    /// Returns the only channel whose messages it admits, if there is one.
    #[must_use]
    pub const fn channel(self) -> Option<ChannelId> {
        self.channel
    }

    /// Returns true if it admits a message of `node` on `channel`.
    #[must_use]
    pub fn admits(self, node: NodeId, channel: ChannelId) -> bool {
        self.node.is_none_or(|only| only == node) && self.channel.is_none_or(|only| only == channel)
    }
}

impl From<NodeId> for Filter {
    fn from(node: NodeId) -> Self {
        let node = Some(node);
        Self {
            node,
            channel: None,
        }
    }
}

impl From<ChannelId> for Filter {
    fn from(channel: ChannelId) -> Self {
        let channel = Some(channel);
        Self {
            node: None,
            channel,
        }
    }
}

impl From<(NodeId, ChannelId)> for Filter {
    fn from((node, channel): (NodeId, ChannelId)) -> Self {
        Self::from(node).on(channel)
    }
}
