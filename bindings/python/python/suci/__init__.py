"""Reliable messages to every process of a cluster through one UDP socket.

    import suci

    with suci.Node(1, book={0: "127.0.0.1:7000", 1: "127.0.0.1:7001"}) as node:
        node.send(0, b"hello")
        print(bytes(node.recv().payload))

`Node` has calls that block; `suci.aio.Node` is for asyncio. Started by `suci run`, a process opens
its node by `Node.from_env()`. docs/python.md has programs.
"""

from . import _errors, _events
from ._errors import *  # noqa: F403
from ._events import *  # noqa: F403
from ._suci import Group, Message, Node, Peer, __version__, env_id, env_size

__all__ = ["Group", "Message", "Node", "Peer", "__version__", "aio", "env_id", "env_size"]
__all__ += _errors.__all__
__all__ += _events.__all__

from . import aio  # noqa: E402
