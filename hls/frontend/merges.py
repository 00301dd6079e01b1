# SPDX-License-Identifier: Apache-2.0
"""Turns merges of three or more tensors into trees of merges of two, which hls4ml's C++ supports; for every front end.

The tree joins neighbours and so keeps the tensors' order. Its intermediate results are exact, whatever the YAML sets for the
layer. The last pair has the layer's name and settings, and rounds once, as a single merge of all tensors would. The mean of n
tensors is their sum times 1/n: a mean of means would round at every step, and is a different number unless n is a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.model_graph import precision_of, retype

#: the types of the factor 1/n and its bias: with a sign, the factor fills the 18-bit port of a multiplier
MEAN_TYPES = {"scale": "ap_ufixed<17,0>", "bias": "ap_ufixed<1,0>"}

_Tensor = TypeVar("_Tensor")


def in_tree(tensors: Sequence[_Tensor], count: int, join: Callable[[_Tensor, _Tensor], _Tensor]) -> list[_Tensor]:
    """Join neighbouring tensors with `join`, level by level, until `count` or fewer are left; return those, in order."""
    left = list(tensors)
    while len(left) > count:
        pairs = [left[at : at + 2] for at in range(0, len(left), 2)]
        left = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return left


def pair_names(name: str, taken: Collection[str]) -> Iterator[str]:
    """Yield names such as add_pair1, add_pair2, ... that differ from all in `taken` by more than case, which hls4ml ignores."""
    known, index = {other.lower() for other in taken}, 0
    while True:
        index += 1
        if f"{name}_pair{index}".lower() not in known:
            yield f"{name}_pair{index}"


def mean_note(name: str, count: int) -> str:
    """Return the report's note on a layer that takes the mean of `count` tensors."""
    return f"layer {name!r}: the mean of {count} tensors is their sum times {1 / count:.6g} as {MEAN_TYPES['scale']}"


def keep_all_bits(graph: Any, names: Collection[str]) -> Any:
    """Give the layers `names` (merges of two) result types that hold every result exactly; change the graph and return it."""
    for layer in graph.get_layers():
        if layer.name in names:
            precisions = [layer.get_input_variable(tensor).type.precision for tensor in layer.inputs]
            if all(type(one).__name__.endswith(("FixedPrecisionType", "IntegerPrecisionType")) for one in precisions):
                a, b = (precision_of(one, f"layer {layer.name!r}: an input") for one in precisions)
                retype(graph, layer.get_output_variable().type, str(_exact(str(layer.get_attr("op")).lower(), a, b)))
    return graph


def _exact(operation: str, a: FixedPoint, b: FixedPoint) -> FixedPoint:
    """The narrowest type that holds every result of `a operation b` exactly."""
    signed = a.signed or b.signed
    if operation == "multiply":
        return FixedPoint(a.width + b.width, a.integer + b.integer, signed)
    whole = max(one.integer + (signed and not one.signed) for one in (a, b)) + (operation == "add")
    return FixedPoint(whole + max(a.fraction, b.fraction), whole, signed)
