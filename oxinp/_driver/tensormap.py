"""Tensor maps: what the bulk tensor copy engine (TMA, compute capability 9.0) has to know of an array."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._driver.context import Context

__all__ = ["ELEMENT_TYPES", "ElementType", "TensorMap", "TensorMapEncoder"]

_NBYTES = 128
_ALIGN = 64
_MAX_RANK = 5
_MAX_EXTENT = 1 << 32
_MAX_STRIDE_NBYTES = 1 << 40
_MAX_BOX_EXTENT = 256
_MAX_STEP = 8
_CHUNK_NBYTES = 16
"""Unit of the copy engine: base addresses, strides and rows of a box are multiples of it."""


class ElementType(NamedTuple):
    """A CUtensorMapDataType: its number and its size."""

    number: int
    nbytes: int


ELEMENT_TYPES = {
    "u8": ElementType(0, 1),
    "u16": ElementType(1, 2),
    "u32": ElementType(2, 4),
    "i32": ElementType(3, 4),
    "u64": ElementType(4, 8),
    "i64": ElementType(5, 8),
    "f16": ElementType(6, 2),
    "f32": ElementType(7, 4),
    "f64": ElementType(8, 8),
    "bf16": ElementType(9, 2),
    "f32_ftz": ElementType(10, 4),  # subnormals become zero on the way
    "tf32": ElementType(11, 4),  # rounded to tf32 on the way
    "tf32_ftz": ElementType(12, 4),
}

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_INTERLEAVE_NONE = 0
_PACKED = {rank: struct.Struct(f"={2 * rank}Q{2 * rank}I") for rank in range(1, _MAX_RANK + 1)}
_Memory = ctypes.c_char * (_NBYTES + _ALIGN + _PACKED[_MAX_RANK].size)
_FILLS = {"zero": 0, "nan": 1}


class TensorMapEncoder:
    """Encodes the tensor maps of arrays that differ in their extents and in where they lie.

    All sequences have the innermost axis last, as in NumPy; coordinates in a kernel's copy instruction have it first.

    Parameters
    ----------
    context : Context
    element_type : str
        One of `ELEMENT_TYPES`.
    strides_nbytes : sequence of int
        Byte distances along all axes but the last, multiples of 16; along the last, elements are adjacent.
    box : sequence of int
        Extents of one copy, at most 256 each; its rows take a multiple of 16 bytes.
    steps : sequence of int, optional
        Take every so many elements along each axis, 1 to 8; 1 along the last.
    swizzle_nbytes : {0, 32, 64, 128}
        Width of the pattern that spreads rows over the banks of shared memory; rows of the box must fit into it.
    l2_promotion_nbytes : {0, 64, 128, 256}
        How much is read into the second-level cache at a time.
    fill : {"zero", "nan"}
        What elements outside the array read as.
    """

    __slots__ = ("_encode", "_fields", "_is_legal", "_modes", "_number", "_packed", "_rank")

    def __init__(
        self,
        context: Context,
        element_type: str,
        strides_nbytes: Sequence[int],
        box: Sequence[int],
        *,
        steps: Sequence[int] | None = None,
        swizzle_nbytes: int = 0,
        l2_promotion_nbytes: int = 128,
        fill: str = "zero",
    ) -> None:
        steps = [1] * len(box) if steps is None else steps
        self._fields = element_type, tuple(strides_nbytes), tuple(box), tuple(steps), swizzle_nbytes
        self._is_legal = _is_legal(*self._fields)
        self._rank = len(box)
        self._number = ELEMENT_TYPES[element_type].number
        # One stride more than the driver reads: an array of rank 1 has none.
        self._packed = (*strides_nbytes[::-1], 0, *box[::-1], *steps[::-1])
        self._modes = (
            _INTERLEAVE_NONE,
            _SWIZZLES[swizzle_nbytes],
            _L2_PROMOTIONS[l2_promotion_nbytes],
            _FILLS[fill],
        )
        self._encode = context.driver.cuTensorMapEncodeTiled

    def encode(self, ptr: int, shape: Sequence[int]) -> bytes:
        """Return the map of an array.

        Parameters
        ----------
        ptr : int
            Device address of the first element, a multiple of 16. The memory is not kept alive.
        shape : sequence of int
            Extents of the array, one to five.

        Returns
        -------
        bytes
            128, to be passed to a kernel by value (`struct` code "128s", 64-byte aligned among the parameters).

        Raises
        ------
        ValueError
            The engine cannot do that; says which rule is broken.
        """
        rank = self._rank
        is_legal = self._is_legal and len(shape) == rank and ptr % _CHUNK_NBYTES == 0
        if not (is_legal and 1 <= min(shape) <= max(shape) <= _MAX_EXTENT):
            _complain(ptr, shape, *self._fields)
        memory = _Memory()  # for the 128 bytes, and what the driver reads
        start = ctypes.addressof(memory)
        address = start + -start % _ALIGN
        extents = address + _NBYTES
        boxes = extents + 16 * rank
        _PACKED[rank].pack_into(memory, extents - start, *shape[::-1], *self._packed)
        self._encode(
            address, self._number, rank, ptr, extents, extents + 8 * rank, boxes, boxes + 4 * rank, *self._modes
        )
        return ctypes.string_at(address, _NBYTES)


class TensorMap:
    """The description of an array and of the box that one copy moves, encoded for the device.

    Parameters
    ----------
    context, element_type
        As for `TensorMapEncoder`.
    ptr, shape
        As for `TensorMapEncoder.encode`.
    strides_nbytes, box, **options
        As for `TensorMapEncoder`.

    Attributes
    ----------
    value : bytes
        What `TensorMapEncoder.encode` returns.

    Raises
    ------
    ValueError
        The engine cannot do that; says which rule is broken.
    """

    __slots__ = ("value",)

    def __init__(
        self,
        context: Context,
        element_type: str,
        ptr: int,
        shape: Sequence[int],
        strides_nbytes: Sequence[int],
        box: Sequence[int],
        **options: Any,
    ) -> None:
        self.value = TensorMapEncoder(context, element_type, strides_nbytes, box, **options).encode(ptr, shape)


def _is_legal(
    element_type: str,
    strides_nbytes: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    swizzle_nbytes: int,
) -> bool:
    """Whether the driver takes maps of arrays with such strides, and such boxes."""
    rank = len(box)
    if not 0 < rank == len(steps) == len(strides_nbytes) + 1 <= _MAX_RANK:
        return False
    row_nbytes = box[-1] * ELEMENT_TYPES[element_type].nbytes
    return (
        all(stride % _CHUNK_NBYTES == 0 and 0 <= stride < _MAX_STRIDE_NBYTES for stride in strides_nbytes)
        and all(1 <= extent <= _MAX_BOX_EXTENT for extent in box)
        and all(1 <= step <= _MAX_STEP for step in steps)
        and row_nbytes % _CHUNK_NBYTES == 0
        and row_nbytes <= (swizzle_nbytes or row_nbytes)
        and steps[-1] == 1
    )


def _complain(
    ptr: int,
    shape: Sequence[int],
    element_type: str,
    strides_nbytes: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    swizzle_nbytes: int,
) -> None:
    """Raise ValueError for the first rule that is broken."""
    rank = len(shape)
    lengths = (len(strides_nbytes) + 1, len(box), len(steps))
    if not 1 <= rank <= _MAX_RANK or lengths != (rank, rank, rank):
        raise ValueError(
            f"a tensor map has 1 to {_MAX_RANK} axes, as many in shape, box and steps and one fewer in strides: got "
            f"shape {tuple(shape)}, strides {tuple(strides_nbytes)}, box {tuple(box)}, steps {tuple(steps)}"
        )
    row_nbytes = box[-1] * ELEMENT_TYPES[element_type].nbytes
    row_limit = swizzle_nbytes or row_nbytes
    rules = (
        (ptr % _CHUNK_NBYTES == 0, f"its address {ptr:#x} is not a multiple of {_CHUNK_NBYTES}"),
        (all(1 <= extent <= _MAX_EXTENT for extent in shape), f"an extent of {tuple(shape)} is not in 1 to 2^32"),
        (
            all(stride % _CHUNK_NBYTES == 0 and 0 <= stride < _MAX_STRIDE_NBYTES for stride in strides_nbytes),
            f"a stride of {tuple(strides_nbytes)} is not a multiple of {_CHUNK_NBYTES} in 0 to 2^40 - 1",
        ),
        (
            all(1 <= extent <= _MAX_BOX_EXTENT for extent in box),
            f"an extent of box {tuple(box)} is not in 1 to {_MAX_BOX_EXTENT}",
        ),
        (row_nbytes % _CHUNK_NBYTES == 0, f"rows of {row_nbytes} bytes in the box are no multiple of {_CHUNK_NBYTES}"),
        (row_nbytes <= row_limit, f"rows of {row_nbytes} bytes in the box exceed the swizzle of {swizzle_nbytes}"),
        (all(1 <= step <= _MAX_STEP for step in steps), f"a step of {tuple(steps)} is not in 1 to {_MAX_STEP}"),
        (steps[-1] == 1, f"the last of the steps {tuple(steps)} is not 1"),
    )
    for holds, complaint in rules:
        if not holds:
            raise ValueError(f"no tensor map can describe this array: {complaint}")
