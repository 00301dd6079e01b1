# SPDX-License-Identifier: Apache-2.0
"""Finds LSTM and GRU as torch writes them for batch_first=True, with the rows as the second dimension.

ONNX has the steps as the first dimension and the rows as the second. torch puts a Transpose in front, and a Squeeze of the
directions and a Transpose behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

KINDS = ("LSTM", "GRU")

#: attribute of the nodes that by_rows makes: 1 for all steps, 0 for the last
ALL_STEPS = "hypersonic_all_steps"


def by_rows(
    nodes: Sequence[Any], constants: Mapping[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]], outputs: Sequence[str]
) -> tuple[Any, ...]:
    """Return the nodes with each group around an LSTM or GRU as one node that reads and gives (rows, steps, numbers).

    shapes: of all tensors; those of tensors between two such nodes are added. outputs: of the model.
    A group of another form stays as it is (recurrent.py refuses it).
    """
    changed = list(nodes)
    turned = {node.output[0]: node.input[0] for node in nodes if _turns(node)}
    for node in nodes:
        if node.op_type in KINDS and node.input[0] in turned:
            found = _group(node, changed, constants, turned, outputs)
            if found:
                sequence, made, gone = found
                steps, _, rows, size = shapes.get(node.output[0], (0, 0, 0, 0))
                shapes[sequence] = (rows, steps, size)
                at = changed.index(node)
                changed[at : at + 1] = made
                changed = [each for each in changed if each not in gone]
    return tuple(changed)


def _turns(node: Any) -> bool:
    return node.op_type == "Transpose" and list(_options(node).get("perm", [])) == [1, 0, 2]


def _group(
    node: Any, nodes: list[Any], constants: Mapping[str, NDArray[Any]], turned: dict[str, str], outputs: Sequence[str]
) -> tuple[str, list[Any], list[Any]] | None:
    """(the tensor of all steps, the nodes that replace a recurrent node, the nodes that go), or None for another form."""
    from onnx import helper

    def readers(tensor: str) -> list[Any]:
        return [each for each in nodes if tensor in each.input]

    def squeezed(tensor: str, axis: int) -> list[Any] | None:
        """The nodes that take one axis of a tensor away, or None if others read it."""
        found = readers(tensor) if tensor else []
        fits = all(each.op_type == "Squeeze" and _axes(each, constants) == [axis] for each in found)
        return found if fits and tensor not in outputs else None

    results = [*node.output, "", "", ""][:3]
    of_steps, of_last = squeezed(results[0], 1), squeezed(results[1], 0)
    if of_steps is None or of_last is None or (results[2] and (readers(results[2]) or results[2] in outputs)):
        return None
    sequence, gone, made = f"{results[0] or node.name}_by_rows", [*of_steps, *of_last], list[Any]()
    inputs = [turned[node.input[0]], *node.input[1:]]
    for squeeze in of_steps:
        tensor = squeeze.output[0]
        behind = readers(tensor)
        if tensor in outputs or not all(_turns(each) or (each.op_type in KINDS and each.input[0] == tensor) for each in behind):
            return None
        turned[tensor] = sequence
        gone += [each for each in behind if _turns(each)]
        made += [helper.make_node("Identity", [sequence], list(each.output)) for each in behind if _turns(each)]
    options = _options(node)

    def one(output: str, every: int, name: str) -> Any:
        return helper.make_node(node.op_type, inputs, [output], name, **options, **{ALL_STEPS: every})

    name = node.name or node.output[0]
    lasts = [one(squeeze.output[0], 0, name) for squeeze in of_last]
    return sequence, [*([one(sequence, 1, name)] if of_steps else []), *lasts, *made], gone


def _axes(node: Any, constants: Mapping[str, NDArray[Any]]) -> list[int]:
    given = constants.get(node.input[1]) if len(node.input) > 1 else None
    return list(_options(node).get("axes", [])) if given is None else [int(axis) for axis in given.reshape(-1)]


def _options(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {each.name: helper.get_attribute_value(each) for each in node.attribute}
