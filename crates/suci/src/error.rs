//! Errors, and the remedy for each.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use suci_proto::types::{ChannelId, Kind, Layer, MessageNumber, NodeId};
use suci_proto::{
    CallError, ConfigError, EndReason, Event, IncomingError, OptionsError, Outgoing, PeerError,
    Side,
};

use crate::OutgoingMessage;
use crate::security::KeyError;

/// Lets `{:?}` show the text of errors. A `main` that returns an error prints it so, and `unwrap`.
macro_rules! debug_is_text {
    ($($error:ty),+) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

debug_is_text!(
    BookError,
    KeyError,
    crate::active::ActiveError,
    crate::group::GroupError,
    crate::remote::RegionError,
    crate::remote::RemoteFailure,
    crate::sockets::SocketError
);

/// Why a call failed. Each text names the thing, its value and the remedy. `{:?}` shows the text,
/// too, and the message if the error gives one back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such node in the address book, nor has it opened a session.
    #[error("node {0} is unknown: enter it in the address book, or add it as a peer first")]
    UnknownPeer(NodeId),
    /// A call to a node's own program, which waits for the call.
    #[error(
        "node {0} is this node, whose program would wait for its own reply: send a message, or open the node with I/O \
         threads, call from one thread and reply from another"
    )]
    CallToItself(NodeId),
    /// The queue to this peer is full. The message comes back in the error.
    #[error(
        "the queue to node {to} is full: send with a time limit, or wait for the event Writable and send again, or raise \
         send_queue"
    )]
    WouldBlock {
        /// The peer whose queue is full.
        to: NodeId,
        /// The message.
        message: Box<OutgoingMessage>,
    },
    /// Four sessions with this peer ended and left messages that the program has not received. No
    /// other session begins, so that the messages left by a peer stay bounded. The message comes
    /// back in the error.
    #[error(
        "messages of four ended sessions with node {to} are unread: receive them, then send again"
    )]
    Unread {
        /// The peer that sent the unread messages.
        to: NodeId,
        /// The message.
        message: Box<OutgoingMessage>,
    },
    /// The session is suspended: nothing is accepted until it is resumed. The message comes back in
    /// the error.
    #[error(
        "the session with node {to} is suspended {}",
        match .by {
            Side::Here => "by this side: resume it, then send again",
            Side::There => "by the peer: wait for the event Resumed, then send again",
        }
    )]
    Suspended {
        /// The peer.
        to: NodeId,
        /// Which side suspended it; this one if both did.
        by: Side,
        /// The message.
        message: Box<OutgoingMessage>,
    },
    /// The session is being closed ([`Peer::close`](crate::Peer::close)). The message
    /// comes back in the error.
    #[error("the session with node {to} is closing: wait for the event Ended, then send again")]
    Closing {
        /// The peer.
        to: NodeId,
        /// The message.
        message: Box<OutgoingMessage>,
    },
    /// No seed let the node join its cluster.
    #[error("not in cluster {cluster:?} yet: {why}")]
    NotJoined {
        /// The name of the cluster.
        cluster: String,
        /// The problem with each seed, and the remedy.
        why: String,
    },
    /// A timed call came to its limit.
    #[error("{what} was not done within {limit:?}: call again, or allow more time")]
    TimedOut {
        /// The operation that did not end in time.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// A [`Waker`](crate::Waker) ended the wait of a call.
    #[error("a wake ended the wait: call again to go on waiting")]
    Woken,
    /// A call or a reply with a tag, a kind or a wish of its own.
    #[error(
        "the library sets {what} of {of}: leave it out, and put what the receiver should know into the payload or the \
         user header"
    )]
    Reserved {
        /// The setting of the message that is reserved.
        what: &'static str,
        /// The operation that the message was for: a call or a reply.
        of: &'static str,
    },
    /// A message is no request, so that no caller waits for a reply.
    #[error(
        "the message from node {0} is no request: answer it by a message, or let its sender send a request"
    )]
    NotARequest(NodeId),
    /// The session with the peer ended before the reply, or the message that was asked for, came.
    #[error("the session with node {node} ended: {}", Why(.reason))]
    Ended {
        /// The peer.
        node: NodeId,
        /// Why.
        reason: EndReason,
    },
    /// The peer's process died before the call or during it, as this machine's kernel or the
    /// launcher (`suci run`) says.
    #[error("the process of node {0} died: start it again, or ask another node")]
    ProcessDied(NodeId),
    /// The peer's program refused the request, since it was longer than the peer takes without
    /// asking its program.
    #[error(
        "node {node} refused the request (its reason: {reason}): send a shorter one, or raise its max_message"
    )]
    Refused {
        /// The peer that refused.
        node: NodeId,
        /// Its reason.
        reason: u64,
    },
    /// The reply was longer than this node takes without asking, and was refused.
    #[error(
        "the reply of node {node} has {length} bytes: raise max_message of this node, or let it reply in parts"
    )]
    ReplyTooLong {
        /// The peer that replied.
        node: NodeId,
        /// Its length in bytes.
        length: u64,
    },
    /// Longer than any message may be.
    #[error(
        "message of {length} bytes: at most {} are possible; send it in parts",
        suci_proto::limits::MAX_MESSAGE
    )]
    TooLong {
        /// Its length in bytes.
        length: u64,
    },
    /// The user header is too long.
    #[error(
        "user header of {length} bytes: at most {} are possible; put the rest into the payload",
        suci_proto::limits::MAX_USER_HEADER
    )]
    HeaderTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A kind that belongs to the library.
    #[error("kind {} is reserved for the library: use 128 to 255", .kind.0)]
    ReservedKind {
        /// The kind.
        kind: Kind,
    },
    /// A channel that belongs to another layer of the library.
    #[error(
        "channel {} is reserved for other layers of the library: use 0 to {}",
        .channel.0,
        ChannelId::LAST_USER.0
    )]
    ReservedChannel {
        /// The channel.
        channel: ChannelId,
    },
    /// The peer lets no more channels be opened. Until it has said how many it lets, messages on up
    /// to 65,536 channels are accepted; those on too many get
    /// [`NotDelivered`](crate::Event::NotDelivered) with the reason
    /// [`TOO_MANY_CHANNELS`](crate::TOO_MANY_CHANNELS). It lets a node have one for each 128 B of
    /// the window that it promised the session, at least 1,024 and at most 65,536. The window
    /// follows from its [`NodeBuilder::memory`](crate::NodeBuilder::memory). Finished channels
    /// whose numbers do not follow one another count, too: each gap is as much to remember as a
    /// channel.
    #[error(
        "{open} channels to node {to} are open, as many as it allows: finish those that are done, \
         number new ones upwards without gaps, or raise memory at node {to}"
    )]
    Channels {
        /// The peer.
        to: NodeId,
        /// How many may be open at once.
        open: u64,
    },
    /// This side finished the channel ([`Peer::finish_channel`](crate::Peer::finish_channel)).
    #[error(
        "channel {} to node {to} was finished: use a number that was not used before in this session",
        .channel.0
    )]
    FinishedChannel {
        /// The peer.
        to: NodeId,
        /// The channel.
        channel: ChannelId,
    },
    /// The peer does not permit this node to use that layer.
    #[error(
        "node {to} does not permit this node {layer}: add the word {layer} to this node's line in the file of public \
         keys there"
    )]
    NotPermitted {
        /// The peer.
        to: NodeId,
        /// The layer.
        layer: Layer,
    },
    /// The node is closed or closing.
    #[error("the node is closed: open a new one to go on")]
    Closed,
    /// This process is the child of a fork; the node belongs to its parent.
    #[error("this process was forked from the one that opened the node: open a node of its own")]
    Forked,
    /// The local address is taken.
    #[error("address {address} is in use: stop the other process, or choose another port")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The socket could not be opened.
    #[error("cannot listen at {address}: {source}{}", AfterSemicolon(remedy_at(*.address, .source)))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The address book cannot be used.
    #[error(transparent)]
    Book(#[from] BookError),
    /// A file of keys cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The keys of a plain node cannot be changed, since it has none.
    #[error(
        "this node was opened without keys of this kind: open it with them (a cluster's: \
         SUCI_KEY_FILE; a node's own: SUCI_NODE_KEY_FILE and SUCI_PUBLIC_KEYS_FILE), then change them"
    )]
    NotSealed,
    /// A node without a cluster key outside of loopback.
    #[error(
        "{address} is not a loopback address, and without a key everybody on the network could read and forge \
         messages: make one (`suci keygen FILE`) and name the file on each machine (SUCI_KEY_FILE, key_file; command: \
         --key-file), or set allow_insecure_network (command: --plain) if the network is trusted"
    )]
    PlainOnNetwork {
        /// The address.
        address: SocketAddr,
    },
    /// The socket's receive buffer has no room for a single peer.
    #[error(
        "the receive buffer of {bytes} bytes has no room for a peer: \
         ask for more (recv_buffer), or raise net.core.rmem_max"
    )]
    NoRoom {
        /// The size that the system granted, in bytes as the system counts them.
        bytes: usize,
    },
    /// Nothing sent from here could arrive there.
    #[error("{address} cannot be reached from {local}: {problem}")]
    Unreachable {
        /// The peer's address.
        address: SocketAddr,
        /// Where this node listens.
        local: SocketAddr,
        /// Why, and the remedy.
        problem: &'static str,
    },
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something that the builder needs is missing.
    #[error("{missing} is missing: {remedy}")]
    Missing {
        /// The missing setting.
        missing: &'static str,
        /// How to give it.
        remedy: &'static str,
    },
    /// An environment variable does not make sense.
    #[error("{name}={value}: {problem}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The fault, and the remedy.
        problem: String,
    },
    /// The launcher that started the process does not give what a node needs.
    #[error("{launcher}: {problem}")]
    Launcher {
        /// Its name, as `suci env` shows it.
        launcher: &'static str,
        /// The variables found, those missing, and the remedy.
        problem: String,
    },
    /// Some messages were not acknowledged.
    #[error(
        "not everything was delivered: {}; events tell the outcome of each message sent with notify, at the latest when its \
         session ends",
        Unflushed(.peers)
    )]
    NotFlushed {
        /// Peers, and how many messages each had not acknowledged or will never get.
        peers: Vec<(NodeId, u64)>,
    },
    /// The message is longer than the buffer. It is kept. The next receiving call gets it; an
    /// announced message goes to the call that accepts it.
    #[error(
        "a message of {length} bytes does not fit the buffer of {buffer} bytes: offer a longer one"
    )]
    BufferTooShort {
        /// The message's length in bytes.
        length: u64,
        /// The buffer's.
        buffer: u64,
    },
    /// A message waits that is too long to be taken without the program's consent, and no other
    /// does. It comes once the program answers ([`Node::accept_into`](crate::Node::accept_into),
    /// [`Node::accept`](crate::Node::accept) or [`Node::refuse`](crate::Node::refuse)), and until
    /// then no other message of its channel comes. A receiving call says so once for each such
    /// message whose [`Event::Incoming`](crate::Event::Incoming) was not taken; the next call
    /// receives messages of other channels.
    #[error(
        "message {number} of {length} bytes on channel {} from node {from} waits for an answer, since it is longer than {limit} \
         bytes (max_message, at most half of memory): call accept or refuse, or accept_into with a buffer of that length; \
         or raise max_message",
        .channel.0
    )]
    NeedsAnswer {
        /// The peer that sends the message.
        from: NodeId,
        /// Its channel.
        channel: ChannelId,
        /// Its number there.
        number: MessageNumber,
        /// Its length in bytes.
        length: u64,
        /// Maximum length that is taken without the program's consent, in bytes.
        limit: u64,
    },
    /// Nothing can come on the channel for which the program waits. Messages of the peer on other
    /// channels, from which the program takes nothing, fill the memory for the session. All
    /// sessions share [`NodeBuilder::memory`](crate::NodeBuilder::memory).
    #[error(
        "node {from} can send nothing on channel {}: {bytes} bytes that it sent on {} fill the memory for its session; \
         receive those first, or raise memory",
        .channel.0,
        Channels(.unread)
    )]
    MemoryFull {
        /// The sender.
        from: NodeId,
        /// The channel for which the program waits.
        channel: ChannelId,
        /// Bytes that the messages count which fill the memory.
        bytes: u64,
        /// The channels on which the program can receive some.
        unread: Vec<ChannelId>,
    },
    /// No such announced message, or the buffer does not fit it.
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    /// A peer could not be added.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The program named a book that does not say where this node is (an empty one says nothing),
    /// and no address.
    #[error(
        "node {node} is not in its {book}: enter it there, or set where it listens (listen; 127.0.0.1:0 for any port)"
    )]
    NotInBook {
        /// This node.
        node: NodeId,
        /// The book, with the file it was read from.
        book: String,
    },
    /// A number of threads that is not possible.
    #[error("a node cannot have {0} I/O threads: choose 1 to 256")]
    Threads(usize),
    /// A steering function, or a waker, made a call that waits for the I/O thread that runs it.
    #[error(
        "an I/O thread of this node cannot wait for itself: call this from a thread of the program, or use a call that does not wait"
    )]
    OwnThread,
    /// A thread that did the work is gone.
    #[error("an I/O thread stopped: {0}; open a new node")]
    ThreadGone(String),
    /// The system refused.
    #[error("{doing}: {source}{}", AfterSemicolon(remedy(.source)))]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// The remedy for a link-local address without a zone: each interface has the same range of such
