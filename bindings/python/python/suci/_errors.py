"""The exceptions of the package. All of them are Error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._events import EndReason

__all__ = [
    "BufferTooShort",
    "CallRefused",
    "ChannelUnavailable",
    "Closed",
    "ConfigurationError",
    "Error",
    "Forked",
    "GroupError",
    "MessageError",
    "NeedsAnswer",
    "NotARequest",
    "NotFlushed",
    "NotPermitted",
    "PeerClosing",
    "PeerDied",
    "PeerEnded",
    "PeerError",
    "PeerSuspended",
    "ReplyTooLong",
    "TimedOut",
    "UnknownPeer",
    "Unread",
    "WouldBlock",
]


class Error(Exception):
    """Why a call of the package failed. Its text names the thing, its value and the remedy."""

    __module__ = "suci"


class ConfigurationError(Error, ValueError):
    """A setting, an address, a key, an address book or the environment cannot work."""

    __module__ = "suci"


class Closed(Error):
    """The node is closed, and everything that had arrived was taken."""

    __module__ = "suci"


class Forked(Error):
    """The node belongs to the parent of this process. Open a node of its own."""

    __module__ = "suci"


class TimedOut(Error, TimeoutError):
    """A call came to its time limit."""

    __module__ = "suci"


class GroupError(Error):
    """An operation of a group failed, and with it the group: make another one, or shrink it."""

    __module__ = "suci"

    #: The member that failed, if one did.
    node: int | None = None


class MessageError(Error, ValueError):
    """A message cannot be sent or answered as it is."""

    __module__ = "suci"


class BufferTooShort(Error, ValueError):
    """A message does not fit the buffer. It is kept for the next call that receives."""

    __module__ = "suci"


class NotFlushed(Error):
    """Not everything was delivered."""

    __module__ = "suci"

    #: For each node, how many messages it had not acknowledged or will never get.
    peers: dict[int, int] = {}


class PeerError(Error):
    """A call failed because of one peer."""

    __module__ = "suci"

    #: The peer's ID.
    node: int = -1


class UnknownPeer(PeerError, LookupError):
    """No such node in the address book, nor has it opened a session."""

    __module__ = "suci"


class PeerEnded(PeerError, ConnectionError):
    """The session with the peer ended before the reply, or the wanted message, came."""

    __module__ = "suci"

    #: Why it ended.
    reason: EndReason


class PeerDied(PeerEnded):
    """The peer's process died, as this machine's kernel or `suci run` says."""

    __module__ = "suci"


class WouldBlock(PeerError):
    """The queue to the peer is full."""

    __module__ = "suci"


class Unread(PeerError):
    """Messages of four ended sessions with the peer are unread: receive them first."""

    __module__ = "suci"


class PeerSuspended(PeerError):
    """The session is suspended: nothing is accepted until it is resumed."""

    __module__ = "suci"


class PeerClosing(PeerError):
    """The session is being closed."""

    __module__ = "suci"


class ChannelUnavailable(PeerError):
    """The channel was finished, or the peer lets no more channels be opened."""

    __module__ = "suci"


class NotPermitted(PeerError):
    """The peer does not permit this node that layer."""

    __module__ = "suci"


class CallRefused(PeerError):
    """The peer's program refused the request because of its length."""

    __module__ = "suci"

    #: The program's reason.
    reason: int = 0


class ReplyTooLong(PeerError):
    """The reply was longer than this node takes without asking, and was refused."""

    __module__ = "suci"

    #: Its length in bytes.
    length: int = 0


class NeedsAnswer(PeerError):
    """A long message waits for accept() or refuse(), and no other message is there."""

    __module__ = "suci"

    #: Its length in bytes.
    length: int = 0


class NotARequest(PeerError):
    """No call waits for a reply to this message."""

    __module__ = "suci"
