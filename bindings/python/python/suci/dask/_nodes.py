"""Nodes in event loops, and the channels of their connections."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set, Tuple

from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.protocol.utils import host_array
from distributed.utils import get_ip

from .. import _events as events
from .. import _suci
from .._errors import Error, WouldBlock
from ._addresses import PREFIX, Keys, ids_at, is_loopback, is_wildcard
from ._messages import LARGEST, Arriving

if TYPE_CHECKING:
    from ._comms import SuciListener

logger = logging.getLogger("suci.dask")

#: A node closes once its last connection was closed this many seconds ago.
LINGER = 1.0

#: A closing node waits this many seconds for peers to take what was sent.
PATIENCE = 5.0

#: Messages that one turn of the event loop takes.
TURN = 64

# The kinds of messages.
OPEN = 128  #: The first message on a channel: a connector asks for a connection.
OPENED = 129  #: The listener has it.
HEAD = 130  #: A message of Dask: the sizes of its buffers, the table of its frames, and frames.
PIECE = 131  #: More of its frames.

#: The channels of one side: 24 bits, of which the lowest says which side opened it.
CHANNELS = (1 << 23) - 1


class WrongNode(OSError):
    """Another node listens at the address."""


class Stream:
    """One end of a connection: a channel of a node in each direction."""

    def __init__(self, endpoint: "Endpoint", peer: int, channel: int) -> None:
        self.endpoint = endpoint
        self.peer = peer
        self.channel = channel
        #: Why nothing more comes, or None.
        self.error: Optional[OSError] = None
        #: This side sends nothing more.
        self.finished = False
        #: Done once the listener has the connection.
        self.opened: "asyncio.Future[None]" = endpoint.loop.create_future()
        self._complete: "deque[Arriving]" = deque()
        self._arriving: Optional[Arriving] = None
        #: The number of the message that comes next: the first one opened the connection.
        self._next = 1
        #: A long message that is not yet accepted: those before it have to come and to be read.
        self._announced: Optional[events.Incoming] = None
        #: Where an accepted one goes.
        self._target: Optional[memoryview] = None
        self._reader: "Optional[asyncio.Future[None]]" = None

    # ---- from the program

    async def write(self, pieces: Sequence[Any]) -> None:
        """Sends pieces in order. Waits only while a million messages wait for the peer."""
        kind = HEAD
        for piece in pieces:
            while True:
                self.check_writable()
                try:
                    self.endpoint.node.try_send(self.peer, piece, channel=self.channel, kind=kind)
                    break
                except WouldBlock:
                    await self.endpoint.room(self.peer)
                except Error as error:
                    self.fail(CommClosedError(str(error)))
                    raise CommClosedError(str(error)) from error
            kind = PIECE

    def check_writable(self) -> None:
        if self.error is not None:
            raise CommClosedError(str(self.error)) from self.error
        if self.finished:
            raise CommClosedError("the connection is closed")

    async def read(self) -> Arriving:
        """The next complete message."""
        while not self._complete:
            if self.error is not None:
                raise CommClosedError(str(self.error)) from self.error
            if self._reader is not None:
                raise RuntimeError("two tasks read one connection: make one for each")
            self._reader = self.endpoint.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._complete.popleft()
        self._accept_announced()
        return message

    @property
    def at_end(self) -> bool:
        """Nothing more can be read."""
        return self.error is not None and not self._complete

    def finish(self) -> None:
        """Sends nothing more. What was sent is delivered all the same."""
        if not self.finished:
            self.finished = True
            self.endpoint.finish(self)

    def close(self) -> None:
        """Ends both directions."""
        self.finish()
        self._complete.clear()
        self.fail(CommClosedError("the connection is closed"))

    # ---- from the network

    def fail(self, error: OSError) -> None:
        """Nothing more comes. What is complete can still be read."""
        if self.error is None:
            self.error = error
        self.finish()
        self._arriving = self._target = None
        if self._announced is not None:
            announced, self._announced = self._announced, None
            self.endpoint.refuse(announced)
        if not self.opened.done():
            self.opened.set_exception(self.error)
            # It is retrieved where somebody waits for it.
            self.opened.exception()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def announce(self, event: events.Incoming) -> None:
        """A long message comes. This may be told before the messages in front of it are."""
        self._announced = event
        self._accept_announced()

    def _accept_announced(self) -> None:
        event = self._announced
        if event is None or event.number != self._next or self._complete:
            return
        self._announced = None
        try:
            if event.kind == PIECE and self._arriving is not None:
                self._target = self._arriving.place(event.length)
            elif event.kind == HEAD and self._arriving is None and event.length <= LARGEST:
                self._target = host_array(event.length)
            else:
                raise ValueError(f"a message of {event.length} bytes is out of place")
            self.endpoint.node.accept(event, self._target)
        except (ValueError, Error) as error:
            self.endpoint.refuse(event)
            self._garbled(error)

    def take(self, message: _suci.Message) -> None:
        """Takes a message of the channel."""
        target, self._target = self._target, None
        self._next = message.number + 1
        try:
            if message.kind == HEAD and self._arriving is None:
                self._arriving = Arriving(message.payload if target is None else target)
            elif message.kind == PIECE and self._arriving is not None:
                if target is None:
                    self._arriving.copy(message.payload)
                else:
                    self._arriving.advance(len(target))
            else:
                raise ValueError(f"a message of kind {message.kind} is out of place")
        except ValueError as error:
            self._garbled(error)
            return
        if self._arriving.complete:
            self._complete.append(self._arriving)
            self._arriving = None
            self._wake()
        self._accept_announced()

    def _garbled(self, error: Exception) -> None:
        logger.error("node %d sent what is no message of Dask: %s", self.peer, error)
        self.fail(CommClosedError(f"node {self.peer} sent what is no message of Dask: {error}"))


class Endpoint:
    """A node in an event loop, and its connections."""

    def __init__(self, node: _suci.Node, ip: str, port: int, keys: Keys) -> None:
        self.node = node
        self.loop = asyncio.get_running_loop()
        self.ip = ip
        self.port = port
        self.keys = keys
        self.listener: Optional[SuciListener] = None
        #: It has, or had, a listener.
        self.listens = False
        self._streams: Dict[Tuple[int, int], Stream] = {}
        self._addresses: Dict[int, Tuple[str, int]] = {}
        self._waiting: "Dict[int, List[asyncio.Future[None]]]" = {}
        self._next = itertools.count(1)
        self._descriptor = node.fileno()
        self._lingers: Optional[asyncio.TimerHandle] = None
        self.loop.add_reader(self._descriptor, self._on_ready)

    # ---- connections

    async def open(self, peer: int, address: Tuple[str, int]) -> Stream:
        """Opens a connection. Raises OSError."""
        channel = 2 * (next(self._next) % CHANNELS + 1) + (self.node.id > peer)
        self._keep()
        stream = Stream(self, peer, channel)
        try:
            if self._addresses.get(peer) != address:
                self.node.add_peer(peer, address)
                self._addresses[peer] = address
            self.node.try_send(peer, b"", channel=channel, kind=OPEN)
        except Error as error:
            raise CommClosedError(str(error)) from error
        self._streams[peer, channel] = stream
        try:
            await stream.opened
        except BaseException:
            stream.close()
            if not any(node == peer for node, _ in self._streams):
                self._forget(peer)
            raise
        return stream

    def _forget(self, peer: int) -> None:
        """Stops calling a peer that does not answer."""
        if self._addresses.pop(peer, None) is not None:
            try:
                self.node.remove_peer(peer)
            except Error:
                # The node is closed, and calls nobody.
                pass

    def finish(self, stream: Stream) -> None:
        """Ends this side's direction of a connection, and forgets it."""
        self._streams.pop((stream.peer, stream.channel), None)
        try:
            self.node.peer(stream.peer).finish_channel(stream.channel)
        except Error:
            # The session or the node has ended, and all channels with it.
            pass
        self.close_if_idle()

    def refuse(self, event: events.Incoming) -> None:
        try:
            self.node.refuse(event)
        except Error:
            # Its session has ended.
            pass

    def address_of(self, peer: int) -> str:
        """Where the packets of a peer come from."""
        stats = self.node.peer(peer).stats()
        return PREFIX + (stats.address if stats is not None and stats.address else f"node-{peer}")

    def local_address(self, ip: str) -> str:
        """This node's address as a peer at `ip` sees it."""
        own = get_ip(ip) if is_wildcard(self.ip) else self.ip
        return PREFIX + unparse_host_port(own, self.port)

    def reaches(self, ip: str) -> bool:
        if (":" in ip) != (":" in self.ip):
            return False
        return is_wildcard(self.ip) or is_loopback(self.ip) == is_loopback(ip)

    def is_at(self, ip: str, port: int) -> bool:
        return port == self.port and self.node.id in ids_at(ip, port)

    def room(self, peer: int) -> "asyncio.Future[None]":
        """Done when the queue to the peer has room, or its session has ended."""
        future = self.loop.create_future()
        self._waiting.setdefault(peer, []).append(future)
        return future

    def _tell_room(self, peer: int) -> None:
        for future in self._waiting.pop(peer, ()):
            if not future.done():
                future.set_result(None)

    # ---- what the node says

    def _on_ready(self) -> None:
        try:
            for _ in range(TURN):
                item = self.node.try_next()
                if item is None:
                    return
                if isinstance(item, _suci.Message):
                    self._on_message(item)
                else:
                    self._on_event(item)
        except Error as error:
            # It was closed, or this is the child of a fork.
            self.loop.remove_reader(self._descriptor)
            self._end_all(CommClosedError(str(error)), self._streams)

    def _on_message(self, message: _suci.Message) -> None:
        key = message.source, message.channel
        stream = self._streams.get(key)
        if stream is not None and stream.opened.done():
            stream.take(message)
        elif stream is not None and message.kind == OPENED:
            stream.opened.set_result(None)
        elif message.kind == OPEN and stream is None:
            self._accept(*key)

    def _accept(self, peer: int, channel: int) -> None:
        stream = Stream(self, peer, channel)
        if self.listener is None:
            stream.finish()
            return
        try:
            self.node.try_send(peer, b"", channel=channel, kind=OPENED)
        except Error as error:
            stream.fail(CommClosedError(str(error)))
            return
        stream.opened.set_result(None)
        self._streams[peer, channel] = stream
        self._keep()
        self.listener.begin(stream, self.address_of(peer))

    def _on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Incoming):
            stream = self._streams.get((event.node, event.channel))
            if stream is None:
                self.refuse(event)
            else:
                stream.announce(event)
        elif isinstance(event, events.ChannelFinished):
            stream = self._streams.get((event.node, event.channel))
            if stream is not None:
                stream.fail(CommClosedError(f"node {event.node} closed the connection"))
        elif isinstance(event, events.NotDelivered):
            stream = self._streams.get((event.node, event.channel))
            if stream is not None:
                stream.fail(
                    CommClosedError(f"node {event.node} did not take a message: {event.reason}")
                )
        elif isinstance(event, events.Ended):
            self._end_peer(event.node, CommClosedError(event.text))
            stats = self.node.peer(event.node).stats()
            if stats is None or stats.link is not events.Link.UP:
                self._forget(event.node)
        elif isinstance(event, events.Lost):
            self._on_lost(event)
        elif isinstance(event, events.Refused):
            self._on_refused(event)
        elif isinstance(event, events.Writable):
            self._tell_room(event.node)

    def _on_lost(self, event: events.Lost) -> None:
        """A peer is silent. If its process is gone, its connections are over."""
        error: OSError = CommClosedError(f"node {event.node} does not answer: {event.cause.value}")
        gone = (events.LostCause.PROCESS_DIED, events.LostCause.NO_SOCKET)
        if event.cause in gone:
            self._end_peer(event.node, error)
            try:
                self.node.peer(event.node).reset()
            except Error:
                # Its session has ended already.
                pass
            self._forget(event.node)
            return
        if event.cause is events.LostCause.REFUSED:
            # Its reason was told earlier: it is that of `_on_refused` for an ID that is another's.
            error = WrongNode(str(error))
        unopened = {
            key: stream
            for key, stream in self._streams.items()
            if key[0] == event.node and not stream.opened.done()
        }
        self._end_all(error, unopened)

    def _on_refused(self, event: events.Refused) -> None:
        text = f"node {event.node} refuses this one: {event.text}"
        error: OSError
        if event.reason == "wrong-node":
            error = WrongNode(text)
        elif "key" in event.reason or event.reason == "mode":
            # Trying again does not help.
            error = FatalCommClosedError(text)
        else:
            error = CommClosedError(text)
        self._end_peer(event.node, error)
        self._forget(event.node)

    def _end_peer(self, peer: int, error: OSError) -> None:
        self._end_all(error, {key: s for key, s in self._streams.items() if key[0] == peer})
        self._tell_room(peer)

    @staticmethod
    def _end_all(error: OSError, streams: Dict[Tuple[int, int], Stream]) -> None:
        for stream in list(streams.values()):
            stream.fail(error)

    # ---- the end

    def _keep(self) -> None:
        if self._lingers is not None:
            self._lingers.cancel()
            self._lingers = None

    def close_if_idle(self) -> None:
        """Closes a node without connections: that of a listener at once, another one later."""
        if self._streams or self.listener is not None or self.node.closed:
            return
        if self.listens or self.loop.is_closed():
            self.close()
        elif self._lingers is None:
            self._lingers = self.loop.call_later(LINGER, self.close)

    def close(self) -> None:
        """Closes the node in the background: its thread delivers what was sent."""
        self._keep()
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)
        endpoints.discard(self)
        if self.listens:
            closing[self.port] = time.monotonic() + PATIENCE + 1
        self._end_all(CommClosedError("the node is closed"), self._streams)
        try:
            operation = _suci.Operations(self.node).close(PATIENCE)
            if operation is not None:
                operation.poll()
        except Error:
            # This is the child of a fork, or everything that could be delivered was.
            pass


