# SPDX-License-Identifier: Apache-2.0
"""Merges of three and more tensors as trees of merges of two, which is what hls4ml's C++ has; for every front end.

A tree of neighbours keeps the tensors' order. What it makes on the way is as wide as it can be, whatever the YAML asks of the
layer: the layer's last pair has its name and its settings, and rounds once, as a merge of all at once would. The mean of n is
their sum times 1/n: a mean of means would round at every step, and is another number where n is no power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.model_graph import precision_of, retype

#: of 1/n: with a sign it fills an 18-bit port of a multiplier
MEAN_TYPES = {"scale": "ap_ufixed<17,0>", "bias": "ap_ufixed<1,0>"}

_Tensor = TypeVar("_Tensor")


def in_tree(tensors: Sequence[_Tensor], count: int, join: Callable[[_Tensor, _Tensor], _Tensor]) -> list[_Tensor]:
    """The tensors joined with their neighbours, level by level, until `count` or fewer are left."""
    left = list(tensors)
    while len(left) > count:
        pairs = [left[at : at + 2] for at in range(0, len(left), 2)]
        left = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return left


def pair_names(name: str, taken: Collection[str]) -> Iterator[str]:
    """add_pair1, add_pair2, ... without those that a layer has, also in other capitals, which hls4ml does not tell apart."""
    known, index = {other.lower() for other in taken}, 0
    while True:
        index += 1
        if f"{name}_pair{index}".lower() not in known:
            yield f"{name}_pair{index}"


def mean_note(name: str, count: int) -> str:
    """The report's note on a mean."""
    return f"layer {name!r}: the mean of {count} tensors is their sum times {1 / count:.6g} as {MEAN_TYPES['scale']}"


def keep_all_bits(graph: Any, names: Collection[str]) -> Any:
    """hls4ml's ModelGraph, its layers of these names (merges of two) of types that hold every result."""
    for layer in graph.get_layers():
        if layer.name in names:
            precisions = [layer.get_input_variable(tensor).type.precision for tensor in layer.inputs]
            if all(type(one).__name__.endswith(("FixedPrecisionType", "IntegerPrecisionType")) for one in precisions):
                a, b = (precision_of(one, f"layer {layer.name!r}: an input") for one in precisions)
                retype(graph, layer.get_output_variable().type, str(_exact(str(layer.get_attr("op")).lower(), a, b)))
    return graph


def _exact(operation: str, a: FixedPoint, b: FixedPoint) -> FixedPoint:
    """The narrowest type, rounding and overflow aside, of a operation b."""
    signed = a.signed or b.signed
    if operation == "multiply":
        return FixedPoint(a.width + b.width, a.integer + b.integer, signed)
    whole = max(one.integer + (signed and not one.signed) for one in (a, b)) + (operation == "add")
    return FixedPoint(whole + max(a.fraction, b.fraction), whole, signed)
