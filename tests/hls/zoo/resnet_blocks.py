# SPDX-License-Identifier: Apache-2.0
"""Bottleneck blocks of ResNet-50 as networks of their own, described by the YAML that ships, converted in one process:

    python tests/hls/zoo/resnet_blocks.py DIRECTORY [STAGE:BLOCK:SIZE]...

writes DIRECTORY/s<stage>b<block>/ (HLS project and rf core). SIZE: pixels of a side of its input; 0: the network's own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hypersonic.hls.convert import convert
from hypersonic.hls.description import ZOO
from hypersonic.hls.keras_model import use_keras_2
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.resnet50 import network

_TYPE = "ap_ufixed<8,4,AP_RND,AP_SAT>"
_SHAPES: list[tuple[int, ...]] = []


def rows() -> NDArray[np.float32]:
    """Two rows for the block at hand, as on the wire."""
    return network.block_rows(_SHAPES[-1], 2, 9001).reshape(2, -1)


def described(name: str) -> dict[str, Any]:
    """What the YAML that ships says of the block's layers."""
    whole = yaml.safe_load((ZOO / "resnet50" / "resnet50.yaml").read_text())
    named = whole["hls4ml"]["LayerName"]
    whole["hls4ml"]["LayerName"] = {layer: options for layer, options in named.items() if layer.startswith(f"{name}_")}
    return {
        "name": name,
        "input": {"precision": _TYPE},
        "output": {"precision": _TYPE},
        "hls4ml": whole["hls4ml"],
        "gate": {"rows": f"{rows.__module__}:rows", "tolerance": 0.5},
    }


def main(directory: Path, blocks: list[list[int]]) -> None:
    use_keras_2()
    for stage, number, size in blocks:
        model = network.block_network(stage, first=number == 1, size=size or None)
        _SHAPES.append(model.input_shape[1:])
        file = directory / f"{model.name}.h5"
        keras_2.save(model, file)
        file.with_suffix(".yaml").write_text(yaml.safe_dump(described(model.name)))
        convert(file, directory / model.name, core="rf")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [[int(number) for number in block.split(":")] for block in sys.argv[2:]])
