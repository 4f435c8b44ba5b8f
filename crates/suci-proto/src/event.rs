//! Events that the engine reports to the program.

use bytes::Bytes;
use core::fmt;
use suci_channels::message::{CANCELLED, EXPIRED, Outcome};
use suci_link::types::{
    ChannelId, Kind, Layer, MessageNumber, NodeId, ProtocolError, SessionNumber,
};
use suci_link::wire::RefusedCode;

/// In [`Event::NotDelivered`], stands for the number of a message that this side accepted but did
/// not send, and that has no number. A node served by threads learns only after accepting it that
/// the session is closing, or has too many channels.
pub const UNNUMBERED: MessageNumber = MessageNumber::MAX;

/// An event for the program. Messages are returned by [`crate::Engine::recv`].
// Steps to a new event: its bound while nobody takes it (F04: `session_events.rs`, and the table in
// `peer/event_queue.rs`); the oracle (`suci-sim/src/oracle/sender.rs`); the front page of
// `suci/src/lib.rs`; C (`suci-capi/src/event.rs`, `suci.h`, `man/suci_next.3`); Python
// (`bindings/python/src/event.rs`, and four places in `_events.py`); Prolog (`c/events.c`,
// `prolog/suci.pl`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer answers: at first contact, and again after `Lost` or `Quiet`.
    Up {
        /// The peer.
        node: NodeId,
        /// The present session with it.
        session: SessionNumber,
    },
    /// Nothing was heard from the peer for the silence timeout, whether it was ever reached or not.
    /// Completes nothing and is undone by `Up`. A peer that answers that it has no room is not
    /// lost: `Refused` reports that once.
    Lost {
        /// The peer.
        node: NodeId,
        /// The reason, as far as it is known.
        cause: LostCause,
    },
    /// As `Lost`, for a peer that announced `unattended` or that a launcher supervises: it is
    /// probably computing, starting or stopped, and is never given up.
    Quiet {
        /// The peer.
        node: NodeId,
    },
    /// A side suspended the session: no messages flow and none are accepted until it resumes. Ends
    /// with the session, too.
    Suspended {
        /// The peer.
        node: NodeId,
        /// The side that suspended it.
        by: Side,
    },
    /// The side that had suspended the session resumed it.
    Resumed {
        /// The peer.
        node: NodeId,
        /// The side that resumed it.
        by: Side,
    },
    /// The session is over: told after all its messages were received, and before the messages and
    /// events of the next one. It comes once per session to a program that takes its events;
    /// several untaken ends of sessions with one peer become one event.
    Ended {
        /// The peer.
        node: NodeId,
        /// The session that ended; the newest, if several ended.
        session: SessionNumber,
        /// How many sessions ended, 1 or more: untaken ends become one event.
        sessions: u32,
        /// The reason; of several, that of the newest session. If that one closed in order and
        /// messages of earlier ones are missing, it is [`EndReason::CutShort`] all the same.
        reason: EndReason,
        /// Exactly one outcome for every message that was outstanding. For several sessions: all
        /// outcomes of the first, and of the others those of messages that were sent with `notify`.
        outcomes: Vec<MessageOutcome>,
    },
    /// The peer's library holds this message entirely (only if it was sent with `notify`).
    Delivered {
        /// The peer.
        node: NodeId,
        /// The channel.
        channel: ChannelId,
        /// Its number.
        number: MessageNumber,
        /// The program's own handle.
        token: u64,
    },
    /// The receiving program refused the message, or this side did not send it (which may be
    /// [`UNNUMBERED`] then), or this side took it back before any part of it was sent (reported
    /// only if it was sent with `notify`).
    NotDelivered {
        /// The peer.
        node: NodeId,
        /// The channel.
        channel: ChannelId,
        /// Its number, or [`UNNUMBERED`].
        number: MessageNumber,
        /// The program's own handle.
        token: u64,
        /// The receiver's reason; [`CANCELLED`] or [`EXPIRED`] if this side took it back;
        /// [`NOT_PERMITTED`](crate::NOT_PERMITTED) or
        /// [`TOO_MANY_CHANNELS`](crate::TOO_MANY_CHANNELS) if the peer does not take it; 0 if the
        /// session was closing.
        reason: u64,
    },
    /// The send queue has room again for messages on channels of one class: for the smallest
    /// message that the program was told to send later
    /// ([`SendError::WouldBlock`](crate::SendError),
    /// [`Engine::want_room`](crate::Engine::want_room)). There is one event for all such messages.
    /// If the queue fills up before the program takes the event, the event is withdrawn and comes
    /// later; a node served by threads withdraws it only when the program gets
    /// [`SendError::WouldBlock`](crate::SendError) again. The event comes even if the program sent
    /// one of the messages meanwhile. If the end of the session made the room, it comes after the
    /// event of that end.
    Writable {
        /// The peer.
        node: NodeId,
        /// The class ([`Priority::class`](crate::Priority::class)).
        class: u8,
    },
    /// A message too long to be taken without a decision: answer with accept or refuse. Other
    /// channels go on.
    Incoming {
        /// The peer.
        node: NodeId,
        /// The channel.
        channel: ChannelId,
        /// Its number.
        number: MessageNumber,
        /// Its length in bytes.
        total: u64,
        /// Its tag.
        tag: u64,
        /// Its kind.
        kind: Kind,
        /// Its user header.
        user_header: Bytes,
    },
    /// The peer's program finished a channel, and all its messages were handed over: no more will
    /// come on it in this session. It is not reported after the session is over, which ends all
    /// channels.
    ChannelFinished {
        /// The peer.
        node: NodeId,
        /// The channel.
        channel: ChannelId,
    },
    /// The peer joined the cluster ([`Engine::report_member`](crate::Engine::report_member)).
    MemberJoined {
        /// The peer.
        node: NodeId,
    },
    /// The peer left the cluster. This may come after a [`MemberFailed`](Self::MemberFailed), when
    /// the end of its process was noticed before that it left.
    MemberLeft {
        /// The peer.
        node: NodeId,
    },
    /// The members of the cluster agree that the peer's process is dead. A peer that was only cut
    /// off may join again.
    MemberFailed {
        /// The peer.
        node: NodeId,
    },
    /// The peer refuses the connection (tried again every second or so until `give_up_after`) or a
    /// layer, or the route does not carry packets.
    Refused {
        /// The peer.
        node: NodeId,
        /// Why.
        reason: RefusedReason,
    },
}

