# SPDX-License-Identifier: Apache-2.0
"""Makes a verdict from a judgement, in the process that has the model loaded."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import Any

from hypersonic.hls.closeness.comparison import OutputDifference
from hypersonic.hls.closeness.difference import Kind
from hypersonic.hls.csim.explain import describe_begin, wide_type
from hypersonic.hls.csim.judge import Judgement
from hypersonic.hls.csim.layer_trace import LayerTrace
from hypersonic.hls.csim.overflow.figures import Overflows, VariableCounts
from hypersonic.hls.csim.trace import NoTraceError
from hypersonic.hls.errors import Edit, layer_place
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.model_graph import MOVES
from hypersonic.hls.tune.verdict import Verdict

#: the assumed largest ratio of a vector's variance to that of all numbers that a LayerNormalization reads
_VARIANCES = 4

#: the most values of a table
_MOST_VALUES = 16_384


def verdict_of(judgement: Judgement, limit: float) -> Verdict:
    """Return the verdict.

    Args:
        limit: above this loss, it names the layer in which the difference begins.
    """
    loss = max(map(_loss, judgement.found.outputs))
    edits = _of_wraps(judgement)
    refused, is_far = judgement.project.refused, bool(judgement.found.far) and not edits
    if edits or not (refused or loss > limit):
        return Verdict(refused, is_far, loss, edits, "", "")
    try:
        layers = judgement.layers
    except NoTraceError as error:
        return Verdict(refused, is_far, loss, (), "", f"its layers cannot be compared: {error}")
    first = next((layer for layer in layers if not layer.share <= limit), None)
    table = _of_worst_table(layers, judgement)
    if first is None:
        return Verdict(refused, is_far, loss, (), "", describe_begin(layers), table)
    edits = _of_range(first, limit) or _of_table(first, judgement)
    return Verdict(refused, is_far, loss, edits, first.name, describe_begin(layers), table)


def in_own_names(edits: Sequence[Edit], trained: TrainedModel) -> tuple[Edit, ...]:
    """Return the edits with the layers and tensors named as in the model."""
    own = {new: old for old, new in trained.names.items()}
    return tuple(Edit(tuple(own.get(key, key) for key in edit.place), edit.value) for edit in edits)


def _loss(output: OutputDifference) -> float:
    return output.total.other_class if output.judged.kind is Kind.CLASSES else output.total.share


def _of_wraps(judgement: Judgement) -> tuple[Edit, ...]:
    """Return wider types for the variables that wrap so that a build refuses the network."""
    found = judgement.overflows
    if not isinstance(found, Overflows) or not found.wrong or judgement.conversion.description.gate is None:
        return ()
    edits = [edit for each in found.too_narrow if not each.written_out for edit in _of_variable(each)]
    return in_own_names(edits, judgement.conversion.trained)


def _of_variable(each: VariableCounts) -> list[Edit]:
    """Return edits for a variable's types. They are under Precision, or beside it for a C++ name such as exp_table_t."""
    names = [name.strip() for name in each.variable.split(",")]
    keys = [(name,) if name.endswith("_t") else ("Precision", name) for name in names]
    return [Edit(layer_place(each.layer, *key), str(each.needed)) for key in keys]


def _of_range(layer: LayerTrace, limit: float) -> tuple[Edit, ...]:
    """Return a type that holds a layer's results, if its own is too narrow or too coarse. An input's place has its name."""
    if not layer.outside and layer.step <= limit * layer.spread:
        return ()
    place = ("input", layer.name) if layer.kind == "input" else layer_place(layer.name, "Precision", "result")
    return (Edit(place, wide_type(layer)),)


def _of_table(layer: LayerTrace, judgement: Judgement) -> tuple[Edit, ...]:
    """Return a table with four times as many values, and two more bits, for a layer that looks its function up."""
    if layer.kind == "LayerNormalization" and (edits := _of_variances(judgement)):
        return edits
    names = judgement.conversion.own_names
    for each in judgement.conversion.graph.get_layers():
        size = int(each.get_attr("table_size") or 0)
        is_looked_up = str(each.get_attr("activation")).lower() not in ("linear", "relu", "relu6")
        if names.get(each.name, each.name) == layer.name and is_looked_up and 0 < size < _MOST_VALUES:
            kind = _wide_table(each)
            wide = [Edit(layer_place(layer.name, "table_t"), kind)] if kind else []
            return (Edit(layer_place(layer.name, "TableSize"), 4 * size), *wide)
    return ()


def _of_worst_table(layers: Sequence[LayerTrace], judgement: Judgement) -> tuple[Edit, ...]:
    """Return a larger table for the layer with the largest difference among those that have a table."""
    found = (_of_table(layer, judgement) for layer in sorted(layers, key=lambda layer: layer.share, reverse=True))
    return next(filter(None, found), ())


def _of_variances(judgement: Judgement) -> tuple[Edit, ...]:
    """Return tables of 1 / sqrt(variance) that cover the variances that each LayerNormalization reads, with the same steps."""
    conversion, spreads = judgement.conversion, {each.name: each.spread for each in judgement.layers}
    inputs = zip(conversion.graph.inputs, conversion.trained.inputs, strict=True)
    names = conversion.own_names | {name: tensor.name for name, tensor in inputs}
    edits: list[Edit] = []
    for node in conversion.graph.get_layers():
        before = node.get_input_node() if node.class_name == "LayerNormalization" else None
        while before is not None and before.class_name in MOVES:
            before = before.get_input_node()
        spread = spreads.get(names.get(before.name, before.name), 0.0) if before is not None else 0.0
        power = -max(0, ceil(log2(_VARIANCES * spread**2))) if spread else 0
        if power < int(node.get_attr("table_range_power2") or 0):
            size = max(min(_MOST_VALUES, int(node.get_attr("table_size")) << -power), 2**-power)
            name = names.get(node.name, node.name)
            edits += [Edit(layer_place(name, "TableRangePower2"), power), Edit(layer_place(name, "TableSize"), size)]
    return tuple(edits)


def _wide_table(layer: Any) -> str:
    """Return the type of a layer's table with two more fraction bits; "" if it has no type of its own."""
    held = layer.types.get("table_t") if hasattr(layer, "types") else None
    kind: Any = getattr(held, "precision", None)
    if not isinstance(getattr(kind, "integer", None), int):
        return ""
    sign = "" if kind.signed else "u"
    return f"ap_{sign}fixed<{kind.width + 2},{kind.integer}>"
