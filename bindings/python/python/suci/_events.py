"""Events and facts, as frozen dataclasses for `match`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Mapping, Optional, Tuple, Union

__all__ = [
    "Agreed",
    "ChannelFinished",
    "Delivered",
    "EndReason",
    "Ended",
    "Event",
    "Incoming",
    "Link",
    "Lost",
    "LostCause",
    "Member",
    "MemberFailed",
    "MemberJoined",
    "MemberLeft",
    "MessageOutcome",
    "NotDelivered",
    "Outcome",
    "PeerInfo",
    "PeerOptions",
    "PeerStats",
    "Quiet",
    "Refused",
    "Resumed",
    "Side",
    "Suspended",
    "Up",
    "Writable",
]


class _Word(str, Enum):
    """A word that is equal to its text."""

    __module__ = "suci"

    def __str__(self) -> str:
        return str(self.value)


class EndReason(_Word):
    """Why a session ended."""

    __module__ = "suci"

    #: The peer closed in order: everything that it sent was received.
    CLOSED = "closed"
    #: The peer closed before this side had everything.
    CUT_SHORT = "cut-short"
    #: This side closed.
    CLOSED_HERE = "closed-here"
    #: The peer's process started anew.
    RESTARTED = "restarted"
    #: This program gave the peer up.
    RESET = "reset"
    #: The peer ended the session earlier.
    PEER_ENDED = "peer-ended"
    #: Nothing was heard of it for give_up_after.
    SILENT = "silent"
    #: Its process has ended, as the launcher reports.
    PROCESS_DIED = "process-died"
    #: It broke the protocol.
    PROTOCOL = "protocol"
    #: It says that this side broke the protocol.
    PEER_PROTOCOL = "peer-protocol"
    #: This node's file of public keys has its key no more.
    REVOKED = "revoked"
    #: Its file of public keys has this node's key no more.
    REVOKED_THERE = "revoked-there"


class LostCause(_Word):
    """The cause of a lost peer's silence, as far as it is known."""

    __module__ = "suci"

    #: No answer came, and no report of a reason.
    NO_ANSWER = "no-answer"
    #: Its host has no socket at that port.
    NO_SOCKET = "no-socket"
    #: The host does not answer its network.
    NO_HOST = "no-host"
    #: There is no route to its network.
    NO_NETWORK = "no-network"
    #: A firewall forbids it.
    PROHIBITED = "prohibited"
    #: The system reports another error.
    UNREACHABLE = "unreachable"
    #: The process at its address refused the handshake.
    REFUSED = "refused"
    #: Its process has ended.
    PROCESS_DIED = "process-died"


class Outcome(_Word):
    """The outcome of a message that was outstanding when its session ended."""

    __module__ = "suci"

    DELIVERED = "delivered"
    NOT_DELIVERED = "not-delivered"
    UNKNOWN = "unknown"


class Side(_Word):
    """An end of a session."""

    __module__ = "suci"

    HERE = "here"
    THERE = "there"


class Link(_Word):
    """Whether a peer answers."""

    __module__ = "suci"

    IDLE = "idle"
    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"
    QUIET = "quiet"


@dataclass(frozen=True)
class Up:
    """The peer answers: at first contact, and again after Lost or Quiet."""

    node: int
    session: int


@dataclass(frozen=True)
class Lost:
    """The peer is silent. This ends nothing: when it answers, Up follows."""

    node: int
    cause: LostCause


@dataclass(frozen=True)
class Quiet:
    """As Lost, for a peer that a launcher supervises: it is never given up."""

    node: int


@dataclass(frozen=True)
class Suspended:
    """A side suspended the session: no messages flow until it resumes."""

    node: int
    by: Side


@dataclass(frozen=True)
class Resumed:
    """The side that had suspended the session resumed it."""

    node: int
    by: Side


@dataclass(frozen=True)
class MessageOutcome:
    """The outcome of one message that was outstanding when its session ended."""

    channel: int
    number: int
    token: int
    notify: bool
    outcome: Outcome


@dataclass(frozen=True)
class Ended:
    """The session is over. It comes after all its messages were received."""

    node: int
    session: int
    #: How many sessions ended: untaken ends become one event.
    sessions: int
    reason: EndReason
    #: One outcome for every message that was outstanding.
    outcomes: Tuple[MessageOutcome, ...]
    #: With CUT_SHORT: messages of the peer that will never be delivered here.
    missing: int
    #: The reason in words.
    text: str


