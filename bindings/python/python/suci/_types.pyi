"""Types of arguments, for checkers alone."""

import os
from typing import Literal, Tuple, Union

from typing_extensions import Buffer, TypeAlias

#: Any contiguous memory: bytes, bytearray, memoryview, array.array, numpy.ndarray.
ReadableBuffer: TypeAlias = Buffer
#: Any contiguous memory that may be written to.
WritableBuffer: TypeAlias = Buffer
#: "127.0.0.1:7000", "[::1]:7000", or a pair of a numeric host and a port.
Address: TypeAlias = Union[str, Tuple[str, int]]
#: How elements are combined. Words for whole numbers only: "and", "or", "xor".
Combination: TypeAlias = Literal["sum", "product", "min", "max", "and", "or", "xor"]
Path: TypeAlias = Union[str, "os.PathLike[str]"]