impl Event {
    /// Returns the peer it is about.
    #[must_use]
    pub fn node(&self) -> NodeId {
        match *self {
            Self::Up { node, .. }
            | Self::Lost { node, .. }
            | Self::Quiet { node }
            | Self::Suspended { node, .. }
            | Self::Resumed { node, .. }
            | Self::Ended { node, .. }
            | Self::Delivered { node, .. }
            | Self::NotDelivered { node, .. }
            | Self::Writable { node, .. }
            | Self::Incoming { node, .. }
            | Self::ChannelFinished { node, .. }
            | Self::MemberJoined { node }
            | Self::MemberLeft { node }
            | Self::MemberFailed { node }
            | Self::Refused { node, .. } => node,
        }
    }

    /// Returns the messages that it reports as not, or not certainly, delivered.
    #[must_use]
    pub fn failures(&self) -> u64 {
        match self {
            // The program asked for that.
            Self::NotDelivered {
                reason: CANCELLED | EXPIRED,
                ..
            } => 0,
            Self::NotDelivered { .. } => 1,
            Self::Ended { outcomes, .. } => {
                let failed = |o: &&MessageOutcome| o.outcome != Outcome::Delivered;
                outcomes.iter().filter(failed).count() as u64
            }
            _ => 0,
        }
    }
}

/// The cause of a lost peer's silence: the newest report since it was last heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostCause {
    /// No answer came, and no report of a reason.
    NoAnswer,
    /// The system reported that packets to the peer's address cannot be delivered. Such a report
    /// may be forged, and it may concern an earlier process at that address.
    Unreachable(Unreachable),
    /// The process at the peer's address refused the handshake.
    Refused(RefusedReason),
    /// The peer's process has ended: it ran on this machine, whose kernel reports that its port is
    /// closed, or its launcher (`suci run`) reports it.
    ProcessDied,
}