/// addresses.
pub(crate) const NO_ZONE: &str = "a link-local address needs its zone, an interface of this machine by name or number (`ip link` \
                                  lists them), as in [fe80::1%eth0]:7000";

/// The remedy for an address that the system refuses to listen at. Errors of the library itself
/// name theirs.
fn remedy_at(address: SocketAddr, error: &io::Error) -> Option<&'static str> {
    error.raw_os_error()?;
    match address {
        SocketAddr::V6(at) if at.ip().is_unicast_link_local() && at.scope_id() == 0 => {
            Some(NO_ZONE)
        }
        SocketAddr::V4(at)
            if at.ip().is_loopback() && error.raw_os_error() == Some(libc::EADDRNOTAVAIL) =>
        {
            Some(
                "loopback has no such address here: start it, as root (`ip link set lo up`), or listen at [::1]",
            )
        }
        _ => remedy(error).or(Some("use an address of this machine")),
    }
}

/// The remedy for a system error that names a limit rather than a fault.
fn remedy(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EACCES => Some("ports below 1024 need privileges: choose another"),
        libc::EMFILE => Some("raise the limit of open files (ulimit -n)"),
        libc::ENFILE => Some("raise fs.file-max"),
        // Of a port that the system was to choose: others are `Error::AddressInUse`.
        libc::EADDRINUSE => Some(
            "all ports of net.ipv4.ip_local_port_range are taken: widen it, or close some sockets",
        ),
        libc::ENOMEM => Some("free memory, or raise its limit (ulimit -v)"),
        // In this library only the start of a thread fails so.
        libc::EAGAIN => Some("raise the limit of threads (ulimit -u)"),
        _ => None,
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")?;
        match self {
            Self::WouldBlock { message, .. }
            | Self::Unread { message, .. }
            | Self::Suspended { message, .. }
            | Self::Closing { message, .. } => write!(f, "; the message: {message:?}"),
            _ => Ok(()),
        }
    }
}

