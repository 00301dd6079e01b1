# SPDX-License-Identifier: Apache-2.0
"""Estimated resources of the parts of a stage on an UltraScale+ device, from counted registers, adders and memories.

Each stage's file in hls/rf/stages/ adds up its parts from its parameters alone. tests/hls/rf/measure_stages.py compares the
estimates with Yosys' mapping of stages; docs/rf-fit.md gives the differences. Every multiplication counts as DSP48E2; Vivado
may put small ones into LUTs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.parts.limits import Numbers

# ---------------------------------------------------------------- memories and multipliers
#: shapes (words, bits) of a RAMB36E2 as simple dual-port memory (UG573)
_RAMB36 = ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1))
#: memories of up to this many words are made of look-up tables instead
_LUT_WORDS = 64


def block_rams(words: int, width: int) -> int:
    """Return the RAMB36E2 for a memory, in their best shape: an estimate, and 0 if look-up tables hold it."""
    if words <= _LUT_WORDS:
        return 0
    return min(ceil(words / depth) * ceil(width / bits) for depth, bits in _RAMB36)


def ultra_rams(words: int, width: int) -> int:
    """Return the URAM288 for a memory; each has 4096 words of 72 bits (UG573)."""
    return ceil(words / 4096) * ceil(width / 72)


def dsps(x: int, w: int) -> int:
    """Return the DSP48E2 for a multiplier of two's complement numbers with x and w bits: an estimate.

    One multiplies 27 x 18 bits; wider numbers are split into pieces of 26 and 17 bits (UG579).
    """
    return min(_pieces(a, 27) * _pieces(b, 18) for a, b in ((x, w), (w, x)))


def _pieces(width: int, port: int) -> int:
    return 1 if width <= port else ceil((width - 1) / (port - 1))


def multiply_cost(a: int, b: int) -> Amounts:
    """Return the cost of an rf_multiply of numbers with a and b bits, which cuts both into pieces of 17 bits.

    The products have their registers in the DSP48E2; several are added.
    """
    products = _pieces(a, 18) * _pieces(b, 18)
    return Amounts(lut=0.4 * (products - 1) * (a + b), dsp=products)


def operands_cost(a: int, b: int) -> Amounts:
    """Return the resources of a product of a and b bits, and of its operands' registers, which one DSP48E2 absorbs."""
    dsp = dsps(a, b)
    return Amounts(ff=0 if dsp == 1 else a + b, dsp=dsp)


def product_cost(numbers: Numbers) -> Amounts:
    """Return the resources of one product. One DSP48E2 absorbs the registers of its operands and its result; several do not."""
    x, w = numbers["X_WIDTH"], numbers["W_WIDTH"]
    dsp = dsps(x + (not numbers.get("X_SIGNED", 1)), w + (not numbers.get("W_SIGNED", 1)))
    return Amounts(ff=0 if dsp == 1 else 2 * (x + w), dsp=dsp)