/// Why the system could not deliver a datagram. Each value lists its POSIX errors and ICMP
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The host has no socket at that port (`ECONNREFUSED`; ICMP port unreachable).
    Port,
    /// The host does not answer its network (`EHOSTUNREACH`, `EHOSTDOWN`; ICMP host unreachable).
    Host,
    /// There is no route to that network (`ENETUNREACH`; ICMP network unreachable).
    Network,
    /// A firewall or policy forbids it (`EPERM`, `EACCES`; ICMP administratively prohibited).
    Prohibited,
    /// Any other error.
    Other,
}

/// An end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// This side.
    Here,
    /// The peer.
    There,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The peer closed in order: everything that it sent in this session was received.
    Closed,
    /// The peer closed before this side had everything: its time limit was over, or its program
    /// gave the session up.
    CutShort {
        /// Messages that the peer's library had accepted and that will never be delivered here:
        /// they did not come completely, or came behind such a message on their channel.
        missing: u64,
    },
    /// This side closed.
    ClosedHere,
    /// The peer's process started anew.
    Restarted,
    /// This program gave the peer up.
    Reset,
    /// The peer ended the session, and we did not receive its CLOSE.
    PeerEnded,
    /// Nothing was heard for `give_up_after`.
    Silent,
    /// The peer's process has ended and no other takes its place, as its launcher (`suci run`)
    /// reports.
    ProcessDied,
    /// The peer broke the protocol.
    Protocol(ProtocolError),
    /// This node's file of public keys changed: the peer's key was taken out of it, or the peer may
    /// use fewer layers.
    Revoked,
    /// The peer reports the same of its file and this node.
    RevokedThere,
    /// The peer reports that we broke the protocol (its CLOSE code).
    PeerProtocol(u64),
}

impl EndReason {
    /// Returns the reason to report for two merged sessions: that of the `newer` one, unless this
    /// would hide that messages of the peer are missing.
    #[must_use]
    pub fn merged_with(self, newer: Self) -> Self {
        let Self::CutShort { missing } = self else {
            return newer;
        };
        match newer {
            Self::Closed => self,
            Self::CutShort { missing: more } => Self::CutShort {
                missing: missing.saturating_add(more),
            },
            other => other,
        }
    }
}

/// The outcome of one message that was outstanding when its session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageOutcome {
    /// Its channel.
    pub channel: ChannelId,
    /// Its number.
    pub number: MessageNumber,
    /// The program's own handle.
    pub token: u64,
    /// True if it was sent with `notify`.
    pub notify: bool,
    /// The outcome.
    pub outcome: Outcome,
}

/// Why a peer refused the handshake, or its route packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// Another live process has this node ID.
    DuplicateNode,
    /// Our node is not in the peer's address book.
    NotAllowed,
    /// The node at that address has another ID.
    WrongNode,
    /// The sides differ in whether they seal packets, and under which kind of keys.
    Mode,
    /// The peer's receive buffer has no slot for another connection. Tried again; slots go first
    /// to the nodes that asked first.
    NoSocketCredit,
    /// The peer has no memory for another session.
    NoMemory,
    /// The peer knows as many nodes as it may.
    TooManyPeers,
    /// Messages of several earlier sessions with us wait at the peer until its program receives
    /// them.
    Unread,
    /// This node's own receive buffer has no slot for another connection.
    NoSocketCreditHere,
    /// This node has no memory for another session.
    NoMemoryHere,
    /// The nodes have different cluster keys.
    Key,
    /// The peer's file of public keys has no key for this node, or one of the two files has another
    /// one.
    NodeKey,
    /// This node's file of public keys has no key for the peer, or one of the two files has another
    /// one.
    NoNodeKeyHere,
    /// This node cannot make keys now: its library or the system's randomness failed.
    NoKeysHere,
    /// Our incarnation or epoch was retired there.
    Stale,
    /// No common protocol version.
    Version,
    /// A reason of a later version: its code.
    Other(u64),
    /// The path to it does not carry datagrams of [`MIN_MTU`](suci_link::limits::MIN_MTU) bytes of
    /// payload: the system reports it, or only smaller ones arrived for several round trips. Small
    /// messages may arrive; others do not until the path carries such datagrams.
    Narrow,
    /// The peer is connected, but its file of public keys does not permit this node a layer that
    /// the library itself uses: membership or routes. Told once in a session.
    Layer(Layer),
}

