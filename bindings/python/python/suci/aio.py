"""A node for asyncio, without threads of Python.

    async with suci.aio.Node(1, book={0: "127.0.0.1:7000", 1: "127.0.0.1:7001"}) as node:
        reply = await node.call(0, b"seven times six")

A task that is cancelled while it waits loses no message: it takes one only when it goes on. Any
number of tasks may wait at once. A node belongs to the event loop in which it first waited.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Type, Union

from . import _suci
from ._errors import Closed, Error, TimedOut, WouldBlock
from ._events import Agreed, Event, Member, PeerInfo
from ._suci import Message, Peer

if TYPE_CHECKING:
    from ._types import Address, Combination, ReadableBuffer, WritableBuffer

__all__ = ["Group", "Node"]

_PENDING = ...

#: How many seconds `close` waits unless it is told.
_PATIENCE = 5.0


class Node:
    """A node whose calls are awaited.

    The arguments are those of `suci.Node`, and so are the calls' names, arguments and exceptions.
    Calls that never wait are plain methods.
    """

    __slots__ = ("_loop", "_node", "_operations", "_waiting", "__weakref__")

    def __init__(self, id: Optional[int] = None, **settings: Any) -> None:
        self._node = _suci.Node(id, **settings)
        self._operations = _suci.Operations(self._node)
        self._waiting: Dict[int, asyncio.Future[None]] = {}
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    @classmethod
    def from_env(cls, **settings: Any) -> Node:
        """Opens the node that the environment describes, as `suci run` makes it."""
        return cls(None, **settings)

    def __repr__(self) -> str:
        return repr(self._node).replace("suci.Node", "suci.aio.Node", 1)

    # ---- waiting

    def _loop_of_node(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            loop.add_reader(self._operations.fileno(), self._on_woken)
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError(
                f"{self!r} belongs to another event loop: open a node in each loop, "
                "or use suci.Node, which any thread may use"
            )
        return loop

    def _on_woken(self) -> None:
        for key in self._operations.woken():
            future = self._waiting.get(key)
            if future is not None and not future.done():
                future.set_result(None)

    async def _wait(
        self, operation: _suci.Operation, what: str = "", timeout: Optional[float] = None
    ) -> Any:
        """Polls the operation until it has a result, for at most `timeout` seconds."""
        loop = self._loop_of_node()
        limit = None if timeout is None else _suci.seconds(timeout)
        result = operation.poll()
        if result is not _PENDING:
            return result
        key, waiting = operation.key, self._waiting
        is_over = False
        alarm = None

        def stop() -> None:
            nonlocal is_over
            is_over = True
            future = waiting.get(key)
            if future is not None and not future.done():
                future.set_result(None)

        if limit is not None:
            alarm = loop.call_later(limit, stop)
        try:
            while True:
                future = waiting[key] = loop.create_future()
                await future
                result = operation.poll()
                if result is not _PENDING:
                    return result
                if is_over:
                    raise TimedOut(
                        f"{what} within {timeout} s: await it again, or allow more time (timeout)"
                    )
        finally:
            del waiting[key]
            operation.cancel()
            if alarm is not None:
                alarm.cancel()

    # ---- who and where

    @property
    def id(self) -> int:
        """This node's ID."""
        return self._node.id

    @property
    def address(self) -> str:
        """The local address, with the port that the system chose."""
        return self._node.address

    @property
    def closed(self) -> bool:
        """Whether the node is closed or closing."""
        return self._node.closed

    def add_peer(self, node: int, address: Address) -> None:
        """Enters a node and its address into the book."""
        self._node.add_peer(node, address)

    def remove_peer(self, node: int) -> bool:
        """Removes a node from the book and ends its session at once."""
        return self._node.remove_peer(node)

    def peers(self) -> List[PeerInfo]:
        """All peers, by ID."""
        return self._node.peers()

    def peer(self, node: int) -> Peer:
        """One peer: its options, its statistics, its end. Its calls do not wait for it."""
        return self._node.peer(node)

    def counters(self) -> Dict[str, int]:
        """The counters since the node was opened."""
        return self._node.counters()

    def socket_counters(self) -> Dict[str, int]:
        """The counters of the socket."""
        return self._node.socket_counters()

    # ---- sending

    async def send(
        self, dest: int, data: ReadableBuffer, *, timeout: Optional[float] = None, **options: Any
    ) -> None:
        """Sends a message; waits while the queue to the peer is full.

        A cancelled call sent nothing, unless it was about to return.
        """
        operation = self._operations.send(dest, data, options or None)
        try:
            await self._wait(operation, "no room in the queue", timeout)
        except TimedOut:
            error = WouldBlock(
                f"the queue to node {dest} is full: allow more time (timeout), or raise send_queue"
            )
            error.node = dest
            raise error from None

    def try_send(self, dest: int, data: ReadableBuffer, **options: Any) -> None:
        """Sends a message if there is room for it now; raises WouldBlock if not."""
        self._node.try_send(dest, data, **options)

    async def call(self, dest: int, data: ReadableBuffer, **options: Any) -> Message:
        """Sends a request and waits for its reply. A cancelled call drops the reply."""
        message: Message = await self._wait(self._operations.call(dest, data, options or None))
        return message

    async def reply(self, request: Message, data: ReadableBuffer, **options: Any) -> None:
        """Answers a request."""
        await self._wait(self._operations.reply(request, data, options or None))

    async def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until every accepted message was acknowledged or has failed."""
        try:
            await self._wait(self._operations.flush(), "not everything was delivered", timeout)
        except TimedOut:
            # Says which peers have not acknowledged everything.
            self._node.flush(0)

    async def broadcast(
        self,
        dests: Iterable[int],
        data: ReadableBuffer,
        *,
        timeout: Optional[float] = None,
        **options: Any,
    ) -> Dict[int, Exception]:
        """Sends one payload to many nodes, and holds it once. Waits while a queue is full, for at
        most `timeout` seconds each. Returns the exceptions of those that did not accept it."""
        failed: Dict[int, Exception] = {}
        for dest in list(dests):
            try:
                await self.send(dest, data, timeout=timeout, **options)
            except Error as error:
                failed[dest] = error
        return failed

    # ---- receiving

    async def recv(
        self,
        timeout: Optional[float] = None,
        *,
        source: Optional[int] = None,
        channel: Optional[int] = None,
    ) -> Message:
        """Waits for the next message, of one node, on one channel, or any."""
        operation = self._operations.recv(source, channel)
        message: Message = await self._wait(operation, "no message came", timeout)
        return message

    def try_recv(
        self, *, source: Optional[int] = None, channel: Optional[int] = None
    ) -> Optional[Message]:
        """The next message if there is one now, else None."""
        return self._node.try_recv(source=source, channel=channel)

    async def recv_into(
        self,
        buffer: WritableBuffer,
        timeout: Optional[float] = None,
        *,
        source: Optional[int] = None,
        channel: Optional[int] = None,
    ) -> Message:
        """Waits for the next message and copies it into `buffer`. Raises BufferTooShort if it does
        not fit, and keeps it for the next call that receives."""
        operation = self._operations.recv(source, channel, buffer)
        message: Message = await self._wait(operation, "no message came", timeout)
        return message

    async def next(self, timeout: Optional[float] = None) -> Union[Message, Event]:
        """Waits for the next message or event, in exact order."""
        item: Union[Message, Event] = await self._wait(
            self._operations.next(), "no message or event came", timeout
        )
        return item

    def try_next(self) -> Union[Message, Event, None]:
        """The next message or event if there is one now, else None."""
        return self._node.try_next()

    async def next_event(self, timeout: Optional[float] = None) -> Event:
        """Waits for the next event; messages stay."""
        event: Event = await self._wait(self._operations.next_event(), "no event came", timeout)
        return event

    def accept(self, event: Event, buffer: Optional[WritableBuffer] = None) -> None:
        """Takes the long message that Incoming announced, into `buffer` if there is one."""
        self._node.accept(event, buffer)

    def refuse(self, event: Event, reason: int = 0) -> None:
        """Refuses the long message that Incoming announced."""
        self._node.refuse(event, reason)

    # ---- groups and members

    def group(self, number: int, members: Iterable[int]) -> Group:
        """Makes a group of `members`, node IDs of which this one is one."""
        return Group(self, self._node.group(number, members))

    def members(self) -> List[Member]:
        """The members of the cluster that are known and alive."""
        return self._node.members()

    # ---- the end

    async def close(self, timeout: float = _PATIENCE) -> None:
        """Closes the node, as Node.close does. Tasks that wait get Closed."""
        operation = self._operations.close(timeout)
        if operation is None:
            return
        try:
            await self._wait(operation)
        finally:
            if self._loop is not None:
                self._loop.remove_reader(self._operations.fileno())
                # The descriptor is watched no more: those that still wait learn of the end.
                for future in self._waiting.values():
                    if not future.done():
                        future.set_exception(Closed("the node is closed: open a new one to go on"))

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            await self.close()
            return
        try:
            await self.close(0)
        except Exception:
            # The failure of the block is what the program must see.
            pass


class Group:
    """A group whose operations are awaited: Node.group() makes it.

    The calls' names, arguments and exceptions are those of `suci.Group`. A cancelled call leaves
    its operation to itself: nothing else can be begun before it ends.
    """

    __slots__ = ("_group", "_node")

    def __init__(self, node: Node, group: _suci.Group) -> None:
        self._node = node
        self._group = group

    def __repr__(self) -> str:
        return repr(self._group).replace("suci.Group", "suci.aio.Group", 1)

    @property
    def number(self) -> int:
        """The number that tells groups of the same members apart."""
        return self._group.number

    @property
    def rank(self) -> int:
        """This member's rank, from 0."""
        return self._group.rank

    @property
    def size(self) -> int:
        """The number of members."""
        return self._group.size

    @property
    def members(self) -> List[int]:
        """The members' node IDs, in the order of their ranks."""
        return self._group.members

    async def _run(self, timeout: Optional[float], name: str, *arguments: Any) -> Any:
        operation = self._node._operations.group(self._group, name, *arguments)
        return await self._node._wait(operation, "the operation did not end", timeout)

    async def barrier(self, timeout: Optional[float] = None) -> None:
        """Waits until all members have begun it."""
        await self._run(timeout, "barrier")

    async def broadcast(
        self, data: WritableBuffer, root: int = 0, timeout: Optional[float] = None
    ) -> None:
        """Copies the data of the member `root` into those of all others."""
        await self._run(timeout, "broadcast", data, root)

    async def reduce(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        root: int = 0,
        timeout: Optional[float] = None,
    ) -> None:
        """Combines the elements at equal places; the result replaces the data of `root`."""
        await self._run(timeout, "reduce", data, op, root)

    async def allreduce(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """As reduce; the result replaces the data of all members."""
        await self._run(timeout, "allreduce", data, op)

    async def scan(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Gives each member the combination of the data of all members up to itself."""
        await self._run(timeout, "scan", data, op)

    async def exclusive_scan(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Gives each member the combination of the data of all members before it."""
        await self._run(timeout, "exclusive_scan", data, op)

    async def gather(
        self,
        data: ReadableBuffer,
        root: int = 0,
        lengths: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> memoryview:
        """Collects the data of all members at the member `root`, in the order of their ranks."""
        elements: memoryview = await self._run(timeout, "gather", data, root, lengths)
        return elements

    async def allgather(
        self,
        data: ReadableBuffer,
        lengths: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> memoryview:
        """As gather, at all members."""
        elements: memoryview = await self._run(timeout, "allgather", data, lengths)
        return elements

    async def scatter(
        self,
        data: Optional[ReadableBuffer],
        into: WritableBuffer,
        root: int = 0,
        lengths: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Fills `into` with this member's part of the data of the member `root`."""
        await self._run(timeout, "scatter", data, into, root, lengths)

    async def all_to_all(
        self,
        data: ReadableBuffer,
        lengths: Optional[Sequence[int]] = None,
        received: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> memoryview:
        """Sends the i-th part of the data to member i; returns what the others sent."""
        elements: memoryview = await self._run(timeout, "all_to_all", data, lengths, received)
        return elements

    async def agree(self, value: Optional[int] = None, timeout: Optional[float] = None) -> Agreed:
        """Agrees with all members that are left on a value and on those that failed."""
        agreed: Agreed = await self._run(timeout, "agree", value)
        return agreed

    async def shrink(self, timeout: Optional[float] = None) -> Group:
        """Makes a group of the members that are left. This group is over then."""
        return Group(self._node, await self._run(timeout, "shrink"))
