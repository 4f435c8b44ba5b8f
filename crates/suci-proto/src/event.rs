//! What the engine tells the program.

use crate::fold::{Fold, Words, folds};
use crate::message::Outcome;
use crate::types::{ChannelId, Kind, MessageNumber, NodeId, ProtocolError, SessionNumber};
use bytes::Bytes;

/// In [`Event::NotDelivered`], the number of a message that this side did not send although it had accepted it, so that it has
/// none: a node that threads serve learns only then that the session is closing, or has too many channels.
pub const UNNUMBERED: MessageNumber = MessageNumber::MAX;

/// Something happened. Messages themselves come by [`crate::Engine::recv`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer answers: at first contact, and again after `Lost` or `Quiet`.
    Up {
        /// Who.
        node: NodeId,
        /// The present session with it.
        session: SessionNumber,
    },
    /// Nothing was heard from the peer for the silence timeout, whether it was ever reached or not. Completes nothing and
    /// is undone by `Up`.
    Lost {
        /// Who.
        node: NodeId,
        /// What is known of the reason.
        cause: LostCause,
    },
    /// As `Lost`, of a peer that announced `unattended`: it is probably computing, and is never given up.
    Quiet {
        /// Who.
        node: NodeId,
    },
    /// A side suspended the session: no messages flow and none are accepted until it resumes. Ends with the
    /// session, too.
    Suspended {
        /// With whom.
        node: NodeId,
        /// By which side.
        by: Side,
    },
    /// The side that had suspended the session resumed it.
    Resumed {
        /// With whom.
        node: NodeId,
        /// Which side.
        by: Side,
    },
    /// The session is over: exactly once per session, after all its messages were received.
    Ended {
        /// Who.
        node: NodeId,
        /// Which of the sessions with it.
        session: SessionNumber,
        /// Why.
        reason: EndReason,
        /// Exactly one outcome for every message that was outstanding.
        outcomes: Vec<MessageOutcome>,
    },
    /// The peer's library holds this message entirely (only if it was sent with `notify`).
    Delivered {
        /// To whom.
        node: NodeId,
        /// On which channel.
        channel: ChannelId,
        /// Its number.
        number: MessageNumber,
        /// The program's own handle.
        token: u64,
    },
    /// The receiving program refused the message, or this side did not send it ([`UNNUMBERED`]).
    NotDelivered {
        /// To whom.
        node: NodeId,
        /// On which channel.
        channel: ChannelId,
        /// Its number, or [`UNNUMBERED`].
        number: MessageNumber,
        /// The program's own handle.
        token: u64,
        /// The receiver's reason; 0 if the message has no number.
        reason: u64,
    },
    /// A message too long to be taken unasked: answer with accept or refuse. Other channels go on.
    Incoming {
        /// From whom.
        node: NodeId,
        /// On which channel.
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
    /// The peer refuses to talk (tried again every second or so until `give_up_after`), or the route does not carry packets.
    Refused {
        /// Who.
        node: NodeId,
        /// Why.
        reason: RefusedReason,
    },
}

impl Event {
    /// Whom it is about.
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
            | Self::Incoming { node, .. }
            | Self::Refused { node, .. } => node,
        }
    }

    /// Messages that it reports as not, or not certainly, delivered.
    #[must_use]
    pub fn failures(&self) -> u64 {
        match self {
            Self::NotDelivered { .. } => 1,
            Self::Ended { outcomes, .. } => undelivered(outcomes),
            _ => 0,
        }
    }
}

/// How many of these messages were not, or not certainly, delivered.
pub(crate) fn undelivered(outcomes: &[MessageOutcome]) -> u64 {
    let failed = |o: &&MessageOutcome| o.outcome != Outcome::Delivered;
    outcomes.iter().filter(failed).count() as u64
}

/// What is known of a peer that is lost: the newest report since it was last heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostCause {
    /// Nothing came back, and nothing says why.
    NoAnswer,
    /// The system reported that packets to the peer's address cannot be delivered. Such a report may be forged, and it
    /// may concern an earlier process at that address.
    Unreachable(Unreachable),
    /// The process at the peer's address refused the handshake.
    Refused(RefusedReason),
    /// The peer's process has ended: it ran on this machine, whose kernel says that nobody has its port any more.
    ProcessDied,
}

/// Why the system could not deliver a datagram. Each value names the errors of POSIX, and the ICMP messages, that it stands for.
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

folds!(Unreachable [Other, Port, Host, Network, Prohibited]);

impl Fold for LostCause {
    fn fold(&self, to: &mut Words) {
        match self {
            Self::NoAnswer => 0_u8.fold(to),
            Self::Unreachable(why) => {
                1_u8.fold(to);
                why.fold(to);
            }
            Self::Refused(reason) => {
                2_u8.fold(to);
                reason.fold(to);
            }
            Self::ProcessDied => 3_u8.fold(to),
        }
    }

    fn unfold(from: &mut Words) -> Self {
        match u8::unfold(from) {
            3 => Self::ProcessDied,
            1 => Self::Unreachable(Unreachable::unfold(from)),
            2 => Self::Refused(RefusedReason::unfold(from)),
            _ => Self::NoAnswer,
        }
    }
}

/// An end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// This one.
    Here,
    /// The peer.
    There,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The peer closed in order.
    Closed,
    /// This side closed.
    ClosedHere,
    /// The peer's process started anew.
    Restarted,
    /// This program gave the peer up.
    Abandoned,
    /// The peer ended the session without our having heard of it.
    PeerEnded,
    /// Nothing was heard for `give_up_after`.
    Silent,
    /// The peer broke the protocol.
    Protocol(ProtocolError),
    /// The peer says that we broke the protocol (its code).
    PeerProtocol(u64),
}

/// What became of one message that was outstanding when its session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageOutcome {
    /// Its channel.
    pub channel: ChannelId,
    /// Its number.
    pub number: MessageNumber,
    /// The program's own handle.
    pub token: u64,
    /// What became of it.
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
    /// One side is sealed, the other plain.
    Mode,
    /// The peer's tables are full.
    Full,
    /// Our incarnation or epoch was retired there.
    Stale,
    /// No common protocol version.
    Version,
    /// A reason of a later version: its code.
    Other(u64),
    /// The route to it does not carry datagrams of [`MIN_MTU`](crate::limits::MIN_MTU) bytes of payload, as the system
    /// says: small messages may arrive, others never will until it does.
    Narrow,
}

impl Fold for RefusedReason {
    fn fold(&self, to: &mut Words) {
        let (number, code): (u8, u64) = match *self {
            Self::DuplicateNode => (0, 0),
            Self::NotAllowed => (1, 0),
            Self::WrongNode => (2, 0),
            Self::Mode => (3, 0),
            Self::Full => (4, 0),
            Self::Stale => (5, 0),
            Self::Version => (6, 0),
            Self::Other(code) => (7, code),
            Self::Narrow => (8, 0),
        };
        (number, code).fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        match <(u8, u64)>::unfold(from) {
            (0, _) => Self::DuplicateNode,
            (1, _) => Self::NotAllowed,
            (2, _) => Self::WrongNode,
            (3, _) => Self::Mode,
            (4, _) => Self::Full,
            (5, _) => Self::Stale,
            (6, _) => Self::Version,
            (8, _) => Self::Narrow,
            (_, code) => Self::Other(code),
        }
    }
}
