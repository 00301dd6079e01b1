# SPDX-License-Identifier: Apache-2.0
"""The settings that `new` derives from the layers that a judgement compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hypersonic.hls.errors import Edit
from hypersonic.hls.tune.measured import _of_variances


def layer(name: str, kind: str, before: Any = None) -> Any:
    settings = {"table_range_power2": 0, "table_size": 4096}
    return SimpleNamespace(name=name, class_name=kind, get_input_node=lambda: before, get_attr=settings.get)


def judged(nodes: list[Any], name: str, inputs: dict[str, str] | None = None) -> Any:
    """name: of the layer with a spread. inputs: hls4ml's name of each input -> the model's."""
    graph = SimpleNamespace(get_layers=lambda: nodes, inputs=list(inputs or {}))
    trained = SimpleNamespace(inputs=[SimpleNamespace(name=own) for own in (inputs or {}).values()])
    return SimpleNamespace(
        layers=(SimpleNamespace(name=name, spread=1.2),),
        conversion=SimpleNamespace(own_names={}, graph=graph, trained=trained),
    )


@pytest.mark.parametrize("between", [(), ("Reshape",), ("Clone", "Transpose", "Repack")])
def test_the_table_of_a_normalisation_ends_behind_the_variances_of_the_layer_before_it(between: tuple[str, ...]) -> None:
    """Layers between the two that only move numbers have no figures of their own."""
    nodes = [layer("sum", "Merge")]
    for number, kind in enumerate(between):
        nodes.append(layer(f"moved_{number}", kind, nodes[-1]))
    nodes.append(layer("normal", "LayerNormalization", nodes[-1]))
    judgement = judged(nodes, "sum")
    place = ("hls4ml", "LayerName", "normal")
    assert _of_variances(judgement) == (Edit((*place, "TableRangePower2"), -3), Edit((*place, "TableSize"), 16_384))


def test_the_variances_of_an_input_are_known_by_the_models_name_of_it() -> None:
    """hls4ml's names of the inputs of an ONNX file are its own."""
    source = layer("global_in", "Input")
    nodes = [source, layer("normal", "LayerNormalization", source)]
    edits = _of_variances(judged(nodes, "x", {"global_in": "x"}))
    assert [edit.place[-1] for edit in edits] == ["TableRangePower2", "TableSize"]
