# SPDX-License-Identifier: Apache-2.0
"""Helpers for the cases of stream benches: traffic row by row, numbers of a type, parameters that follow from types."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint
from hypersonic.hls.rf.stage import Stage
from tests.support.rtl.stream_bench import Beat, Dut

#: makes a type from its width and its number of fraction bits
fixed_point = FixedPoint.with_fraction

#: parameters of a module
Parameters = dict[str, int | str]


class RowCase:
    """A case (stream_bench.Case) whose traffic is rows that do not depend on each other."""

    def row(self, rng: random.Random) -> Sequence[list[Beat]]:
        """Return the beats of one random row: those of each input, then those of the output."""
        raise NotImplementedError

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        """Return the beats of each input, and of the output, for `rows` rows."""
        rng = random.Random(seed)
        *inputs, output = (list(chain(*parts)) for parts in zip(*(self.row(rng) for _ in range(rows)), strict=True))
        return inputs, output


def drawn(fixed: FixedPoint, count: int, rng: random.Random, *others: int) -> list[int]:
    """Return raw numbers of a type: each is an end of its range, one of `others`, or any number."""
    low, high = fixed.min_raw, fixed.max_raw
    return [rng.choice([*others, low, high, rng.randint(low, high)]) for _ in range(count)]


def typed(name: str, fixed: FixedPoint) -> Parameters:
    """Return the parameters of a number: its width, and whether it has a sign."""
    return {f"{name}_WIDTH": fixed.width, f"{name}_SIGNED": int(fixed.signed)}


def modes(prefix: str, fixed: FixedPoint) -> Parameters:
    """Return the parameters of a cast to a type: its rounding and overflow modes."""
    return {f"{prefix}ROUNDING": ROUNDING_CODES[fixed.rounding], f"{prefix}OVERFLOW": OVERFLOW_CODES[fixed.overflow]}


def result(y: FixedPoint, fraction: int) -> Parameters:
    """Return the parameters of a result of type y, cast from a number with `fraction` fraction bits."""
    return {"RESULT_SHIFT": fraction - y.fraction, **typed("Y", y), **modes("", y)}


def products(x: FixedPoint, w: FixedPoint, accumulator: FixedPoint) -> Parameters:
    """Return the parameters of a sum of products x * w."""
    return {
        **typed("X", x), "W_WIDTH": w.width, "PRODUCT_SHIFT": x.fraction + w.fraction - accumulator.fraction,
        "PRODUCT_ROUNDING": ROUNDING_CODES[accumulator.rounding], **typed("ACC", accumulator),
    }  # fmt: skip


def hex_text(words: Iterable[int], width: int = 0) -> str:
    """Return the text of a memory file, a word a line: the low `width` bits of each, or all of a word that is not negative."""
    return "\n".join(f"{word & ((1 << width) - 1) if width else word:x}" for word in words)


def stage_dut(module: str, stage: Stage) -> Dut:
    """Return the instance of a module of hls/rtl/rf as the compiler makes it for a stage."""
    files = {memory.file: memory.text() for memory in stage.memories}
    return Dut(module, dict(stage.parameters), {"s_axis": stage.inputs[0].width}, stage.outputs[0].width, files)
