# SPDX-License-Identifier: Apache-2.0
"""The tables of hls4ml's activations, with the same numbers as in its C++ (nnet_activation.h, init_*_table).

The C++ computes in float and double with the C library's expf, log and tanh, whose last bits differ from numpy's; the same
library is called here. Each number is then cast to the table's type as ap_fixed casts a double.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint

SELU_LAMBDA = 1.0507009873554804934193349852946


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libm.so.6")
    for name, kind in (
        ("expf", ctypes.c_float),
        ("log", ctypes.c_double),
        ("tanhf", ctypes.c_float),
        ("tanh", ctypes.c_double),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = [kind], kind
    return library


def _expf(x: float) -> float:
    return float(_library().expf(x))


def _sigmoid(x: float) -> float:
    return 1.0 / float(np.float32(1) + np.float32(_expf(-x)))


def _tanh(x: float) -> float:
    return float(_library().tanhf(x))


def _softplus(x: float) -> float:
    return float(_library().log(_expf(x) + 1.0))


def _softsign(x: float) -> float:
    return x / (abs(x) + 1.0)


def _elu(x: float) -> float:
    return _expf(x) - 1.0


def _selu(x: float) -> float:
    return SELU_LAMBDA * (1.6732632423543772848170429916717 * (_expf(x) - 1.0))


def _silu_dip(a: float) -> float:
    return -a / (1.0 + _expf(a))


def _gelu_dip(a: float) -> float:
    x = a * 0.7071067811865476
    t = 1.0 / (1.0 + 0.3275911 * x)
    total = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return -0.5 * a * total * _expf(-x * x)


def _hard_silu_dip(a: float) -> float:
    return a * (a - 3.0) / 6.0 if a < 3.0 else 0.0


@dataclass(frozen=True)
class Curve:
    """A function that is tabulated over 2**span_log2 units of x around 0.

    Attributes:
        negative_only: over x from -8 to 0.
        dip: an even function, of the magnitude of x in the middle of a step, which relu(x) is added to; 0 in the first and the
            last entry (hls/frontend/passes/gated.py).
    """

    function: Callable[[float], float]
    span_log2: int
    negative_only: bool = False
    dip: bool = False


CURVES = {
    "sigmoid": Curve(_sigmoid, 4),
    "tanh": Curve(_tanh, 3),
    "softplus": Curve(_softplus, 4),
    "softsign": Curve(_softsign, 4),
    "elu": Curve(_elu, 3, negative_only=True),
    "selu": Curve(_selu, 3, negative_only=True),
    "silu": Curve(_silu_dip, 4, dip=True),
    "gelu": Curve(_gelu_dip, 3, dip=True),
    "hard_silu": Curve(_hard_silu_dip, 3, dip=True),
}

#: SELU_LAMBDA as the C++'s ap_ufixed<16,1>
SELU_SCALE = Constants(np.array([34429], dtype=np.int64), 15)


def curve_values(name: str, size: int, kind: FixedPoint) -> Constants:
    """Return the table's raw values (size,) in its own type `kind`.

    Entry i is the function at x = (i - size / 2) * span / size, or at -8 * i / size for negative_only.

    Args:
        name: a key of CURVES.
    """
    curve = CURVES[name]
    steps = np.arange(size, dtype=np.float64)
    if curve.dip:
        middles = (np.abs(steps - size // 2) + 0.5) * 2.0**curve.span_log2 / size
        return _in(kind, [0.0, *(curve.function(float(middle)) for middle in middles[1:-1]), 0.0])
    if curve.negative_only:
        points = (-8.0 * steps / size).astype(np.float32)
    else:
        points = (2.0**curve.span_log2 * (steps - size / 2.0) / size).astype(np.float32)
    return _in(kind, [curve.function(float(point)) for point in points])


def _in(kind: FixedPoint, numbers: list[float]) -> Constants:
    """Return the raw values of numbers in a type; they are rounded to float first, which the C++'s functions return."""
    return Constants(kind.checked().from_float(np.array(numbers).astype(np.float32)), kind.fraction)


def _addressed(kind: FixedPoint, size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the value (size,) whose top bits are each index, the other bits being zero."""
    raw = np.arange(size, dtype=np.int64) << (kind.width - (size.bit_length() - 1))
    if kind.signed:
        raw = np.where(raw > kind.max_raw, raw - (1 << kind.width), raw)
    return np.ldexp(raw.astype(np.float64), -kind.fraction).astype(np.float32)


def exp_values(address: FixedPoint, size: int, kind: FixedPoint, *, negative: bool, scale: float = 1.0) -> Constants:
    """Return the table of init_exp_table: raw values (size,) of e**(scale * x), of -x if `negative`, in the type `kind`.

    Args:
        address: type of x, whose top bits are the index.
    """
    sign = np.float32(-1.0 if negative else 1.0)
    return _in(kind, [_expf(float(sign * x)) for x in _addressed(address, size) * np.float32(scale)])


def inverse_values(address: FixedPoint, size: int, kind: FixedPoint) -> Constants:
    """Return the table of init_invert_table: raw values (size,) of 1 / x in the type `kind`.

    Entry 0 divides by zero; the infinity saturates (FixedPoint.from_float).

    Args:
        address: type of x, whose top bits are the index.
    """
    with np.errstate(divide="ignore"):
        return _in(kind, list(np.float32(1) / _addressed(address, size)))
