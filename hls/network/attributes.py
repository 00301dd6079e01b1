# SPDX-License-Identifier: Apache-2.0
"""Functions that read one layer of hls4ml's ModelGraph: tensors, types, trained constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import MAX_WIDTH, Constants, FixedPoint, PrecisionError, Rounding
from hypersonic.hls.model_graph import is_binary, precision_of, written_constants
from hypersonic.hls.network.base import Tensor, Window

#: roundings that give the same result before and after adding a number that is on the coarser grid
SHIFT_INVARIANT = (Rounding.TRN, Rounding.RND, Rounding.RND_MIN_INF)


def refuse(layer: Any, why: str) -> UnsupportedLayerError:
    """Return the error to raise for a layer of hls4ml's graph that no core computes exactly.

    Args:
        why: the reason, a clause.
    """
    return UnsupportedLayerError(f"layer {layer.name!r} ({layer.class_name}): {why}; {INSTEAD}")


def unsupported(name: str, why: str) -> UnsupportedLayerError:
    """Return the error to raise for a layer that a core does not compute exactly.

    Args:
        name: the layer's.
        why: a clause.
    """
    return UnsupportedLayerError(f"layer {name!r}: {why}; {INSTEAD}")


def tensor(variable: Any, name: str, layer: Any) -> Tensor:
    """Return a layer's output variable as a Tensor called `name`."""
    shape = tuple(int(size) for size in variable.shape)
    return Tensor(name, shape, precision_of(variable.type.precision, f"layer {layer.name!r}: result"))


def precision(layer: Any, attribute: str) -> FixedPoint:
    """Return the type in an attribute of a layer, for example accum_t."""
    return precision_of(layer.get_attr(attribute).precision, f"layer {layer.name!r}: {attribute}")


def fixed(layer: Any, kind: FixedPoint, what: str) -> FixedPoint:
    """Return `kind` unchanged. Raises UnsupportedLayerError if its numbers do not fit int64, in which they are computed
    here."""
    try:
        return kind.checked()
    except PrecisionError as error:
        raise UnsupportedLayerError(f"layer {layer.name!r}: {what}: {error}; give it fewer bits in the model's YAML") from error


def constants(layer: Any, name: str) -> Constants:
    """Return a weight array, flat, in the order of the C++. Raises UnsupportedLayerError if its type is not fixed-point."""
    variable = layer.weights[name]
    kind = precision_of(variable.type.precision, f"layer {layer.name!r}: {name}")
    scaled = np.ldexp(np.asarray(variable.data, dtype=np.float64).reshape(-1), kind.fraction)
    on_grid = (scaled == np.rint(scaled)).all() and (scaled >= kind.min_raw).all() and (scaled <= kind.max_raw).all()
    plain = (
        kind.width <= MAX_WIDTH
        and not is_binary(variable)
        and type(variable.type).__name__ not in ("CompressedType", "ExponentType")
    )
    if plain and on_grid and not str(variable.type.precision).startswith("int<2"):
        return Constants(scaled.astype(np.int64), kind.fraction)
    return written_constants(layer, name)  # parsed from the decimal text that hls4ml writes


def window(layer: Any, what: str) -> Window:
    """Return kernel, stride and padding of a convolution (what: "filt") or a pooling layer ("pool").

    Raises UnsupportedLayerError for a dilation, and for channels_first.
    """
    for axis in ("height", "width"):
        if int(layer.get_attr(f"dilation_{axis}", 1) or 1) != 1:
            raise refuse(layer, f"dilation is {layer.get_attr(f'dilation_{axis}')}, expected 1")
    if str(layer.get_attr("data_format", "channels_last")) != "channels_last":
        raise refuse(layer, "data_format is channels_first, expected channels_last")

    def number(name: str, default: int) -> int:
        return int(layer.get_attr(name, default))

    across = (number(f"{what}_width", 1), number("stride_width", 1), number("pad_left", 0), number("pad_right", 0))
    if layer.class_name.endswith("1D"):
        kernel, stride, before, behind = across
        return Window((kernel, 1), (stride, 1), before, behind)
    down = (number(f"{what}_height", 1), number("stride_height", 1), number("pad_top", 0), number("pad_bottom", 0))
    (k_h, s_h, top, bottom), (k_w, s_w, left, right) = down, across
    return Window((k_h, k_w), (s_h, s_w), top, bottom, left, right)


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as text, for example 32x32x3."""
    return "x".join(map(str, shape))


#: the constants of a layer without any
NONE = Constants(np.zeros(0, dtype=np.int64), 0)


def number(value: int) -> Constants:
    """Return an integer as constants."""
    return Constants(np.array([value], dtype=np.int64), 0)


def parameter(layer: Any, name: str, kind: str) -> Constants:
    """Return one constant as the C++ computes it, from a literal by the constructor of its type.

    Args:
        kind: attribute with the type.
    """
    to = precision(layer, kind)
    raw = fixed(layer, to, kind).from_float(float(layer.get_attr(name, 1.0)))
    return Constants(raw.reshape(1), to.fraction)


def streamed(layer: Any) -> bool:
    """Return whether the model's IOType is io_stream."""
    return bool(layer.model.config.get_config_value("IOType") == "io_stream")


def check_parallel(layer: Any) -> None:
    """Raise UnsupportedLayerError in io_stream, for a layer without C++ for it."""
    if streamed(layer):
        raise refuse(layer, "hls4ml 1.3.0 has no C++ for it in io_stream: use io_parallel")
