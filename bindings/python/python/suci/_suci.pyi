from types import TracebackType
from typing import Any, Dict, Iterable, List, Literal, Optional, Sequence, Tuple, Type, Union
from typing import final

from typing_extensions import Self

from ._events import Agreed, Event, Member, PeerInfo, PeerOptions, PeerStats
from ._types import Address, Combination, Path, ReadableBuffer, WritableBuffer

__version__: str

def env_id() -> Optional[int]: ...
def env_size() -> Optional[int]: ...
def seconds(timeout: float) -> float: ...
@final
class Message:
    @property
    def source(self) -> int: ...
    @property
    def channel(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def session(self) -> int: ...
    @property
    def user_header(self) -> bytes: ...
    @property
    def is_request(self) -> bool: ...
    @property
    def payload(self) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> Literal[True]: ...

@final
class Peer:
    @property
    def id(self) -> int: ...
    def options(self) -> PeerOptions: ...
    def configure(
        self,
        *,
        mode: Literal["adaptive", "throughput", "response"] = ...,
        priority: Tuple[int, int] = ...,
        controller: Union[Literal["auto", "lan", "wan", "cubic"], int] = ...,
        rate_cap: Optional[int] = ...,
        silence_timeout: float = ...,
        give_up_after: float = ...,
        keep_alive: bool = ...,
        manual_retransmission: bool = ...,
    ) -> None: ...
    def stats(self) -> Optional[PeerStats]: ...
    def controller(self) -> Optional[str]: ...
    def queue_len(self) -> Tuple[int, int]: ...
    def delivered(self, channel: Optional[int] = None) -> int: ...
    def remote_window(self, channel: Optional[int] = None) -> int: ...
    def set_channel_priority(
        self, channel: int, class_: int, weight: Optional[int] = None
    ) -> None: ...
    def finish_channel(self, channel: int) -> bool: ...
    def cancel(self, token: int, channel: Optional[int] = None) -> int: ...
    def connect(self) -> None: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...
    def retransmit(self) -> None: ...
    def close(self, timeout: Optional[float] = None) -> bool: ...
    def reset(self) -> bool: ...

@final
class Group:
    @property
    def number(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def members(self) -> List[int]: ...
    def barrier(self, timeout: Optional[float] = None) -> None: ...
    def broadcast(
        self, data: WritableBuffer, root: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def reduce(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        root: int = 0,
        timeout: Optional[float] = None,
    ) -> None: ...
    def allreduce(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        timeout: Optional[float] = None,
    ) -> None: ...
    def scan(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        timeout: Optional[float] = None,
    ) -> None: ...
    def exclusive_scan(
        self,
        data: WritableBuffer,
        op: Optional[Combination] = None,
        timeout: Optional[float] = None,
    ) -> None: ...
    def gather(
        self,
        data: ReadableBuffer,
        root: int = 0,
        lengths: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> memoryview: ...
    def allgather(
        self,
        data: ReadableBuffer,
        lengths: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> memoryview: ...
    def scatter(
        self,
        data: Optional[ReadableBuffer],
        into: WritableBuffer,
        root: int = 0,
        lengths: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> None: ...
    def all_to_all(
        self,
        data: ReadableBuffer,
        lengths: Optional[Sequence[int]] = None,
        received: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> memoryview: ...
    def agree(self, value: Optional[int] = None, timeout: Optional[float] = None) -> Agreed: ...
    def shrink(self, timeout: Optional[float] = None) -> Group: ...

@final
class Node:
    def __new__(
        cls,
        id: Optional[int] = None,
        *,
        book: Union[Dict[int, Address], Path, None] = ...,
        listen: Optional[Address] = ...,
        accept: Optional[Literal["book", "anyone"]] = ...,
        key_file: Optional[Path] = ...,
        node_key_files: Optional[Tuple[Path, Path]] = ...,
        allow_insecure_network: Optional[bool] = ...,
        memory: Optional[int] = ...,
        max_message: Optional[int] = ...,
        send_queue: Optional[int] = ...,
        rts_threshold: Optional[int] = ...,
        max_peers: Optional[int] = ...,
        silence_timeout: Optional[float] = ...,
        give_up_after: Optional[float] = ...,
        payload_checksum: Optional[bool] = ...,
        mode: Optional[Literal["adaptive", "throughput", "response"]] = ...,
        keep_alive: Optional[bool] = ...,
        controller: Union[Literal["auto", "lan", "wan", "cubic"], int, None] = ...,
        rate_cap: Optional[int] = ...,
        wait: Union[Literal["adaptive", "sleep", "spin"], float, None] = ...,
        statistics: Optional[bool] = ...,
        metrics: Optional[Address] = ...,
        shared_memory: Optional[bool] = ...,
        forward: Optional[bool] = ...,
        ignore_supervision: Optional[bool] = ...,
        cluster: Optional[str] = ...,
        seeds: Optional[Dict[int, Address]] = ...,
        suspicion: Optional[float] = ...,
        recv_buffer: Optional[int] = ...,
        send_buffer: Optional[int] = ...,
        backend: Optional[str] = ...,
        faults: Optional[str] = ...,
        threads: int = ...,
    ) -> Self: ...
    @staticmethod
    def from_env(**settings: Any) -> Node: ...
    @property
    def id(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def warning(self) -> Optional[str]: ...
    @property
    def peer_limit(self) -> int: ...
    def add_peer(self, node: int, address: Address) -> None: ...
    def remove_peer(self, node: int) -> bool: ...
    def peers(self) -> List[PeerInfo]: ...
    def peer(self, node: int) -> Peer: ...
    def send(
        self,
        dest: int,
        data: ReadableBuffer,
        *,
        channel: int = ...,
        tag: int = ...,
        kind: int = ...,
        user_header: ReadableBuffer = ...,
        notify: bool = ...,
        token: int = ...,
        deadline: Optional[float] = ...,
        timeout: Optional[float] = ...,
    ) -> None: ...
    def try_send(
        self,
        dest: int,
        data: ReadableBuffer,
        *,
        channel: int = ...,
        tag: int = ...,
        kind: int = ...,
        user_header: ReadableBuffer = ...,
        notify: bool = ...,
        token: int = ...,
        deadline: Optional[float] = ...,
    ) -> None: ...
    def broadcast(
        self,
        dests: Iterable[int],
        data: ReadableBuffer,
        *,
        channel: int = ...,
        tag: int = ...,
        kind: int = ...,
        user_header: ReadableBuffer = ...,
        notify: bool = ...,
        token: int = ...,
        deadline: Optional[float] = ...,
        timeout: Optional[float] = ...,
    ) -> Dict[int, Exception]: ...
    def call(
        self,
        dest: int,
        data: ReadableBuffer,
        *,
        channel: int = ...,
        user_header: ReadableBuffer = ...,
        timeout: Optional[float] = ...,
    ) -> Message: ...
    def reply(
        self,
        request: Message,
        data: ReadableBuffer,
        *,
        kind: int = ...,
        user_header: ReadableBuffer = ...,
        notify: bool = ...,
        token: int = ...,
        timeout: Optional[float] = ...,
    ) -> None: ...
    def recv(
        self,
        timeout: Optional[float] = None,
        *,
        source: Optional[int] = None,
        channel: Optional[int] = None,
    ) -> Message: ...
    def try_recv(
        self, *, source: Optional[int] = None, channel: Optional[int] = None
    ) -> Optional[Message]: ...
    def recv_into(
        self,
        buffer: WritableBuffer,
        timeout: Optional[float] = None,
        *,
        source: Optional[int] = None,
        channel: Optional[int] = None,
    ) -> Message: ...
    def next(self, timeout: Optional[float] = None) -> Union[Message, Event]: ...
    def try_next(self) -> Union[Message, Event, None]: ...
    def next_event(self, timeout: Optional[float] = None) -> Event: ...
    def events(self) -> List[Event]: ...
    def accept(self, event: Event, buffer: Optional[WritableBuffer] = None) -> None: ...
    def refuse(self, event: Event, reason: Optional[int] = None) -> None: ...
    def group(self, number: int, members: Iterable[int]) -> Group: ...
    def members(self) -> List[Member]: ...
    def wait_joined(self, timeout: Optional[float] = None) -> None: ...
    def counters(self) -> Dict[str, int]: ...
    def socket_counters(self) -> Dict[str, int]: ...
    def fileno(self) -> int: ...
    def flush(self, timeout: Optional[float] = None) -> None: ...
    def close(self, timeout: Optional[float] = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Operation:
    @property
    def key(self) -> int: ...
    def poll(self) -> Any: ...
    def cancel(self) -> None: ...

@final
class Operations:
    def __new__(cls, node: Node) -> Self: ...
    def fileno(self) -> int: ...
    def woken(self) -> List[int]: ...
    def send(
        self, dest: int, data: ReadableBuffer, options: Optional[Dict[str, Any]] = None
    ) -> Operation: ...
    def reply(
        self, request: Message, data: ReadableBuffer, options: Optional[Dict[str, Any]] = None
    ) -> Operation: ...
    def call(
        self, dest: int, data: ReadableBuffer, options: Optional[Dict[str, Any]] = None
    ) -> Operation: ...
    def recv(
        self,
        source: Optional[int] = None,
        channel: Optional[int] = None,
        buffer: Optional[WritableBuffer] = None,
    ) -> Operation: ...
    def next(self) -> Operation: ...
    def next_event(self) -> Operation: ...
    def group(self, group: Group, name: str, *arguments: Any) -> Operation: ...
    def flush(self) -> Operation: ...
    def close(self, timeout: float) -> Optional[Operation]: ...