struct Why<'a>(&'a EndReason);

impl std::fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            EndReason::Closed => "it closed",
            EndReason::CutShort { missing } => {
                return write!(f, "it closed before {missing} of its messages had arrived");
            }
            EndReason::ClosedHere => "this side closed it",
            EndReason::Restarted => "its process started anew",
            EndReason::Reset => "this side gave it up",
            EndReason::PeerEnded => "it ended the session earlier",
            EndReason::Silent => "nothing was heard of it",
            EndReason::ProcessDied => "its process has ended",
            EndReason::Revoked => {
                "this node's file of public keys has its key no more, or permits it fewer layers"
            }
            EndReason::RevokedThere => {
                "its file of public keys has this node's key no more, or permits this node fewer layers"
            }
            EndReason::Protocol(error) => return write!(f, "it broke the protocol: {error}"),
            EndReason::PeerProtocol(code) => {
                return write!(f, "it says that this side broke the protocol (code {code})");
            }
        })
    }
}

struct AfterSemicolon(Option<&'static str>);

impl std::fmt::Display for AfterSemicolon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |text| write!(f, "; {text}"))
    }
}

struct Unflushed<'a>(&'a [(NodeId, u64)]);

impl std::fmt::Display for Unflushed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (node, count)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} message(s) to node {node}")?;
        }
        Ok(())
    }
}

