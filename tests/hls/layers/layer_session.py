# SPDX-License-Identifier: Apache-2.0
"""Converts the models of layer_rows.py, in one process: python tests/hls/layers/layer_session.py CELLS DIRECTORY

CELLS: a JSON file, label of a row -> the state of each of its three cells (docs/layers.md). Writes into DIRECTORY:
messages.json, the errors of the cells that are not exact ("" if there is none); unwrapped.json, how far answers change
without TimeDistributed; simplified.json, the same of layers that are rewritten; and projects <io_type>_<i>/, which hold exact
layers, with parts.pickle: for each layer its label, its column, what the core computes, and its inputs and outputs among the
project's.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.da.lower import adder_graph, read_da_network
from hypersonic.hls.errors import ConversionError, UnsupportedLayerError
from hypersonic.hls.frontend.description import read_description, sides_of
from hypersonic.hls.frontend.graph import model_graph
from hypersonic.hls.frontend.keras.model import _custom_objects, keras_model, use_keras_2
from hypersonic.hls.frontend.keras.simplify import simplified
from hypersonic.hls.frontend.keras.wrappers import unwrapped
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.model_graph import edge, tensor_types
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.read import read_rf_network
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.hls.layers.layer_rows import CASES, GROUPS, group_of

#: column of the table -> the core and the io_type
COLUMNS = {
    "da": (CoreKind.DA, "io_parallel"),
    "rf io_parallel": (CoreKind.RF, "io_parallel"),
    "rf io_stream": (CoreKind.RF, "io_stream"),
}


#: between a row and the rest of a name
END = "_zz_"


def word(label: str) -> str:
    """A row's label as the name of a layer."""
    return re.sub(r"\W+", "_", f"l_{label}").strip("_").lower()


class Part:
    """The layers of one row in a ModelGraph that holds several, as the readers see a ModelGraph."""

    def __init__(self, graph: Any, name: str) -> None:
        self.config = graph.config
        self._layers = [layer for layer in graph.get_layers() if _row(layer.name) == name]
        made = {tensor: layer.name for layer in graph.get_layers() for tensor in layer.outputs}
        self.inputs, self.outputs = ([t for t in side if _row(made[t]) == name] for side in (graph.inputs, graph.outputs))

    def sides(self, graph: Any) -> Iterator[tuple[list[str], list[str]]]:
        """(all tensors, those of the row): of the inputs, then of the outputs."""
        yield from ((graph.inputs, self.inputs), (graph.outputs, self.outputs))

    def get_layers(self) -> Iterator[Any]:
        return iter(self._layers)


def _row(name: str) -> str:
    """The row that a layer is of: names are <row><END><rest>, and hls4ml puts words before some."""
    return re.sub("^(repack|clone|zp1d|zp2d|bnbt)_", "", name.split(END, 1)[0])


def converted(labels: list[str], io_type: str, directory: Path, core: CoreKind) -> Any:
    """The ModelGraph of a model that holds these rows, each with its own inputs and output."""
    import tf_keras as keras

    keras.utils.set_random_seed(1)
    inputs: list[Any] = []
    outputs: list[Any] = []
    types: dict[str, Any] = {}
    for label in labels:
        case, name = CASES[label], f"{word(label)}{END}"
        x = [keras.Input(shape, name=f"{name}x{k}") for k, shape in enumerate(case.shapes)]
        types |= {tensor.name: {"precision": kind} for tensor, kind in zip(x, case.x, strict=False)}
        inputs += x
        outputs.append(case.build(keras.layers, f"{name}y", *x))
    model = keras.Model(inputs, outputs)
    _draw(model)
    trained = keras_model(model)
    description: dict[str, Any] = {"name": directory.name, "inputs": types, "outputs": {}}
    settings = {f"{word(label)}{END}{end}": given for label in labels for end, given in CASES[label].settings.items()}
    options = {"IOType": io_type, "Model": {"Precision": {"default": "ap_fixed<16,6>"}}, "LayerName": settings}
    description["hls4ml"] = options
    file = directory.with_suffix(".h5")
    file.touch()
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
    read = read_description(file)
    x_sides = sides_of(read.inputs, [tensor.name for tensor in trained.inputs], "input")
    y_sides = sides_of(read.outputs, [tensor.name for tensor in trained.outputs], "output")
    return model_graph(trained, read, x_sides, y_sides, directory / "hls", core)[0]


def _draw(model: Any) -> None:
    """Random weights; variances of normalisations stay positive."""
    rng = np.random.default_rng(3)
    for layer in model.layers:
        layer.set_weights([rng.uniform(0.2, 1.8, weight.shape) for weight in layer.get_weights()])


def messages(label: str, columns: list[str], directory: Path) -> dict[str, str]:
    """The error of each cell; "" if the core takes the layer."""
    said: dict[str, str] = {}
    for io_type in {COLUMNS[column][1]: None for column in columns}:
        own = [column for column in columns if COLUMNS[column][1] == io_type]
        try:
            graph = converted([label], io_type, directory / "single", CoreKind.RF)
        except ConversionError as error:
            said |= dict.fromkeys(own, str(error))
            continue
        for column in own:
            try:
                compute(graph, COLUMNS[column][0])
                said[column] = ""
            except UnsupportedLayerError as error:
                said[column] = str(error)
    return said


