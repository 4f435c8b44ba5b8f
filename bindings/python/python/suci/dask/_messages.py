"""A message of Dask as messages of Suci."""

from __future__ import annotations

import struct
from typing import Any, List, Optional, Sequence, Tuple

from distributed.protocol.utils import host_array, pack_frames_prelude, unpack_frames
from distributed.system import MEMORY_LIMIT
from distributed.utils import ensure_memoryview, nbytes

#: A frame of this many bytes is a message of its own, which is sent without a copy.
LONG = 64 << 10

#: A message longer than this is announced, and received into memory of this module. It is twice
#: LONG, so that small frames that travel together never are.
ANNOUNCED = 2 * LONG

#: A message of Dask of more bytes than this fails: the process could not hold it.
LARGEST = MEMORY_LIMIT


def _sizes(prelude: bytes, frames: Sequence[Any]) -> List[int]:
    """The sizes of the buffers into which the receiver puts a message.

    Objects that outlive the message have buffers of their own, so that each is released by itself.
    The parts of one object share a buffer, where they need not be joined again. The first buffer
    has the table of frames and what is pickled. If that is little beside the first object, the
    object is there, too.
    """
    sizes = [len(prelude)]
    owner: Any = None
    for frame in frames:
        source = frame.obj if isinstance(frame, memoryview) else frame
        size = nbytes(frame)
        outlives = not isinstance(source, bytes)
        if owner is not None and source is owner:
            sizes[-1] += size
        elif len(sizes) > 1 or (outlives and owner is not None):
            sizes.append(size)
            owner = source
        elif outlives and sizes[0] - len(prelude) > max(2048, size // 20):
            sizes.append(size)
            owner = source
        else:
            sizes[0] += size
            owner = source if outlives else None
    return sizes


def pieces(frames: Sequence[Any]) -> Tuple[List[Any], int]:
    """The messages of Suci that carry one message of Dask, and their bytes."""
    prelude = pack_frames_prelude(frames)
    sizes = _sizes(prelude, frames)
    joined = [struct.pack(f"<{1 + len(sizes)}Q", len(sizes), *sizes), prelude]
    waiting = len(joined[0]) + len(prelude)
    pieces: List[Any] = []
    total = sum(sizes)
    for frame in frames:
        size = nbytes(frame)
        if size >= LONG:
            if joined:
                pieces.append(b"".join(joined))
                joined, waiting = [], 0
            pieces.append(ensure_memoryview(frame))
        elif size:
            joined.append(frame)
            waiting += size
            if waiting >= LONG:
                pieces.append(b"".join(joined))
                joined, waiting = [], 0
    if joined:
        pieces.append(b"".join(joined))
    return pieces, total


class Arriving:
    """A message of Dask of which parts are there."""

    def __init__(self, head: memoryview) -> None:
        """Takes its first piece. Raises ValueError if that makes no sense."""
        try:
            (count,) = struct.unpack_from("<Q", head)
            if count > len(head) // 8:
                raise ValueError(f"it claims {count} buffers")
            sizes = struct.unpack_from(f"<{count}Q", head, 8)
        except struct.error as error:
            raise ValueError(str(error)) from error
        if sum(sizes) > LARGEST:
            raise ValueError(
                f"a message of {sum(sizes)} bytes is longer than the memory of this process "
                f"({LARGEST} bytes): send it in parts"
            )
        self.buffers = [host_array(size) for size in sizes]
        self._index = self._offset = 0
        self._skip_full()
        self.copy(head[8 * (1 + count) :])

    def _skip_full(self) -> None:
        while self._index < len(self.buffers) and self._offset == len(self.buffers[self._index]):
            self._index += 1
            self._offset = 0

    @property
    def complete(self) -> bool:
        return self._index == len(self.buffers)

    def copy(self, piece: memoryview) -> None:
        """Takes a piece that lies elsewhere."""
        while len(piece):
            room = self.place(None)
            part = piece[: len(room)]
            room[: len(part)] = part
            self.advance(len(part))
            piece = piece[len(part) :]

    def place(self, length: Optional[int]) -> memoryview:
        """The memory of the next bytes; of so many, if they lie in one buffer."""
        if self.complete:
            raise ValueError("it is longer than its head says")
        room = self.buffers[self._index][self._offset :]
        if length is None:
            return room
        if length > len(room):
            raise ValueError("a frame does not fit the buffer that the head says")
        return room[:length]

    def advance(self, length: int) -> None:
        self._offset += length
        self._skip_full()

    def frames(self) -> List[memoryview]:
        """The frames of a complete message."""
        if not self.buffers:
            raise ValueError("it has no table of frames")
        try:
            frames, rest = unpack_frames(self.buffers[0], partial=True)
        except struct.error as error:
            raise ValueError(str(error)) from error
        buffers = iter(self.buffers[1:])
        left = memoryview(b"")
        for size in rest:
            if not len(left) and size:
                left = next(buffers, left)
            if size > len(left):
                raise ValueError("its table of frames does not fit its buffers")
            frames.append(left[:size])
            left = left[size:]
        return list(frames)
