"""Addresses, node IDs and keys."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import zlib
from typing import Any, Dict, Iterator, Optional

import dask
import distributed
import psutil
from dask.utils import parse_timedelta
from distributed.comm.addressing import unparse_host_port
from distributed.utils import ensure_ip

from .. import _suci
from .._errors import ConfigurationError
from ._messages import ANNOUNCED

PREFIX = "suci://"

#: Memory that one peer's queue may hold: Dask counts on connections that take what they are given.
QUEUE = 1 << 40

#: A peer is asked for a sign of life three times in this many seconds. So a killed process of
#: another machine is noticed within them, and one of this machine within a third.
SILENCE = 1.5


class Security(distributed.Security):
    """The security settings of a cluster that encrypts by a key file: `Security(key_file="...")`.

    All processes need the same key; `suci keygen` makes one. A cluster takes this object as its
    `security`, and so does a client. The file must be at the same path in all processes.
    """

    __slots__ = ("key_file",)

    def __init__(self, key_file: "str | os.PathLike[str]", **settings: Any) -> None:
        self.key_file = os.path.abspath(os.fspath(key_file))
        super().__init__(**{"require_encryption": True, **settings})

    def get_connection_args(self, role: str) -> Dict[str, Any]:
        return {**super().get_connection_args(role), "key_file": self.key_file}

    def get_listen_args(self, role: str) -> Dict[str, Any]:
        return {**super().get_listen_args(role), "key_file": self.key_file}


def node_id(ip: str, port: int) -> int:
    """The ID of a node that listens at this address.

    It is unique in a network of up to 65,536 addresses. In a larger one two nodes that share 16
    bits of their addresses, and the port, have one ID.
    """
    if ":" in ip:
        packed = socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
        low = zlib.crc32(packed) & 0xFFFF
    else:
        low = int.from_bytes(socket.inet_aton(ip)[2:], "big")
    return low << 16 | port


def is_loopback(ip: str) -> bool:
    return ip == "::1" or ip.startswith("127.")


def is_wildcard(ip: str) -> bool:
    return ip in ("0.0.0.0", "::")


def ids_at(ip: str, port: int) -> Iterator[int]:
    """The IDs that a listener at this address may have.

    A listener of all addresses has the ID of the one that it tells. Of this machine all addresses
    are known.
    """
    first = node_id(ip, port)
    yield first
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    local = [
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == family
    ]
    if ip in local or is_loopback(ip) or is_wildcard(ip):
        for own in dict.fromkeys(local):
            if node_id(own, port) != first:
                yield node_id(own, port)


async def numeric(host: str) -> str:
    """The address of a host. Names are resolved in a thread."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.inet_pton(family, host.partition("%")[0])
        return host
    except OSError:
        return await asyncio.get_running_loop().run_in_executor(None, ensure_ip, host)


def reserve(ip: str, port: int) -> int:
    """Returns a port that is free at this address, `port` if it is not 0. Raises OSError."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((ip, port))
        return int(probe.getsockname()[1])


class Keys:
    """What a node is opened with, and which connections may share it."""

    def __init__(self, address: str, arguments: Dict[str, Any]) -> None:
        extra = arguments.get("extra_conn_args") or {}
        key_file = (
            arguments.get("key_file")
            or extra.get("key_file")
            or dask.config.get("distributed.comm.suci.key-file", None)
            or os.environ.get("SUCI_KEY_FILE")
        )
        self.key_file: Optional[str] = None if key_file is None else os.fspath(key_file)
        self.insecure = bool(dask.config.get("distributed.comm.suci.allow-insecure-network", False))
        if self.key_file is None and arguments.get("require_encryption"):
            raise RuntimeError(
                f"encryption is required by Dask's configuration, and {address!r} has no key: "
                "make one by `suci keygen`, and name it by suci.dask.Security(key_file=...), the "
                "setting distributed.comm.suci.key-file or SUCI_KEY_FILE"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and vars(self) == vars(other)

    def open(self, ip: str, port: int, id: int) -> _suci.Node:
        """Opens a node. Raises OSError."""
        silence = parse_timedelta(
            dask.config.get("distributed.comm.timeouts.tcp"), default="seconds"
        )
        try:
            return _suci.Node(
                id,
                listen=(ip, port),
                accept="anyone",
                key_file=self.key_file,
                allow_insecure_network=self.insecure or None,
                max_message=ANNOUNCED,
                send_queue=QUEUE,
                keep_alive=True,
                silence_timeout=min(SILENCE, silence),
                give_up_after=silence,
                ignore_supervision=True,
            )
        except ConfigurationError as error:
            text = f"{PREFIX}{unparse_host_port(ip, port)}: {error}"
            raise OSError(errno.EINVAL, text) from error
