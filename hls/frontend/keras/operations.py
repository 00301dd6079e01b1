# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors, such as x * 2 or a mean over particles, as layers of Keras 2; for Keras 3 and for TensorFlow's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.keras.parts import LayerPart, Shape, product, reshape, softmax

#: operations of one tensor -> Keras 2's activation
_ACTIVATIONS = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Silu": "swish", "Gelu": "gelu",
    "Softmax": "softmax", "Softplus": "softplus", "Softsign": "softsign", "Selu": "selu",
}  # fmt: skip

_NEGATIVE = LayerPart("Rescaling", {"scale": -1.0}, (0,))
_OF_SIGNS = {"Negative": (_NEGATIVE,), "Absolute": (_NEGATIVE, LayerPart("Maximum", {}, (0, -1)))}

_MERGES = ("Add", "Subtract", "Multiply", "Maximum", "Minimum")
_POOLS = {"Mean": "Average", "Sum": "Average", "Max": "Max"}

#: functions of TensorFlow -> the operation
TENSORFLOW = {
    "math.add": "Add", "__operators__.add": "Add", "math.subtract": "Subtract", "math.multiply": "Multiply",
    "math.truediv": "TrueDivide", "math.divide": "TrueDivide", "math.maximum": "Maximum", "math.minimum": "Minimum",
    "math.negative": "Negative", "math.abs": "Absolute",
    "nn.relu": "Relu", "nn.relu6": "Relu6", "math.sigmoid": "Sigmoid", "math.tanh": "Tanh",
    "nn.silu": "Silu", "nn.gelu": "Gelu", "nn.softmax": "Softmax", "math.softplus": "Softplus", "nn.softsign": "Softsign",
    "linalg.matmul": "Matmul",
    "math.reduce_mean": "Mean", "math.reduce_sum": "Sum", "math.reduce_max": "Max", "concat": "Concatenate",
    "reshape": "Reshape", "expand_dims": "ExpandDims",
}  # fmt: skip


def operation(
    layer: str, kind: str, operands: Sequence[Shape | np.ndarray[Any, Any]], options: Mapping[str, Any]
) -> list[LayerPart]:
    """Return the parts of an operation, as layers of Keras 2.

    Args:
        layer: its name, for errors.
        kind: Keras 3's class of it.
        operands: the shape of a row of each tensor, or a constant.
        options: axis, keepdims, shape; an axis is TensorFlow's, which counts the batch.

    Raises:
        UnsupportedLayerError: For an operation that no layer computes.
    """
    shapes = [one for one in operands if isinstance(one, tuple)]
    constants = [one for one in operands if not isinstance(one, tuple)]
    if len({len(shape) for shape in shapes}) > 1:  # the batch would be an axis of the other tensor's rows
        found: list[LayerPart] = []
    elif kind in (*_MERGES, "TrueDivide") and len(operands) == 2:
        found = _arithmetic(kind, operands) if constants else [LayerPart(kind, {}, (0, 1))] if kind in _MERGES else []
    elif kind in _OF_SIGNS:
        found = list(_OF_SIGNS[kind])
    elif kind in _ACTIVATIONS:
        found = [LayerPart("Activation", {"activation": _ACTIVATIONS[kind]}, (0,))]
        if kind == "Softmax" and isinstance(axis := options.get("axis"), int):
            found = softmax(shapes[0], axis)
    elif kind in _POOLS:
        found = _pool(kind, shapes[0], options)
    elif kind == "Matmul" and len(shapes) == 2 and not options.get("transpose_a"):
        found = product(*shapes, transposed=bool(options.get("transpose_b")))
    elif kind == "Concatenate":
        found = [LayerPart("Concatenate", {"axis": int(options.get("axis", -1))}, range(len(shapes)))]
    else:
        found = _moved(kind, shapes[0] if shapes else (), options)
    if not found or not shapes:
        raise UnsupportedLayerError(
            f"layer {layer!r}: the operation {kind.lower()} with {_text(operands, options)} has no layer in Keras 2, which "
            "hls4ml reads; build it from standard layers, or export the model to ONNX"
        )
    return found


def _text(operands: Sequence[Any], options: Mapping[str, Any]) -> str:
    given = [f"a tensor {('batch', *one)}".replace("'", "") if isinstance(one, tuple) else "a constant" for one in operands]
    return ", ".join([*given, *(f"{key}={value}" for key, value in options.items() if value is not None)])


def _arithmetic(kind: str, operands: Sequence[Any]) -> list[LayerPart]:
    """An operation of a tensor and a constant, as a scaling."""
    first, c = isinstance(operands[0], tuple), next(one for one in operands if not isinstance(one, tuple))
    shape = next(one for one in operands if isinstance(one, tuple))
    wide = c.reshape(c.shape[1:]) if c.ndim == len(shape) + 1 and c.shape[0] == 1 else c
    if c.ndim > 1 or np.broadcast_shapes(shape, wide.shape) != shape:  # a Rescaling has a number for each of the last axis
        return []
    number = wide.tolist()
    if kind == "Maximum":
        return [LayerPart("ReLU", {}, (0,))] if not wide.any() else []
    if kind == "Minimum" or (kind == "TrueDivide" and not first):
        return []
    scale = {"Multiply": number, "TrueDivide": (1.0 / wide).tolist(), "Subtract": 1.0 if first else -1.0}.get(kind, 1.0)
    offset = {"Add": number, "Subtract": (-wide).tolist() if first else number}.get(kind, 0.0)
    return [LayerPart("Rescaling", {"scale": scale, "offset": offset}, (0,))]


def _pool(kind: str, shape: Shape, options: Mapping[str, Any]) -> list[LayerPart]:
    """A mean, sum or maximum over all pixels or steps."""
    given = options.get("axis")
    axes = sorted(
        axis % (len(shape) + 1) for axis in (given if isinstance(given, list | tuple) else [given]) if axis is not None
    )
    if axes != list(range(1, len(shape))) or len(axes) not in (1, 2):
        return []
    parts = [LayerPart(f"Global{_POOLS[kind]}Pooling{len(axes)}D", {}, (0,))]
    if kind == "Sum":
        parts.append(LayerPart("Rescaling", {"scale": float(prod(shape[:-1]))}))
    if options.get("keepdims"):
        parts.append(reshape((*(1,) * len(axes), shape[-1])))
    return parts


def _moved(kind: str, shape: Shape, options: Mapping[str, Any]) -> list[LayerPart]:
    if kind == "ExpandDims" and (axis := int(options.get("axis", 0)) % (len(shape) + 2)):
        return [reshape((*shape[: axis - 1], 1, *shape[axis - 1 :]), 0)]
    if kind == "Reshape" and len(wanted := list(options.get("shape") or ())) > 1:
        return [reshape(tuple(int(size) for size in wanted[1:]), 0)]
    if kind == "Squeeze" and isinstance(options.get("axis"), int) and (at := int(options["axis"]) % (len(shape) + 1)):
        return [reshape((*shape[: at - 1], *shape[at:]), 0)]
    if kind == "Transpose" and list(axes := options.get("axes") or ())[:1] == [0]:
        return [LayerPart("Permute", {"dims": tuple(axes[1:])}, (0,))]
    return []
