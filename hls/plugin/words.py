# SPDX-License-Identifier: Apache-2.0
"""Numbers of any width between a core and floats, for the plugin's predict().

A row carries elements of up to MAX_WIDTH bits. A wider output is therefore read as several unsigned words of equal width, which
occupy the same bits of the core's stream as the number itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import MAX_WIDTH, FixedPoint
from hypersonic.hls.model_graph import TensorType
from hypersonic.hls.spec import TensorSpec

#: bits of a double's mantissa, the leading one included
_EXACT = 53

#: bits of a number that decide how it is rounded to a float of that many bytes, the last one set if any lower bit is
_KEPT = {4: 50, 8: 62}


def in_words(name: str, kind: TensorType) -> TensorSpec:
    """Return the tensor as the core's row has it: with a last dimension of words if its elements are wider than MAX_WIDTH."""
    if kind.fixed.width <= MAX_WIDTH:
        return TensorSpec(name, kind.shape, kind.fixed)
    bits = word_bits(kind.fixed)
    return TensorSpec(name, (*kind.shape, kind.fixed.width // bits), FixedPoint(bits, bits, signed=False))


def word_bits(fixed: FixedPoint) -> int:
    """Return the bits of a word: the largest divisor of the width that is at most MAX_WIDTH."""
    return max(bits for bits in range(1, MAX_WIDTH + 1) if fixed.width % bits == 0)


def to_floats(words: NDArray[np.int64], fixed: FixedPoint, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert a core's output to floats.

    Each number is rounded once, to nearest even, as ap_fixed's conversions do.

    Args:
        words: (rows, size * words of an element) -> (rows, size) float32 or float64.
    """
    if fixed.width <= _EXACT:
        return fixed.to_float(words).astype(dtype)
    numbers = [_float(value, fixed.fraction, _KEPT[dtype.itemsize]) for value in _joined(words, fixed)]
    return np.array(numbers, dtype=np.float64).astype(dtype).reshape(len(words), -1)


def _joined(words: NDArray[np.int64], fixed: FixedPoint) -> list[int]:
    """The raw values, in order."""
    if fixed.width <= MAX_WIDTH:
        return [int(value) for value in words.reshape(-1)]
    bits = word_bits(fixed)
    parts = words.reshape(-1, fixed.width // bits).astype(object)
    return [fixed.confine(sum(int(word) << (bits * at) for at, word in enumerate(part))) for part in parts]


def _float(value: int, fraction: int, kept: int) -> float:
    """value * 2**-fraction with `kept` bits, which round to a float as the whole number would."""
    dropped = max(abs(value).bit_length() - kept, 0)
    lost = value & ((1 << dropped) - 1)
    return float(np.ldexp(float(value >> dropped | (lost != 0)), dropped - fraction))