/// Shows some of these channels: there may be thousands.
struct Channels<'a>(&'a [ChannelId]);

impl std::fmt::Display for Channels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 8;
        for (index, channel) in self.0.iter().take(SHOWN).enumerate() {
            let before = if index > 0 { ", " } else { "channel(s) " };
            write!(f, "{before}{}", channel.0)?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why an address book was refused.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// The file cannot be read.
    #[error("address book {}: {source}; name a readable file of lines \"id address:port\"", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A line does not make sense.
    #[error("{place}: {problem}")]
    Line {
        /// `file:line`.
        place: String,
        /// The fault, its value, and the remedy.
        problem: String,
    },
    /// An entry contradicts another.
    #[error("{what} is entered twice: give every node one ID and one address")]
    Duplicate {
        /// The ID or address.
        what: String,
    },
    /// A route that the program entered leads nowhere, or contradicts another.
    #[error("{problem}")]
    Route {
        /// The fault, its value, and the remedy.
        problem: String,
    },
}

impl Error {
    /// Whether programs may use `channel`.
    pub(crate) fn check_channel(channel: ChannelId) -> Result<(), Self> {
        match channel.is_user() {
            true => Ok(()),
            false => Err(Self::ReservedChannel { channel }),
        }
    }

    /// Makes an error that names the operation that the system refused.
    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Makes the error for a message to `to` that the engine refused.
    pub(crate) fn from_send(to: NodeId, error: suci_proto::SendError) -> Self {
        use suci_proto::SendError as E;
        match error {
            E::UnknownPeer(node) => Self::UnknownPeer(node),
            E::WouldBlock(outgoing) => Self::would_block(to, outgoing),
            E::Unread(outgoing) => Self::Unread {
                to,
                message: Box::new(OutgoingMessage::from_outgoing(outgoing)),
            },
            E::TooLong { length } => Self::TooLong { length },
            E::HeaderTooLong { length } => Self::HeaderTooLong { length },
            E::Channels { open } => Self::Channels { to, open },
            E::NotPermitted { layer } => Self::NotPermitted { to, layer },
            E::Finished { channel } => Self::FinishedChannel { to, channel },
            E::Suspended { message, by } => Self::suspended(to, message, by),
            E::Closing(outgoing) => Self::Closing {
                to,
                message: Box::new(OutgoingMessage::from_outgoing(outgoing)),
            },
            E::Closed => Self::Closed,
        }
    }