@dataclass(frozen=True)
class Delivered:
    """The peer's library holds this message, which was sent with notify."""

    node: int
    channel: int
    number: int
    token: int


@dataclass(frozen=True)
class NotDelivered:
    """A message with notify was refused, cancelled or not sent."""

    node: int
    channel: int
    #: None if the message never got a number.
    number: Optional[int]
    token: int
    #: The receiver's reason.
    reason: int


@dataclass(frozen=True)
class Writable:
    """The queue to the peer has room again for messages of one class."""

    node: int
    class_: int


@dataclass(frozen=True)
class Incoming:
    """A message longer than max_message waits for accept() or refuse()."""

    node: int
    channel: int
    number: int
    #: Its length in bytes.
    length: int
    tag: int
    kind: int
    user_header: bytes


@dataclass(frozen=True)
class ChannelFinished:
    """The peer finished a channel: no more messages come on it in this session."""

    node: int
    channel: int


@dataclass(frozen=True)
class MemberJoined:
    """The peer joined the cluster."""

    node: int


@dataclass(frozen=True)
class MemberLeft:
    """The peer left the cluster."""

    node: int


@dataclass(frozen=True)
class MemberFailed:
    """The members agree that the peer's process is dead."""

    node: int


@dataclass(frozen=True)
class Refused:
    """The peer refuses the connection or a layer. The connection is tried again."""

    node: int
    #: A short name, such as "not-allowed".
    reason: str
    #: The reason and the remedy in words.
    text: str


Event = Union[
    Up,
    Lost,
    Quiet,
    Suspended,
    Resumed,
    Ended,
    Delivered,
    NotDelivered,
    Writable,
    Incoming,
    ChannelFinished,
    MemberJoined,
    MemberLeft,
    MemberFailed,
    Refused,
]


@dataclass(frozen=True)
class Agreed:
    """What the members that are left of a group agree on: Group.agree()."""

    #: The bits that the values of all of them have in common.
    value: int
    #: The node IDs of the members that failed.
    failed: Tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "failed", tuple(self.failed))


@dataclass(frozen=True)
class Member:
    """A member of the node's cluster: Node.members()."""

    node: int
    #: Where it listens.
    address: str
    #: Another member does not hear it: it counts as failed soon, unless it answers.
    is_suspect: bool


@dataclass(frozen=True)
class PeerInfo:
    """One peer of Node.peers()."""

    node: int
    #: Where it is, as far as that is known.
    address: Optional[str]
    link: Link
    #: It is in the address book.
    known: bool
    #: Its process is known to have died.
    absent: bool


@dataclass(frozen=True)
class PeerOptions:
    """The program's options for one peer; Peer.configure() changes them."""

    #: "adaptive", "throughput" (many bytes) or "response" (early answers).
    mode: str
    #: Class (0 to 7, higher goes first) and weight (1 to 255).
    priority: Tuple[int, int]
    #: "auto", "lan", "wan", "cubic", or the bytes of a fixed window.
    controller: Union[str, int]
    #: Bytes per second at most; None for no limit.
    rate_cap: Optional[int]
    #: Seconds of silence after which the peer counts as lost.
    silence_timeout: float
    #: Seconds of silence after which its session ends.
    give_up_after: float
    #: Notices its silence also while nothing waits for it.
    keep_alive: bool
    #: Sends lost messages again only when Peer.retransmit() asks for it.
    manual_retransmission: bool


@dataclass(frozen=True)
class PeerStats:
    """The known facts about one peer. Times are in seconds, sizes in bytes."""

    node: int
    address: Optional[str]
    link: Link
    suspended_here: bool
    suspended_there: bool
    rtt: float
    min_rtt: float
    rtt_variance: float
    congestion_window: int
    in_flight: int
    mode: str
    remote_mode: str
    mtu: int
    socket_credit: int
    queued_messages: int
    queued_bytes: int
    #: Packets, bytes and messages, by name.
    traffic: Mapping[str, int]
    #: For each reason that messages waited: seconds, and how often.
    waits: Mapping[str, Tuple[float, int]]
    #: The reason for which messages wait now.
    waiting: Optional[str]


for _class in (
    Up, Lost, Quiet, Suspended, Resumed, MessageOutcome, Ended, Delivered, NotDelivered, Writable,
    Incoming, ChannelFinished, MemberJoined, MemberLeft, MemberFailed, Refused, PeerInfo,
    PeerOptions, PeerStats, Agreed, Member,
):  # fmt: skip
    _class.__module__ = "suci"