impl From<RefusedCode> for RefusedReason {
    fn from(code: RefusedCode) -> Self {
        match code {
            RefusedCode::DuplicateNode => Self::DuplicateNode,
            RefusedCode::NotAllowed => Self::NotAllowed,
            RefusedCode::WrongNode => Self::WrongNode,
            RefusedCode::Mode => Self::Mode,
            // The program is not told of a short wait; the log is.
            RefusedCode::NoSocketCredit | RefusedCode::Wait => Self::NoSocketCredit,
            RefusedCode::Stale => Self::Stale,
            RefusedCode::Version => Self::Version,
            RefusedCode::NoMemory => Self::NoMemory,
            RefusedCode::TooManyPeers => Self::TooManyPeers,
            RefusedCode::Unread => Self::Unread,
            RefusedCode::Key => Self::Key,
            RefusedCode::NodeKey => Self::NodeKey,
            RefusedCode::Other(code) => Self::Other(code),
        }
    }
}

impl RefusedReason {
    /// Returns the layer that the peer does not permit. Other reasons are about the connection: a
    /// later one replaces them.
    #[must_use]
    pub const fn denied_layer(self) -> Option<Layer> {
        match self {
            Self::Layer(layer) => Some(layer),
            _ => None,
        }
    }

    /// Returns true if the peer is alive and only lacks room now: a reason that may end by itself
    /// or through its program.
    pub(crate) const fn is_for_now(self) -> bool {
        matches!(
            self,
            Self::NoSocketCredit | Self::NoMemory | Self::TooManyPeers | Self::Unread
        )
    }
}

/// Names the limit, if the reason is one, and how to raise it.
impl fmt::Display for RefusedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::DuplicateNode => "another process has this node's ID: stop it, or use another ID",
            Self::NotAllowed => {
                "it takes only nodes of its address book: enter this node there, or let it accept anyone"
            }
            Self::WrongNode => {
                "another node answers there: see that both ends name it alike in their books"
            }
            Self::Mode => {
                "one side is plain and the other sealed, or one has the cluster's key and the other \
                 node keys: open both alike"
            }
            Self::Key => {
                "it has another cluster key: give both the same key file, or copy the file that was \
                 rotated last to the other"
            }
            Self::NodeKey => {
                "its file of public keys has no key for this node, or one of the two files has another one: \
                 compare what suci key public prints at both nodes with both files"
            }
            Self::NoNodeKeyHere => {
                "this node's file of public keys has no key for it, or one of the two files has another one: \
                 compare what suci key public prints at both nodes with both files"
            }
            Self::NoKeysHere => {
                "this node cannot make keys now: see if the system gives random bytes"
            }
            Self::NoSocketCredit => {
                "its receive buffer has no room for another connection: raise its recv_buffer and \
                 net.core.rmem_max there, or wait until others have gone"
            }
            Self::NoMemory => "it has no memory for another session: raise its setting memory",
            Self::TooManyPeers => {
                "it knows as many nodes as it may, or half of that from this address: raise its setting max_peers"
            }
            Self::Unread => {
                "messages of earlier sessions wait there: its program has to receive them"
            }
            Self::NoSocketCreditHere => {
                "this node's receive buffer has no room for another connection: raise recv_buffer and \
                 net.core.rmem_max, or wait until others have gone"
            }
            Self::NoMemoryHere => {
                "this node has no memory for another session: raise its setting memory"
            }
            Self::Stale => "it ended the session: a new one follows",
            Self::Version => "there is no common protocol version: install the same version",
            Self::Narrow => {
                "the path carries only packets below 1,200 bytes: raise its MTU to 1,280 bytes"
            }
            Self::Layer(layer) => {
                return write!(
                    f,
                    "it does not permit {layer} to this node: add the word {layer} to this node's line in the file \
                     of public keys there"
                );
            }
            Self::Other(code) => return write!(f, "reason {code}, of a later version"),
        };
        f.write_str(text)
    }
}