def tree_cost(numbers: Numbers, inputs: int, *, every_level: bool) -> Amounts:
    """Return the resources of the products of one output and of their adder tree.

    Args:
        every_level: a register after every level; otherwise as in rf_mac, which skips some for narrow sums.
    """
    product, shift, levels = numbers["X_WIDTH"] + numbers["W_WIDTH"], numbers.get("PRODUCT_SHIFT", 0), (inputs - 1).bit_length()
    cut = product - min(max(shift, 0), product - 1)
    most = min(cut + levels, max(numbers["ACC_WIDTH"] - max(-shift, 0), 1))
    step = 2 if most <= 24 and not every_level else 1
    one = product_cost(numbers)
    # a product that is not rounded goes into a second register of its DSP48E2
    absorbed = one.dsp == 1 and (shift <= 0 or not numbers.get("PRODUCT_ROUNDING", 0))
    adders, registers, nodes = 0, 0 if absorbed else inputs * min(cut, most), inputs
    # a product that passes a level has three registers in a row: a shift register of LUTs (SRL16E)
    shifted, unpaired = False, absorbed
    for level in range(1, levels + 1):
        width, registered = min(cut + level, most), (levels - level) % step == 0
        unpaired = unpaired and nodes % 2 == 1
        shifted |= unpaired and registered
        adders += nodes // 2 * width
        nodes = -(-nodes // 2)
        registers += (nodes - unpaired) * width * registered
    return one.times(inputs) + Amounts(lut=adders + shifted * min(cut, most), ff=registers)


# ---------------------------------------------------------------- parts of a stage
#: shapes (words, bits) of a RAMB18E2 as simple dual-port memory (UG573); a RAMB36E2 is two of them
_RAMB18 = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
#: LUTs that Yosys uses for a memory before it takes a RAMB18E2
_LUTS_A_RAM = 64


def memory_cost(words: int, width: int) -> Amounts:
    """Return the cost of a memory that is read into a register; a small one is LUT RAM (RAM32M16, RAM64M8)."""
    halves = min(ceil(words / depth) * ceil(width / bits) for depth, bits in _RAMB18)
    banks = ceil(words / 64)
    luts = 8 * (ceil(width / 14) if words <= 32 else banks * ceil(width / 7)) + width * (banks > 1)
    return Amounts(lut=luts, ff=width) if luts <= _LUTS_A_RAM * halves else Amounts(bram36=halves / 2)


def rom_cost(words: int, width: int) -> Amounts:
    """Return the cost of a memory of constants: whole RAMB36E2, or LUTs, or nothing for one word.

    firmware/estimate/module_tree.py counts them in the same way.
    """
    if rams := block_rams(words, width):
        return Amounts(bram36=rams)
    return Amounts(lut=width, ff=width) if words > 1 else NOTHING


def fifo_cost(width: int, depth: int) -> Amounts:
    """Return the cost of an axis_fifo of `depth` words of `width` bits."""
    address = (depth - 1).bit_length()
    return memory_cost(depth, width) + Amounts(lut=4 * address + 1, ff=4 * address + 7)


def flow_cost(width: int, latency: int) -> Amounts:
    """Return the cost of an axis_free_running: credits and output FIFO of a pipeline of `latency` clocks and `width` bits."""
    return fifo_cost(width + 1, 1 << (latency + 3).bit_length()) + Amounts(lut=10, ff=13)


def skid_cost(width: int) -> Amounts:
    """Return the cost of a skid buffer for `width` bits."""
    return Amounts(lut=width + 3, ff=2 * width + 3)


def cast_cost(width: int, numbers: Numbers) -> Amounts:
    """Return the cost of a fixed_cast from `width` bits. Rounding is a carry chain without LUTs; zeros shifted in cost nothing.

    Args:
        numbers: the parameters of the stage that has the cast.
    """
    y, shift = numbers["Y_WIDTH"], numbers.get("RESULT_SHIFT", 8)
    whole, zeros = max(width + 1 - shift, 1), max(-shift, 0)
    if not numbers.get("OVERFLOW", 0) or whole <= y:
        return Amounts(ff=2 * max(min(whole, y) - zeros, 0))
    return Amounts(lut=y + 2 + (whole - y) / 3, ff=whole + y - zeros)


def lookup_cost(x: int, y: int) -> Amounts:
    """Return the cost of one lookup in a table, from a number to its result, without the table's memory.

    Args:
        x: bits of the number, with a sign.
        y: bits of the result.
    """
    return Amounts(lut=0.8 * x, ff=3 * x + 2 * y + 12)


def roms_cost(memories: Iterable[tuple[int, int]]) -> Amounts:
    """Return the cost of a stage's memories that are filled from files.

    Args:
        memories: words and bits of each.
    """
    return sum((rom_cost(words, width) for words, width in memories), NOTHING)