    /// Why a call to `node` ended without a reply.
    pub(crate) fn from_call(node: NodeId, error: CallError) -> Self {
        match error {
            CallError::Ended(reason) => Self::Ended { node, reason },
            CallError::Died => Self::ProcessDied(node),
            CallError::Refused(reason) => Self::Refused { node, reason },
            CallError::TooLong { length } => Self::ReplyTooLong { node, length },
        }
    }

    pub(crate) fn would_block(to: NodeId, outgoing: Outgoing) -> Self {
        Self::WouldBlock {
            to,
            message: Box::new(OutgoingMessage::from_outgoing(outgoing)),
        }
    }

    /// The error of a receiving call that waits for an announced message. The longest message that
    /// is taken without asking the program has `limit` bytes.
    pub(crate) fn needs_answer(announced: &Event, limit: u64) -> Option<Self> {
        match *announced {
            Event::Incoming {
                node,
                channel,
                number,
                total,
                ..
            } => Some(Self::NeedsAnswer {
                from: node,
                channel,
                number,
                length: total,
                limit,
            }),
            _ => None,
        }
    }

    /// Makes the error for limits of silence of `node` that the engine refused.
    pub(crate) fn from_options(node: NodeId, error: OptionsError) -> Self {
        match error {
            OptionsError::Peer(error) => Self::from_send(node, error),
            OptionsError::Range(error) => Self::Config(error),
        }
    }

