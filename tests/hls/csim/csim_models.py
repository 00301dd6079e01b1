# SPDX-License-Identifier: Apache-2.0
"""Two small networks converted and run by hls4ml alone, in one process: python tests/hls/csim/csim_models.py DIRECTORY

DIRECTORY/<name>/ is the project, DIRECTORY/<name>.npz the rows x (one array an input) and what hls4ml's own compiled
library answered, y (one array an output), as real numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.frontend.graph import snap_weights
from hypersonic.hls.frontend.keras.model import conversion_options, use_keras_2
from hypersonic.hls.model_graph import tensor_types
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

ROWS = 40
TYPE = "ap_fixed<18,7>"
NAMES = ("streams", "arrays")


def streams(layers: Any, keras: Any) -> Any:
    """Line buffers, a table, a branch, two inputs and two outputs."""
    image, line = keras.Input((6, 5, 2), name="image"), keras.Input((6,), name="line")
    x = layers.Conv2D(3, 3, padding="same", activation="relu", name="conv")(image)
    x = layers.Flatten(name="flat")(layers.MaxPooling2D(2, name="pool")(x))
    both = layers.Concatenate(name="both")([layers.Dense(4, name="left")(x), layers.Dense(3, name="right")(line)])
    return keras.Model([line, image], [layers.Dense(3, "softmax", name="kind")(both), layers.Dense(2, name="size")(both)])


def arrays(layers: Any, keras: Any) -> Any:
    """A convolution whose pixels hls4ml copies by generated statements."""
    x = keras.Input((6, 5, 2), name="image")
    y = layers.Flatten(name="flat")(layers.Conv2D(3, 3, activation="relu", name="conv")(x))
    return keras.Model(x, layers.Dense(4, "sigmoid", name="dense")(y))


def main(directory: Path) -> None:
    use_keras_2()
    import hls4ml
    import tf_keras as keras

    for name, network, io_type in (("streams", streams, "io_stream"), ("arrays", arrays, "io_parallel")):
        keras.utils.set_random_seed(1)
        model = network(keras.layers, keras)
        config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Vitis", default_precision=TYPE)
        for layer in config["LayerName"].values():
            layer["Precision"]["result"] = TYPE
        options = conversion_options(directory / name / "hls", name, "xcu250-figd2104-2L-e") | {"io_type": io_type}
        graph = hls4ml.converters.convert_from_keras_model(model, hls_config=config, **options)
        snap_weights(graph)
        graph.write()
        script = directory / name / "hls" / "build_lib.sh"
        script.write_text(script.read_text().replace("-O3", "-O0"))  # a fifth of the time
        graph._compile()
        x = [
            np.random.default_rng(i).integers(-4096, 4096, (ROWS, *tensor.shape[1:])) / 2048
            for i, tensor in enumerate(model.inputs)
        ]
        y = graph.predict(x if len(x) > 1 else x[0])
        rows = [
            Row(tuple(TensorSpec(f"t{i}", one.shape, one.fixed) for i, one in enumerate(side))) for side in tensor_types(graph)
        ]
        HlsProject(directory / name, name, rows[0], rows[1], "xcu250-figd2104-2L-e", {}).save()
        np.savez(directory / f"{name}.npz", *x, *(y if isinstance(y, list) else [y]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
