# SPDX-License-Identifier: Apache-2.0
"""Bottleneck blocks of ResNet-50 as networks of their own, described by the YAML that ships, converted in one process:

    python tests/hls/zoo/resnet_blocks.py DIRECTORY SLOWER [STAGE:BLOCK:SIZE]...

writes DIRECTORY/s<stage>b<block>/ (HLS project and rf core) and prints how far csim is from Keras. SIZE: pixels of a side of
its input; 0: the network's own. SLOWER: reuse factors are so many times those that ship: a core of few multipliers is compiled
in seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hypersonic.hls.convert import convert
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.resnet50 import network
from hypersonic.hls.zoo.resnet50.events import SIZE

_TYPE = "ap_ufixed<8,4,AP_RND,AP_SAT>"
_SHAPES: list[tuple[int, ...]] = []
_PIXELS = 4096  # pixels that set a block's batch norms, at least


def rows() -> NDArray[np.float32]:
    """Two rows for the block at hand, as on the wire."""
    return block_rows(_SHAPES[-1], 2, 9001).reshape(2, -1)


def block_rows(shape: tuple[int, ...], count: int, seed: int) -> NDArray[np.float32]:
    """Inputs (count, *shape) for a block, like outputs of a ReLU: half zeros, the rest up to about 8 in steps of 1/16."""
    rng = np.random.default_rng([51, seed])
    return np.asarray(np.clip(np.rint(16 * rng.normal(0.0, 2.2, (count, *shape))), 0, 255) / 16, np.float32)


def block_network(stage: int, *, first: bool, size: int | None = None, seed: int = 1) -> Any:
    """One bottleneck block of stage 1 to 4 as a model of its own, with the layer names of the network.

    first: the first block of the stage, which has a convolution in its shortcut; otherwise the second. size: pixels per side of
    its input, by default as in the network.
    """
    _, tf_keras = keras_2.keras()
    keras_2.seed_weights(seed)
    filters = network.STAGES[stage - 1][1]
    stride = 2 if stage > 1 and first else 1
    side = size or SIZE // 4 >> max(0, stage - 1 - (stride - 1))
    channels = 4 * filters if not first else 64 if stage == 1 else 2 * filters
    x = tf_keras.layers.Input((side, side, channels), name="x")
    name = f"s{stage}b{1 if first else 2}"
    model = tf_keras.Model(x, network.block(x, filters, stride, name, widen=first), name=name)
    network.settle(model, block_rows(model.input_shape[1:], max(network.IMAGES, _PIXELS // side**2), seed))
    return model


def slower(options: dict[str, Any], factor: int) -> dict[str, Any]:
    """hls4ml's options with greater reuse factors; a strategy that takes any."""
    options["Model"]["Strategy"] = "Latency"
    for layer in options["LayerName"].values():
        layer.pop("Strategy", None)
    for name, layer in options["LayerName"].items():
        if "ReuseFactor" in layer:
            options["LayerName"][name] = layer | {"ReuseFactor": layer["ReuseFactor"] * factor}
    return options


def described(name: str, factor: int) -> dict[str, Any]:
    """The description of one block, from the shipped YAML."""
    options = yaml.safe_load((ZOO / "resnet50" / "resnet50.yaml").read_text())["hls4ml"]
    named = options["LayerName"].items()
    options["LayerName"] = {layer: settings for layer, settings in named if layer.startswith(f"{name}_")}
    return {
        "name": name,
        "input": {"precision": _TYPE},
        "output": {"precision": _TYPE},
        "hls4ml": slower(options, factor),
        "gate": {"rows": f"{rows.__module__}:rows", "tolerance": 0.5},
    }


def main(directory: Path, factor: int, blocks: list[list[int]]) -> None:
    use_keras_2()
    parameters = network.drawn().count_params()
    if parameters != network.PARAMETERS:
        raise ValueError(f"ResNet-50 has {parameters} parameters, expected {network.PARAMETERS}")
    for stage, number, size in blocks:
        model = block_network(stage, first=number == 1, size=size or None)
        _SHAPES.append(model.input_shape[1:])
        file = directory / f"{model.name}.h5"
        keras_2.save(model, file)
        file.with_suffix(".yaml").write_text(yaml.safe_dump(described(model.name, factor)))
        gate = convert(file, directory / model.name, core="rf").report["gate"]
        worst, mean = gate["max_abs_difference"], gate["mean_abs_difference"]
        sys.stdout.write(f"{model.name}: csim against Keras, largest difference {worst:.3f}, mean {mean:.3f}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [[int(number) for number in block.split(":")] for block in sys.argv[3:]])