    pub(crate) fn suspended(to: NodeId, outgoing: Outgoing, by: Side) -> Self {
        Self::Suspended {
            to,
            by,
            message: Box::new(OutgoingMessage::from_outgoing(outgoing)),
        }
    }

    /// Whether trying again later makes sense.
    #[must_use]
    pub fn is_would_block(&self) -> bool {
        matches!(self, Self::WouldBlock { .. })
    }
}

/// The error of a socket that cannot be bound.
pub(crate) fn bind_error(address: SocketAddr, source: io::Error) -> Error {
    match source.kind() {
        // No program has chosen port 0: the system has no other port left.
        io::ErrorKind::AddrInUse if address.port() != 0 => Error::AddressInUse { address },
        _ => Error::Bind { address, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_system_are_named_with_their_remedy() {
        let system = io::Error::from_raw_os_error;
        let address = SocketAddr::from(([127, 0, 0, 1], 53));
        for (error, end) in [
            (
                Error::Bind {
                    address,
                    source: io::Error::other("no frames here: use UDP"),
                },
                "cannot listen at 127.0.0.1:53: no frames here: use UDP",
            ),
            (
                Error::io("waiting")(system(libc::EMFILE)),
                "; raise the limit of open files (ulimit -n)",
            ),
            (
                Error::io("waiting")(system(libc::EBADF)),
                "waiting: Bad file descriptor (os error 9)",
            ),
            (
                Error::Bind {
                    address,
                    source: system(libc::EACCES),
                },
                "; ports below 1024 need privileges: choose another",
            ),
            (
                Error::Bind {
                    address,
                    source: system(libc::EADDRNOTAVAIL),
                },
                "(`ip link set lo up`), or listen at [::1]",
            ),
            (
                Error::Bind {
                    address: "192.0.2.1:7000".parse().unwrap(),
                    source: system(libc::EADDRNOTAVAIL),
                },
                "; use an address of this machine",
            ),
            (
                bind_error("127.0.0.1:0".parse().unwrap(), system(libc::EADDRINUSE)),
                "; all ports of net.ipv4.ip_local_port_range are taken: widen it, or close some sockets",
            ),
            (
                Error::Bind {
                    address: "[fe80::1%7]:7000".parse().unwrap(),
                    source: system(libc::EADDRNOTAVAIL),
                },
                "; use an address of this machine",
            ),
            (
                Error::Bind {
                    address: "[fe80::1]:7000".parse().unwrap(),
                    source: system(libc::EINVAL),
                },
                "(`ip link` lists them), as in [fe80::1%eth0]:7000",
            ),
        ] {
            let said = error.to_string();
            assert!(said.ends_with(end), "{said}");
        }
    }

    /// A `main` that returns an error prints its `Debug` form.
    #[test]
    fn the_debug_form_of_an_error_names_the_remedy() {
        let error = Error::NoRoom { bytes: 2_304 };
        assert_eq!(format!("{error:?}"), error.to_string());
        let unreadable = crate::AddressBook::read("/nonexistent").unwrap_err();
        assert_eq!(format!("{unreadable:?}"), unreadable.to_string());
        let in_group = crate::group::GroupError::Node(error);
        assert_eq!(format!("{in_group:?}"), in_group.to_string());
    }

    /// The error gives the message back, and `unwrap` prints it.
    #[test]
    fn an_error_shows_the_beginning_of_its_message() {
        let message = OutgoingMessage::new(vec![7; 1 << 20]).tag(3);
        let shown = format!(
            "{:?}",
            Error::would_block(NodeId(1), message.into_outgoing())
        );
        assert!(shown.len() < 1_000, "{}", shown.len());
        assert!(shown.contains("tag: 3"), "{shown}");
        assert!(shown.contains(r#"\x07".. of 1048576 bytes"#), "{shown}");
    }
}
