"""The classes that Dask uses."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import time
import weakref
from typing import Any, Dict, Optional, Set, Tuple

import dask
from dask.utils import parse_bytes
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import (
    BaseListener,
    Comm,
    CommClosedError,
    Connector,
    FatalCommClosedError,
)
from distributed.comm.registry import Backend
from distributed.comm.utils import ensure_concrete_host, from_frames, to_frames
from distributed.utils import ensure_ip, get_ip

from . import _nodes as nodes
from ._addresses import PREFIX, Keys, ids_at, is_wildcard, node_id, numeric, reserve
from ._messages import pieces
from ._nodes import Endpoint, Stream, WrongNode

logger = logging.getLogger("suci.dask")


class Suci(Comm):
    """A connection of Dask: a channel of a node."""

    max_shard_size = parse_bytes(dask.config.get("distributed.comm.shard"))

    def __init__(
        self, stream: Stream, local_addr: str, peer_addr: str, deserialize: bool = True
    ) -> None:
        super().__init__(deserialize=deserialize)
        self.stream: Optional[Stream] = stream
        self._stream = stream
        self._local_addr = local_addr
        self._peer_addr = peer_addr
        self._finalizer = weakref.finalize(self, _close_dangling, stream, repr(self))
        self._finalizer.atexit = False

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    @property
    def extra_info(self) -> Dict[str, Any]:
        """The node's ID of each end, if the connection is encrypted."""
        keys = self._stream.endpoint.keys
        if keys.key_file is None:
            return {}
        return {"node": self._stream.endpoint.node.id, "peer": self._stream.peer}

    async def read(self, deserializers: Any = None) -> Any:
        stream = self.stream
        if stream is None:
            raise CommClosedError(f"{self!r} is closed")
        try:
            message = await stream.read()
            frames = message.frames()
            del message
        except CommClosedError as error:
            self._close()
            raise CommClosedError(f"in {self!r}: {error}") from error
        except ValueError as error:
            self.abort()
            raise CommClosedError(f"in {self!r}: no message of Dask came: {error}") from error
        except BaseException:
            # As with other backends, a read that is cancelled ends the connection.
            self.abort()
            raise
        try:
            return await from_frames(
                frames,
                deserialize=self.deserialize,
                deserializers=deserializers,
                allow_offload=self.allow_offload,
            )
        except EOFError as error:
            self.abort()
            raise CommClosedError("aborted stream on truncated data") from error

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        stream = self.stream
        if stream is None:
            raise CommClosedError(f"{self!r} is closed")
        stream.check_writable()
        frames = await to_frames(
            msg,
            allow_offload=self.allow_offload,
            serializers=serializers,
            on_error=on_error,
            context={
                "sender": self.local_info,
                "recipient": self.remote_info,
                **self.handshake_options,
            },
            frame_split_size=self.max_shard_size,
        )
        messages, total = pieces(frames)
        try:
            await stream.write(messages)
        except CommClosedError as error:
            self._close()
            raise CommClosedError(f"in {self!r}: {error}") from error
        except BaseException:
            # A part of the message may have been sent.
            self.abort()
            raise
        return total

    def _close(self) -> None:
        stream, self.stream = self.stream, None
        self._finalizer.detach()
        if stream is not None:
            stream.close()

    async def close(self) -> None:
        self._close()

    def abort(self) -> None:
        self._close()

    def closed(self) -> bool:
        return self.stream is None or self.stream.at_end


def _close_dangling(stream: Stream, text: str) -> None:
    """Closes the stream of a comm that nobody has any more."""
    if not stream.finished:
        logger.warning("Closing dangling stream in %s", text)
    loop = stream.endpoint.loop
    if loop.is_closed():
        stream.close()
    else:
        loop.call_soon_threadsafe(stream.close)


class SuciConnector(Connector):
    prefix = PREFIX
    comm_class = Suci

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> Suci:
        host, port = parse_host_port(address)
        keys = Keys(PREFIX + address, connection_args)
        ip = await numeric(host)
        if is_wildcard(ip):
            # As TCP does.
            ip = "::1" if ":" in ip else "127.0.0.1"
        endpoint = nodes.endpoint_to(ip, port, keys)
        try:
            stream = await self._open(endpoint, ip, port)
        finally:
            endpoint.close_if_idle()
        return self.comm_class(stream, endpoint.local_address(ip), PREFIX + address, deserialize)

    @staticmethod
    async def _open(endpoint: Endpoint, ip: str, port: int) -> Stream:
        known = nodes.answered.get((ip, port))
        for id in itertools.chain(() if known is None else (known,), ids_at(ip, port)):
            try:
                stream = await endpoint.open(id, (ip, port))
            except WrongNode:
                nodes.answered.pop((ip, port), None)
                continue
            nodes.answered[ip, port] = id
            return stream
        raise FatalCommClosedError(
            f"another node listens at {PREFIX}{unparse_host_port(ip, port)}: its ID comes from "
            "another address of its machine; connect to the address that it prints when it starts"
        )