#: The nodes of this process.
endpoints: Set[Endpoint] = set()

#: The ID of the node that answered at an address. A refusal is told once, so it is asked first.
answered: Dict[Tuple[str, int], int] = {}

#: Ports of nodes that were closed, and when they are free at the latest.
closing: Dict[int, float] = {}


def endpoints_here() -> List[Endpoint]:
    """The nodes of the running event loop. Those of loops that ended are closed."""
    for endpoint in list(endpoints):
        if endpoint.loop.is_closed():
            endpoint.close()
    loop = asyncio.get_running_loop()
    return [
        endpoint for endpoint in endpoints if endpoint.loop is loop and not endpoint.node.closed
    ]


def endpoint_to(ip: str, port: int, keys: Keys) -> Endpoint:
    """A node from which the address can be reached: a listener's, or one without."""
    usable = [
        endpoint
        for endpoint in endpoints_here()
        if endpoint.keys == keys and endpoint.reaches(ip) and not endpoint.is_at(ip, port)
    ]
    usable.sort(key=lambda endpoint: endpoint.listener is None)
    if usable:
        return usable[0]
    if is_loopback(ip):
        own = "::1" if ":" in ip else "127.0.0.1"
    else:
        own = "::" if ":" in ip else "0.0.0.0"
    node = keys.open(own, 0, random.getrandbits(32))
    _, own_port = parse_host_port(node.address)
    endpoint = Endpoint(node, own, own_port, keys)
    endpoints.add(endpoint)
    return endpoint
