# SPDX-License-Identifier: Apache-2.0
"""Random Keras models for the rf core, converted in one process, because importing TensorFlow costs seconds:

    python tests/hls/rf/rf_models.py SEED DIRECTORY FAMILY:COUNT...

writes DIRECTORY/<family>_<i>/ (HLS project, core/, network.pickle). Every other model is io_stream. A model that the core
refuses leaves DIRECTORY/<family>_<i>.refused with the words instead.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.da.lower import adder_graph, read_da_network
from hypersonic.hls.da.write import write_core
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.graph import snap_weights
from hypersonic.hls.frontend.keras.model import conversion_options, use_keras_2
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.model_graph import edge
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rf.read import read_rf_network
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.hls.rf.drawing import Config
from tests.hls.rf.families import FAMILIES


def convert(model: Any, names: Config, name: str, directory: Path, io_type: str = "io_parallel") -> bool:
    """One model, or the layers of one -> its project and core; whether there is a core."""
    path = directory / name
    options = conversion_options(path / "hls", name, "xcu250-figd2104-2L-e", io_type)
    if isinstance(model, list) and io_type == "io_stream":
        (directory / f"{name}.refused").write_text("hls4ml has no C++ for it in io_stream")
        return False
    try:
        graph = _graph_of_layers(model, names, options) if isinstance(model, list) else _graph(model, names, options)
    except Exception as error:  # hls4ml has no class of its own for it
        if "IO Type is not supported" not in str(error):
            raise
        (directory / f"{name}.refused").write_text(str(error))
        return False
    snap_weights(graph)
    graph.write()
    repair(path / "hls")
    try:
        network = read_rf_network(graph)
    except UnsupportedLayerError as error:
        (directory / f"{name}.refused").write_text(str(error))
        return False
    inputs, outputs = (_row(tensors) for tensors in (network.inputs, network.outputs))
    (path / "network.pickle").write_bytes(pickle.dumps(network))
    beats = name.startswith("beats")
    if io_type == "io_parallel":
        _write_da(graph, inputs, outputs, path / "da")
    _, figures = write_rf_core(network, name, inputs, outputs, path / "core", whole_row_bits=0 if beats else 1 << 20)
    HlsProject(path, name, inputs, outputs, "xcu250-figd2104-2L-e", {}, {"core": figures}).save()
    return True


def _graph(model: Any, names: Config, options: dict[str, Any]) -> Any:
    import hls4ml

    config = hls4ml.utils.config_from_keras_model(
        model, granularity="name", backend="Vitis", default_precision="ap_fixed<24,12>"
    )
    for layer, settings in names.items():
        config["LayerName"].setdefault(layer, {}).update(settings)
    return hls4ml.converters.convert_from_keras_model(model, hls_config=config, **options)


def _graph_of_layers(layers: list[dict[str, Any]], names: Config, options: dict[str, Any]) -> Any:
    from hls4ml.converters import create_config
    from hls4ml.model.graph import ModelGraph

    config = create_config(**options)
    config["HLSConfig"] = {"Model": {"Precision": "ap_fixed<24,12>", "ReuseFactor": 1}, "LayerName": names}
    inputs = [layer["name"] for layer in layers if layer["class_name"] == "InputLayer"]
    return ModelGraph.from_layer_list(config, layers, inputs, [layers[-1]["name"]])


def _write_da(graph: Any, inputs: Row, outputs: Row, path: Path) -> None:
    """The da core of the same graph, if it takes it: <path>/core.json and adders.pickle, else the words of its refusal."""
    try:
        adders = adder_graph(network := read_da_network(graph))
        write_core(network, "da", inputs, outputs, path)
        (path / "adders.pickle").write_bytes(pickle.dumps(adders))
    except UnsupportedLayerError as error:
        path.with_suffix(".refused").write_text(str(error))


def _row(tensors: tuple[Tensor, ...]) -> Row:
    return Row(tuple(TensorSpec(tensor.name, tensor.shape, edge(tensor.precision, tensor.name)) for tensor in tensors))


def main(seed: int, directory: Path, families: list[tuple[str, int]]) -> None:
    use_keras_2()
    for family, count in families:
        rng, converted = np.random.default_rng([seed, *family.encode()]), 0
        for attempt in range(4 * count):  # some are refused
            model, names = FAMILIES[family](rng)
            io_type = "io_stream" if attempt % 2 else "io_parallel"
            converted += convert(model, names, f"{family}_{attempt}", directory, io_type)
            if converted == count:
                break


if __name__ == "__main__":
    wanted = [argument.split(":") for argument in sys.argv[3:]]
    main(int(sys.argv[1]), Path(sys.argv[2]), [(family, int(count)) for family, count in wanted])