class SuciListener(BaseListener):
    prefix = PREFIX
    comm_class = Suci

    def __init__(
        self,
        address: str,
        comm_handler: Any,
        deserialize: bool = True,
        allow_offload: bool = True,
        default_host: Optional[str] = None,
        default_port: int = 0,
        **connection_args: Any,
    ) -> None:
        super().__init__()
        self._keys = Keys(PREFIX + address, connection_args)
        self.ip, self.port = parse_host_port(address, default_port)
        self.default_host = default_host
        self.comm_handler = comm_handler
        self.deserialize = deserialize
        self.allow_offload = allow_offload
        self._endpoint: Optional[Endpoint] = None
        self._tasks: "Set[asyncio.Task[None]]" = set()

    async def start(self) -> None:
        ip = await numeric(self.ip) if self.ip else "0.0.0.0"
        self._endpoint = await self._endpoint_at(ip)
        self._endpoint.listener = self
        self._endpoint.listens = True
        nodes.endpoints.add(self._endpoint)

    async def _endpoint_at(self, ip: str) -> Endpoint:
        for endpoint in nodes.endpoints_here():
            # A listener was here that has stopped; its connections go on.
            at = (endpoint.ip, endpoint.port, endpoint.keys, endpoint.listener)
            if at == (ip, self.port, self._keys, None):
                return endpoint
        while True:
            try:
                port = reserve(ip, self.port)
                host = ensure_concrete_host(ip, default_host=self.default_host)
                node = self._keys.open(ip, port, node_id(ensure_ip(host), port))
                return Endpoint(node, ip, port, self._keys)
            except OSError as error:
                # A node of this process that is closing may have the port.
                is_closing = nodes.closing.get(self.port, 0.0) > time.monotonic()
                if error.errno != errno.EADDRINUSE or not is_closing:
                    raise
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.listener = None
            endpoint.close_if_idle()

    def begin(self, stream: Stream, address: str) -> None:
        """Hands a connection over."""
        task = asyncio.ensure_future(self._handle_stream(stream, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle_stream(self, stream: Stream, address: str) -> None:
        if self._endpoint is None:
            # It was stopped since the connection came.
            stream.close()
            return
        logger.debug("Incoming connection from %r to %r", address, self.contact_address)
        host, _ = parse_host_port(address[len(PREFIX) :])
        comm = self.comm_class(
            stream, self._endpoint.local_address(host), address, self.deserialize
        )
        comm.allow_offload = self.allow_offload
        try:
            await self.on_connection(comm)
        except CommClosedError:
            logger.info("Connection from %s closed before handshake completed", address)
            return
        await self.comm_handler(comm)

    def get_host_port(self) -> Tuple[str, int]:
        """The listening address."""
        if self._endpoint is None:
            raise ValueError("invalid operation on a listener that is not started")
        return self._endpoint.ip, self._endpoint.port

    @property
    def listen_address(self) -> str:
        return PREFIX + unparse_host_port(*self.get_host_port())

    @property
    def contact_address(self) -> str:
        host, port = self.get_host_port()
        host = ensure_concrete_host(host, default_host=self.default_host)
        return PREFIX + unparse_host_port(host, port)


class SuciBackend(Backend):
    _connector_class = SuciConnector
    _listener_class = SuciListener

    def get_connector(self) -> Connector:
        return self._connector_class()

    def get_listener(
        self, loc: str, handle_comm: Any, deserialize: bool, **connection_args: Any
    ) -> BaseListener:
        return self._listener_class(loc, handle_comm, deserialize, **connection_args)

    def get_address_host(self, loc: str) -> str:
        return str(parse_host_port(loc)[0])

    def get_address_host_port(self, loc: str) -> Tuple[str, int]:
        host, port = parse_host_port(loc)
        return host, port

    def resolve_address(self, loc: str) -> str:
        host, port = parse_host_port(loc)
        return str(unparse_host_port(ensure_ip(host), port))

    def get_local_address_for(self, loc: str) -> str:
        host, _ = parse_host_port(loc)
        return str(unparse_host_port(get_ip(ensure_ip(host)), None))
