# SPDX-License-Identifier: Apache-2.0
"""The parts of a kernel's rows: what each converter between memory and the core takes, and its parameters."""

from __future__ import annotations

from itertools import groupby
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import KernelError
from hypersonic.hls.core import Port
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint
from hypersonic.hls.packing.codes import Codes, converters
from hypersonic.hls.spec import TensorSpec

#: the converter modules: for elements from memory, for packed codes that a table converts, and for elements to memory
TO_FIXED, FROM_CODES, TO_WIRE = "axis_wire_to_fixed", "axis_codes_to_fixed", "axis_fixed_to_wire"


class RowPart(NamedTuple):
    """The part of a row that one converter converts: a tensor, consecutive tensors whose beats have the same format, or codes
    of one field of a packed row.

    Attributes:
        elements: the number in one beat; for a packed row, of codes.
        beats: the number in one row.
        codes: of a packed row.
        first_bit: of a tensor in a row that is one beat.
    """

    tensor: TensorSpec
    elements: int
    beats: int
    codes: Codes | None = None
    first_bit: int = 0

    @property
    def bits(self) -> int:
        """Bits of one beat in memory."""
        return self.elements * (self.codes.field.bits if self.codes else self.tensor.element.bits)

    @property
    def raw_bits(self) -> int:
        """Bits of one beat as raw integers."""
        return self.elements * (self.codes.field.per_code if self.codes else 1) * self.tensor.fixed.width

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Where the bits are in a row that is one beat: (first bit, bits), low bits first."""
        if self.codes is None:
            return ((self.first_bit, self.bits),)
        selection = (self.first_bit + self.codes.select_bit, self.codes.field.select_bits)
        return ((self.first_bit + self.codes.first_bit, self.bits), *((selection,) if selection[1] else ()))

    @property
    def module(self) -> str:
        """The module that converts this part from memory to the core."""
        return TO_FIXED if self.codes is None or self.codes.is_number else FROM_CODES


def parts(port: Port) -> tuple[RowPart, ...]:
    """The parts of a port's row, in its order. Raises KernelError for packed rows that do not fit the port's beats."""
    tensors = port.row.tensors
    if not port.lanes:
        firsts = [8 * offset for offset in port.row.offsets]
        return tuple(part for tensor, first in zip(tensors, firsts, strict=True) for part in _whole(tensor, first))
    each = [
        RowPart(tensor, lanes, beats, _repeated(tensor, lanes) if tensor.packing else None)
        for tensor, lanes, beats in zip(tensors, port.lanes, port.tensor_beats, strict=True)
    ]
    alike = groupby(each, lambda one: converter_parameters(one, one.tensor.fixed))
    return tuple(same[0]._replace(beats=sum(one.beats for one in same)) for same in (list(group) for _, group in alike))


def _whole(tensor: TensorSpec, first_bit: int) -> tuple[RowPart, ...]:
    if tensor.packing is None:
        return (RowPart(tensor, tensor.size, 1, None, first_bit),)
    each = converters(tensor.packing, tensor.scale_exponents)
    return tuple(RowPart(tensor, codes.codes, 1, codes, first_bit) for codes in each)


def _repeated(tensor: TensorSpec, lanes: int) -> Codes:
    """The codes of one beat of a packed tensor, which are those of every beat."""
    codes = list(converters(tensor.packing, tensor.scale_exponents)) if tensor.packing else []
    if tensor.packing is None or len(tensor.packing.fields) != 1 or len(codes) != 1 or codes[0].field.one_hot:
        raise KernelError(
            f"tensor {tensor.name!r}: a row of {len(codes)} kinds of codes and beats of {lanes} elements, expected a single "
            "field without one_hot, with one scale exponent: the core takes a row in several beats, and all beats are "
            "converted alike"
        )
    return codes[0]


def grouped_beats(port: Port) -> int:
    """How many beats of a row leave memory together: 1, unless a beat of packed codes is not whole bytes.

    Raises KernelError if a row is not whole groups, or if there are several inputs.
    """
    if not port.lanes:
        return 1
    sizes = [one.bits for one in parts(port)]
    if all(bits % 8 == 0 for bits in sizes):
        return 1
    name, count = port.row.tensors[0].name, 8 // gcd(8, sizes[0])
    if len(port.row.tensors) > 1:
        raise KernelError(
            f"tensor {name!r}: beats of {', '.join(map(str, sizes))} bits with several inputs, expected whole bytes; use "
            "fields of 8 or 16 bits"
        )
    if port.beats % count:
        raise KernelError(
            f"tensor {name!r}: a row is {port.beats} beats of {sizes[0]} bits, expected a multiple of {count} beats, which are "
            "whole bytes"
        )
    return count


def converter_parameters(taken: RowPart, rounded_to: FixedPoint) -> dict[str, str]:
    """The parameters of a part's converter, as Verilog literals: the top module is Verilog, which has no packages.

    Args:
        rounded_to: the type whose modes the converter applies.
    """
    if taken.codes and not taken.codes.is_number:
        return _table_parameters(taken, taken.codes)
    element, fixed = taken.tensor.element, taken.tensor.fixed
    bits, fraction, signed = element.bits, taken.tensor.integer.fraction if element.is_integer else 0, element.signed
    if taken.codes:
        bits, fraction, signed = taken.codes.field.bits, taken.codes.fraction, taken.codes.field.signed
    return {
        "N": str(taken.elements),
        "WORD_WIDTH": str(bits),
        "EXPONENT_BITS": str(element.exponent_bits),
        "WORD_FRACTION": str(fraction),
        "WORD_SIGNED": f"1'b{int(signed)}",
        "WIDTH": str(fixed.width),
        "FRACTION": str(fixed.fraction),
        "SIGNED": f"1'b{int(fixed.signed)}",
        "ROUNDING": str(ROUNDING_CODES[rounded_to.rounding]),
        "OVERFLOW": str(OVERFLOW_CODES[rounded_to.overflow]),
        "SCALES": f"{16 * taken.elements}'h0" if taken.codes else _scales(taken),
    }


def _table_parameters(taken: RowPart, codes: Codes) -> dict[str, str]:
    fixed = taken.tensor.fixed
    return {
        "N": str(taken.elements),
        "CODE_WIDTH": str(codes.field.bits),
        "ADDRESS_WIDTH": str(codes.field.code_bits),
        "SELECT_WIDTH": str(codes.field.select_bits),
        "ENTRY_WIDTH": str(codes.field.per_code * fixed.width),
        "TABLE": table_literal(codes.raw_table(fixed), fixed.width),
    }


def table_literal(raw: NDArray[np.int64], width: int) -> str:
    """A Verilog literal of raw integers (entries, numbers) of `width` bits each, the first in the low bits."""
    numbers = raw.reshape(-1)
    bits = (numbers[:, None] >> np.arange(width)) & 1
    data = np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()
    return f"{numbers.size * width}'h{int.from_bytes(data, 'little'):x}"


def _scales(taken: RowPart) -> str:
    """The scale exponents of one beat: 16-bit two's complement numbers, element 0 in the low bits. All beats have the same."""
    words = [exponent & 0xFFFF for exponent in taken.tensor.exponents[: taken.elements].tolist()]
    return f"{16 * len(words)}'h" + "".join(f"{word:04x}" for word in reversed(words))