def difference_unwrapped() -> float:
    """How far the answers of the TimeDistributed rows are from those of the same layers without the wrapper."""
    import tf_keras as keras

    labels = [label for label in CASES if label.startswith("TimeDistributed")]
    x = [keras.Input(CASES[label].shapes[0]) for label in labels]
    model = keras.Model(x, [CASES[label].build(keras.layers, word(label), one) for label, one in zip(labels, x, strict=True)])
    _draw(model)
    plain, remarks = unwrapped(model, {})
    stay = [label for label in labels if any(kind in label for kind in ("2D", "Global", "LSTM"))]
    assert len(remarks) == len(labels) - len(stay)
    rows = [np.random.default_rng(4).normal(size=(3, *one.shape[1:])).astype(np.float32) for one in x]
    found = [float(np.abs(a - b).max()) for a, b in zip(model(rows), plain(rows), strict=True)]
    return max(*found, difference_in_depth())


def difference_in_depth() -> float:
    """The same of a model inside a model, whose parts' first names are those of other layers."""
    import tf_keras as keras

    layers = keras.layers
    pixels = keras.Sequential([layers.Conv2D(2, 2, activation="relu"), layers.BatchNormalization()])
    image = keras.Sequential([pixels, layers.MaxPooling2D(2), layers.Reshape((-1,))])
    behind = [layers.TimeDistributed(layers.Dropout(0.5), name="t_part"), layers.GRU(2, name="t_part_2")]
    model = keras.Sequential([keras.Input((3, 5, 4, 2)), layers.TimeDistributed(image, name="t"), *behind])
    _draw(model)
    plain, remarks = unwrapped(model, {})
    assert len(remarks) == 2
    rows = np.random.default_rng(4).normal(size=(3, 3, 5, 4, 2)).astype(np.float32)
    return float(np.abs(model(rows) - plain(rows)).max())


def difference_simplified() -> float:
    """How far the answers of rows are from those of the layers that hls4ml reads in their place."""
    import tf_keras as keras

    worst, count = 0.0, 0
    custom = _custom_objects()
    for label, case in CASES.items():
        keras.utils.set_random_seed(1)
        with keras.utils.custom_object_scope(custom):
            x = [keras.Input(shape) for shape in case.shapes]
            try:
                model = keras.Model(x, case.build(keras.layers, word(label), *x))
            except ValueError:  # of no image
                continue
        _draw(model)
        try:
            plain, _ = simplified(model, custom)
        except UnsupportedLayerError:
            continue
        if plain is not model:
            count += 1
            rows = [np.random.default_rng(4).normal(0, 2, size=(3, *one.shape[1:])).astype(np.float32) for one in x]
            given = rows[0] if len(rows) == 1 else rows
            a, b = (np.asarray(one(given, training=False)) for one in (model, plain))
            worst = max(worst, float(np.abs(a - b).max())) if a.shape == b.shape else np.inf
    assert count >= 20, count
    return worst


def compute(graph: Any, core: CoreKind) -> Any:
    """The core of a ModelGraph: an AdderGraph or an Network."""
    if core is CoreKind.DA:
        return adder_graph(read_da_network(graph))
    network = read_rf_network(graph)
    plan(network)
    return network


def write(labels: dict[str, list[str]], directory: Path) -> None:
    """Write a project that holds the layers of these rows, and its parts. labels: column -> rows, of columns of one io_type."""
    io_type = COLUMNS[next(iter(labels))][1]
    rows = list(dict.fromkeys(label for column in labels.values() for label in column))
    graph = converted(rows, io_type, directory, CoreKind.RF)
    graph.write()
    repair(directory / "hls")
    x, y = (
        Row(tuple(TensorSpec(f"t{k}", one.shape, edge(one.fixed, "the tensor")) for k, one in enumerate(side)))
        for side in tensor_types(graph)
    )
    HlsProject(directory, directory.name, x, y, "xcu250-figd2104-2L-e", {}).save()
    parts = []
    for column, chosen in labels.items():
        for label in chosen:
            part = Part(graph, word(label))
            computed = compute(part, COLUMNS[column][0])
            places = [[side.index(tensor) for tensor in own] for side, own in part.sides(graph)]
            parts.append((label, column, computed, *places))
    (directory / "parts.pickle").write_bytes(pickle.dumps(parts))


def main(cells: dict[str, list[str]], directory: Path) -> None:
    use_keras_2()
    warnings.simplefilter("ignore")
    said = {
        label: messages(label, [column for column, cell in zip(COLUMNS, row, strict=True) if cell != "exact"], directory)
        for label, row in cells.items()
    }
    (directory / "messages.json").write_text(json.dumps(said))
    (directory / "unwrapped.json").write_text(json.dumps(difference_unwrapped()))
    (directory / "simplified.json").write_text(json.dumps(difference_simplified()))
    exact = {column: [label for label, row in cells.items() if row[k] == "exact"] for k, column in enumerate(COLUMNS)}
    for io_type in ("io_parallel", "io_stream"):
        columns = [column for column, (_, kind) in COLUMNS.items() if kind == io_type]
        for index in range(GROUPS):
            labels = {column: [label for label in exact[column] if group_of(label) == index] for column in columns}
            write(labels, directory / f"{io_type}_{index}")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
