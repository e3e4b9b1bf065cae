"""An assembler for the few x86-64 instructions that slots are made of, in the calling convention of System V.

One method is one instruction; memory is ``[base + displacement]``. Labels are names, and may come later.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from itertools import count, islice

_NUMBERS = {name: i for i, name in enumerate(("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"))}
_NUMBERS |= {f"r{i}": i for i in range(8, 16)}
_CONDITIONS = {"e": 4, "ne": 5, "b": 2, "ae": 3, "a": 7, "be": 6, "s": 8, "ns": 9, "l": 12, "ge": 13, "le": 14, "g": 15}
_JUMPS = {"": b"\xe9" + bytes(4), **{name: bytes((0x0F, 0x80 | i)) + bytes(4) for name, i in _CONDITIONS.items()}}

_SETS = {name: bytes((0x48 | (reg >> 3), 0xB8 | (reg & 7))) for name, reg in _NUMBERS.items()}

_NUMBER = struct.Struct("<i")
_ADDRESS = struct.Struct("<Q")

END = "end"
"""The label of what comes after the code."""


# Code has thousands of instructions, and few ways to begin one.
@functools.cache
def _of_memory(opcode: bytes, reg: int, base: str, displacement: int, is_wide: bool) -> bytes:
    number = _NUMBERS[base]
    rex = 0x40 | (is_wide << 3) | ((reg >> 3) << 2) | (number >> 3)
    more = b"\x24" if number & 7 == 4 else b""  # `rsp` and `r12` take a second byte
    return bytes((rex, *opcode, 0x80 | ((reg & 7) << 3) | (number & 7))) + more + _NUMBER.pack(displacement)


@functools.cache
def _of_registers(opcode: int, reg: int, other: str) -> bytes:
    number = _NUMBERS[other]
    return bytes((0x48 | ((reg >> 3) << 2) | (number >> 3), opcode, 0xC0 | ((reg & 7) << 3) | (number & 7)))


@functools.cache
def _of_place(opcode: bytes, reg: int, base: str, index: str, scale: int, is_wide: bool) -> bytes:
    start, number = _NUMBERS[base], _NUMBERS[index]
    rex = 0x40 | (is_wide << 3) | ((reg >> 3) << 2) | ((number >> 3) << 1) | (start >> 3)
    place = ((scale.bit_length() - 1) << 6) | ((number & 7) << 3) | (start & 7)
    return bytes((rex, *opcode, 0x84 | ((reg & 7) << 3), place))


class Assembler:
    """Machine code under construction."""

    def __init__(self) -> None:
        self._code = bytearray()
        self._labels: dict[str, int] = {}
        self._uses: list[tuple[int, str]] = []

    def _with_memory(self, opcode: bytes, reg: int, base: str, displacement: int, *, is_wide: bool = True) -> None:
        self._code += _of_memory(opcode, reg, base, displacement, is_wide)

    def _with_registers(self, opcode: int, reg: int, other: str) -> None:
        self._code += _of_registers(opcode, reg, other)

    def load(self, target: str, base: str, displacement: int = 0) -> None:
        """``target = [base + displacement]``, of 64 bits."""
        self._with_memory(b"\x8b", _NUMBERS[target], base, displacement)

    def load_int(self, target: str, base: str, displacement: int = 0) -> None:
        """``target = [base + displacement]``, of 32 bits; the others are 0."""
        self._with_memory(b"\x8b", _NUMBERS[target], base, displacement, is_wide=False)

    def store(self, base: str, displacement: int, source: str) -> None:
        """``[base + displacement] = source``."""
        self._with_memory(b"\x89", _NUMBERS[source], base, displacement)

    def compare_with(self, base: str, displacement: int, register: str) -> None:
        """Compare ``[base + displacement]`` with a register."""
        self._with_memory(b"\x39", _NUMBERS[register], base, displacement)

    def compare_number_with(self, base: str, displacement: int, number: int) -> None:
        """Compare ``[base + displacement]`` with a number of 32 bits."""
        self._with_memory(b"\x81", 7, base, displacement)
        self._code += _NUMBER.pack(number)

    def test_with(self, base: str, displacement: int, bits: int) -> None:
        """Compare some bits of ``[base + displacement]``, of 32, with 0."""
        self._with_memory(b"\xf7", 0, base, displacement, is_wide=False)
        self._code += _NUMBER.pack(bits)

    def clear_with(self, base: str, displacement: int, bits: int) -> None:
        """Set some bits of ``[base + displacement]``, of 32, to 0."""
        self._with_memory(b"\x81", 4, base, displacement, is_wide=False)
        self._code += _NUMBER.pack(~bits)

    def store_int(self, base: str, displacement: int, source: str) -> None:
        """``[base + displacement] = source``, of 32 bits."""
        self._with_memory(b"\x89", _NUMBERS[source], base, displacement, is_wide=False)

    def store_byte(self, base: str, displacement: int, source: str) -> None:
        """``[base + displacement] = source``, of 8 bits."""
        self._with_memory(b"\x88", _NUMBERS[source], base, displacement)

    def store_at(self, base: str, index: str, source: str, nbytes: int, displacement: int = 0) -> None:
        """``base[index] = source``, of elements of 1, 2, 4 or 8 bytes, some bytes behind it."""
        self._code += b"\x66" * (nbytes == 2)
        self._at(b"\x88" if nbytes == 1 else b"\x89", _NUMBERS[source], base, index, nbytes, displacement)

    def load_at(self, target: str, base: str, index: str, nbytes: int, displacement: int = 0) -> None:
        """``target = base[index]``, likewise; the other bits are 0."""
        opcode = {1: b"\x0f\xb6", 2: b"\x0f\xb7"}.get(nbytes, b"\x8b")
        self._at(opcode, _NUMBERS[target], base, index, nbytes, displacement)

    def compare_byte_at(self, base: str, index: str, number: int, displacement: int = 0) -> None:
        """Compare ``base[index]``, of 8 bits, some bytes behind it, with a number."""
        self._at(b"\x80", 7, base, index, 1, displacement)
        self._code.append(number)

    def _at(self, opcode: bytes, reg: int, base: str, index: str, nbytes: int, displacement: int) -> None:
        self._code += _of_place(opcode, reg, base, index, nbytes, nbytes == 8) + _NUMBER.pack(displacement)

    def count_unless_below(self, target: str) -> None:
        """``target += 1`` unless what was compared last was below, without a sign, what it was compared with."""
        number = _NUMBERS[target]
        self._code += bytes((0x48 | (number >> 3), 0x83, 0xD8 | (number & 7), 0xFF))

    def move_if_below(self, target: str, source: str) -> None:
        """``target = source`` if what was compared last was below, without a sign, what it was compared with."""
        reg, number = _NUMBERS[target], _NUMBERS[source]
        self._code += bytes(
            (0x48 | ((reg >> 3) << 2) | (number >> 3), 0x0F, 0x42, 0xC0 | ((reg & 7) << 3) | (number & 7))
        )

    def store_float(self, base: str, displacement: int, integer: str) -> None:
        """``[base + displacement] = float(integer)``, of 64 bits."""
        self._convert(0, integer)
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x11", 0, base, displacement, is_wide=False)

    def store_single(self, base: str, displacement: int, source: str, place: int) -> None:
        """``[base + displacement] = [source + place]``, a float of 64 bits rounded to one of 32."""
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x5a", 0, source, place, is_wide=False)
        self._code.append(0xF3)
        self._with_memory(b"\x0f\x11", 0, base, displacement, is_wide=False)

    def divide_float(self, base: str, displacement: int, integer: str) -> None:
        """``[base + displacement] /= float(integer)``, of 64 bits."""
        self._convert(1, integer)
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x10", 0, base, displacement, is_wide=False)
        self._code += b"\xf2\x0f\x5e\xc1"
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x11", 0, base, displacement, is_wide=False)

    def move_float(self, base: str, displacement: int, source: str, place: int) -> None:
        """``[base + displacement] = [source + place]``, of 64 bits."""
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x10", 0, source, place, is_wide=False)
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x11", 0, base, displacement, is_wide=False)

    def count_steps(self, target: str, base: str, start: int, stop: int, step: int) -> None:
        """``target = int((stop - start) / step)`` of floats in memory; what is too large or no number is negative."""
        for opcode, place in ((b"\x0f\x10", stop), (b"\x0f\x5c", start), (b"\x0f\x5e", step)):
            self._code.append(0xF2)
            self._with_memory(opcode, 0, base, place, is_wide=False)
        number = _NUMBERS[target]
        self._code += bytes((0xF2, 0x48 | ((number >> 3) << 2), 0x0F, 0x2C, 0xC0 | ((number & 7) << 3)))

    def take_root(self, base: str, displacement: int) -> None:
        """``[base + displacement] = sqrt([base + displacement])``, of 64 bits."""
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x51", 0, base, displacement, is_wide=False)
        self._code.append(0xF2)
        self._with_memory(b"\x0f\x11", 0, base, displacement, is_wide=False)

    def _convert(self, target: int, integer: str) -> None:
        """Let a register of vectors have an integer as a float."""
        number = _NUMBERS[integer]
        self._code += bytes((0xF2, 0x48 | (number >> 3), 0x0F, 0x2A, 0xC0 | (target << 3) | (number & 7)))

    def store_status(self, base: str, displacement: int) -> None:
        """``[base + displacement]`` = the state of vectors' arithmetic, its flags in the lowest 6 of 32 bits."""
        self._with_memory(b"\x0f\xae", 3, base, displacement, is_wide=False)

    def load_status(self, base: str, displacement: int) -> None:
        """Let vectors' arithmetic have a state."""
        self._with_memory(b"\x0f\xae", 2, base, displacement, is_wide=False)

    def load_old_status(self) -> None:
        """Let the lowest 16 bits of `rax` have the state of the arithmetic before vectors', with the same flags."""
        self._code += b"\xdf\xe0"

    def clear_old_status(self) -> None:
        self._code += b"\xdb\xe2"

    def increment(self, base: str, displacement: int = 0) -> None:
        """``[base + displacement] += 1``."""
        self._with_memory(b"\xff", 0, base, displacement)

    def decrement(self, base: str, displacement: int = 0) -> None:
        """``[base + displacement] -= 1``."""
        self._with_memory(b"\xff", 1, base, displacement)

    def move(self, target: str, source: str) -> None:
        """``target = source``."""
        self._with_registers(0x89, _NUMBERS[source], target)

    def compare(self, one: str, other: str) -> None:
        """Compare two registers."""
        self._with_registers(0x39, _NUMBERS[other], one)

    def multiply(self, target: str, base: str, displacement: int) -> None:
        """``target *= [base + displacement]``, signed."""
        self._with_memory(b"\x0f\xaf", _NUMBERS[target], base, displacement)

    def add_register(self, target: str, other: str) -> None:
        """``target += other``."""
        self._with_registers(0x01, _NUMBERS[other], target)

    def add_from(self, target: str, base: str, displacement: int) -> None:
        """``target += [base + displacement]``."""
        self._with_memory(b"\x03", _NUMBERS[target], base, displacement)

    def subtract_from(self, target: str, base: str, displacement: int) -> None:
        """``target -= [base + displacement]``."""
        self._with_memory(b"\x2b", _NUMBERS[target], base, displacement)

    def negate(self, target: str) -> None:
        """``target = -target``."""
        self._with_registers(0xF7, 3, target)

    def halve(self, target: str) -> None:
        """``target //= 2``, of a number without a sign."""
        self._with_registers(0xD1, 5, target)

    def divide(self, divisor: str) -> None:
        """``rax, rdx = divmod(rax, divisor)``, of numbers without a sign."""
        self._with_registers(0x31, _NUMBERS["rdx"], "rdx")
        self._with_registers(0xF7, 6, divisor)

    def halve_signed(self, target: str) -> None:
        """``target //= 2``."""
        self._with_registers(0xD1, 7, target)

    def multiply_by(self, target: str, other: str) -> None:
        """``target *= other``, signed."""
        reg, number = _NUMBERS[target], _NUMBERS[other]
        self._code += bytes(
            (0x48 | ((reg >> 3) << 2) | (number >> 3), 0x0F, 0xAF, 0xC0 | ((reg & 7) << 3) | (number & 7))
        )

    def add(self, target: str, number: int) -> None:
        """``target += number``."""
        self._with_registers(0x81, 0, target)
        self._code += _NUMBER.pack(number)

    def add_int(self, target: str, number: int) -> None:
        """``target += number``, of 32 bits; the others are 0."""
        reg = _NUMBERS[target]
        self._code += bytes((0x40 | (reg >> 3), 0x81, 0xC0 | (reg & 7))) + _NUMBER.pack(number)

    def and_number(self, target: str, number: int) -> None:
        """``target &= number``."""
        self._with_registers(0x81, 4, target)
        self._code += _NUMBER.pack(number)

    def and_register(self, target: str, other: str) -> None:
        """``target &= other``."""
        self._with_registers(0x21, _NUMBERS[other], target)

    def or_register(self, target: str, other: str) -> None:
        """``target |= other``."""
        self._with_registers(0x09, _NUMBERS[other], target)

    def exclude_register(self, target: str, other: str) -> None:
        """``target ^= other``."""
        self._with_registers(0x31, _NUMBERS[other], target)

    def shift_right(self, target: str, bits: int) -> None:
        """``target >>= bits``, of a number without a sign."""
        self._with_registers(0xC1, 5, target)
        self._code.append(bits)

    def compare_number(self, register: str, number: int) -> None:
        """Compare a register with a number of 32 bits."""
        self._with_registers(0x81, 7, register)
        self._code += _NUMBER.pack(number)

    def test_number(self, register: str, bits: int) -> None:
        """Compare some of the lowest 32 bits of a register with 0."""
        self._with_registers(0xF7, 0, register)
        self._code += struct.pack("<I", bits)

    def set(self, target: str, number: int) -> None:
        """``target = number``, of 64 bits: an address or a count."""
        self._code += _SETS[target] + _ADDRESS.pack(number)

    def push(self, register: str) -> None:
        reg = _NUMBERS[register]
        self._code += bytes((0x40 | (reg >> 3), 0x50 | (reg & 7)))

    def pop(self, register: str) -> None:
        reg = _NUMBERS[register]
        self._code += bytes((0x40 | (reg >> 3), 0x58 | (reg & 7)))

    def call(self, address: int) -> None:
        """Call a function; that changes `rax`, `rcx`, `rdx`, `rsi`, `rdi` and `r8` to `r11`."""
        self.set("rax", address)
        self._code += b"\xff\xd0"

    def call_register(self, register: str) -> None:
        """Call the function whose address a register has; see `call`."""
        reg = _NUMBERS[register]
        self._code += bytes((0x40 | (reg >> 3), 0xFF, 0xD0 | (reg & 7)))

    def go_to(self, address: int) -> None:
        """Go on in a function, which returns to who has called this."""
        self.set("rax", address)
        self._code += b"\xff\xe0"

    def go_to_register(self, register: str) -> None:
        """Go on in the function whose address a register has."""
        reg = _NUMBERS[register]
        self._code += bytes((0x40 | (reg >> 3), 0xFF, 0xE0 | (reg & 7)))

    def ret(self) -> None:
        self._code.append(0xC3)

    def label(self, name: str) -> None:
        """Let a name stand for what comes next."""
        assert name not in self._labels, name
        self._labels[name] = len(self._code)

    def jump(self, name: str, condition: str = "") -> None:
        """Go to a label, if a condition holds of what was compared last."""
        self._code += _JUMPS[condition]
        self._uses.append((len(self._code) - 4, name))

    def assembled(self) -> bytes:
        """Return the code, which runs wherever it lies."""
        code, labels, pack = self._code, self._labels, _NUMBER.pack_into
        labels[END] = len(code)
        for place, name in self._uses:
            pack(code, place, labels[name] - place - 4)
        return bytes(code)


_stand_ins = count(0x6E65772066726F6D)


def stand_ins(number: int) -> list[int]:
    """Return numbers that are no addresses in any process, to stand for some where code is made for several.

    They are others each time.
    """
    return [*islice(_stand_ins, number)]


def filled(code: bytes, numbers: Mapping[int, int]) -> bytes:
    """Return code with numbers of 64 bits in the place of those that stand for them."""
    for stand_in, number in numbers.items():
        code = code.replace(_ADDRESS.pack(stand_in), _ADDRESS.pack(number))
    return code


__all__ = ["END", "Assembler", "filled", "stand_ins"]
