# SPDX-License-Identifier: Apache-2.0
"""The resources that pieces of a stage take of an UltraScale+ part: counted registers, adders and memories.

Each stage's file in hls/rf/stages/ adds up its own pieces by its parameters alone. Checked against Yosys' mapping of stages by
tests/hls/rf/measure_stages.py; docs/rf-core.md says how far off it is. Every multiplication counts as DSP48E2, as report.py has
them; Vivado may put small ones into LUTs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.parts.limits import Numbers

# ---------------------------------------------------------------- memories and multipliers
#: (words, bits) a RAMB36E2 can be, simple dual port (UG573)
_RAMB36 = ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1))
#: words of a memory that is made of look-up tables instead
_LUT_WORDS = 64


def block_rams(words: int, width: int) -> int:
    """RAMB36E2 of a memory, in their best shape; none for one so small that look-up tables hold it. An estimate."""
    if words <= _LUT_WORDS:
        return 0
    return min(ceil(words / depth) * ceil(width / bits) for depth, bits in _RAMB36)


def ultra_rams(words: int, width: int) -> int:
    """URAM288 of a memory: 4096 words of 72 bits each (UG573)."""
    return ceil(words / 4096) * ceil(width / 72)


def dsps(x: int, w: int) -> int:
    """DSP48E2 of a multiplier of two's complement numbers of so many bits: 27 x 18, wider ones in pieces of 26 and 17 bits
    (UG579). An estimate."""
    return min(_pieces(a, 27) * _pieces(b, 18) for a, b in ((x, w), (w, x)))


def _pieces(width: int, port: int) -> int:
    return 1 if width <= port else ceil((width - 1) / (port - 1))


# ---------------------------------------------------------------- pieces
#: (words, bits) of a RAMB18E2, simple dual port (UG573); a RAMB36E2 is two of them
_RAMB18 = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
#: LUTs that Yosys spends before it takes a RAMB18E2
_LUTS_A_RAM = 64


def memory_cost(words: int, width: int) -> Amounts:
    """A memory that is read into a register: LUT RAM (RAM32M16, RAM64M8) as long as it is small."""
    halves = min(ceil(words / depth) * ceil(width / bits) for depth, bits in _RAMB18)
    banks = ceil(words / 64)
    luts = 8 * (ceil(width / 14) if words <= 32 else banks * ceil(width / 7)) + width * (banks > 1)
    return Amounts(lut=luts, ff=width) if luts <= _LUTS_A_RAM * halves else Amounts(bram36=halves / 2)


def rom_cost(words: int, width: int) -> Amounts:
    """The same for constants, as estimate/module_tree.py has them: in whole RAMB36E2, or LUTs, or no memory for one word."""
    if rams := block_rams(words, width):
        return Amounts(bram36=rams)
    return Amounts(lut=width, ff=width) if words > 1 else NOTHING


def fifo_cost(width: int, depth: int) -> Amounts:
    address = (depth - 1).bit_length()
    return memory_cost(depth, width) + Amounts(lut=6 + address, ff=2 * address + 3)


def flow_cost(width: int, latency: int) -> Amounts:
    return fifo_cost(width + 1, 1 << (latency + 2).bit_length()) + Amounts(lut=10, ff=12)


def skid_cost(width: int) -> Amounts:
    return Amounts(lut=width + 3, ff=2 * width + 2)


def cast_cost(width: int, numbers: Numbers) -> Amounts:
    """rf_cast of a number of so many bits. Rounding is a carry chain without LUTs; zeros that come in are no bits."""
    y, shift = numbers["Y_WIDTH"], numbers.get("RESULT_SHIFT", 8)
    whole, zeros = max(width + 1 - shift, 1), max(-shift, 0)
    if not numbers.get("OVERFLOW", 0) or whole <= y:
        return Amounts(ff=2 * max(min(whole, y) - zeros, 0))
    return Amounts(lut=y + 2 + (whole - y) / 3, ff=whole + y - zeros)


def roms_cost(memories: Iterable[tuple[int, int]]) -> Amounts:
    """A stage's memories that files fill: words and bits of each."""
    return sum((rom_cost(words, width) for words, width in memories), NOTHING)
