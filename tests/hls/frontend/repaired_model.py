# SPDX-License-Identifier: Apache-2.0
"""A network of what hls4ml's own C++ cannot do, built without a gate: python tests/hls/frontend/repaired_model.py DIRECTORY

An LSTM, and both directions of a GRU, behind an input of other modes than their results'; a Dense on several dimensions and the
recurrent layers under a reuse factor of the whole model that none of them can do; an Embedding.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.frontend.keras.model import use_keras_2

NAME, VOCABULARY = "mixed", 6
INPUTS = ("index", "points", "series")

DESCRIPTION = {
    "name": NAME,
    "inputs": {
        "index": {"precision": "ap_fixed<8,8,AP_RND_CONV,AP_SAT>"},
        "points": {"precision": "ap_fixed<16,6,AP_RND_CONV,AP_SAT>"},
        "series": {"precision": "ap_fixed<16,6,AP_RND_CONV,AP_SAT>"},
    },
    "output": {"precision": "ap_fixed<24,10,AP_RND,AP_SAT>"},
    "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<18,8>"}, "Strategy": "Resource", "ReuseFactor": 4}},
}


def network(keras: Any) -> Any:
    layers = keras.layers
    index, points, series = (
        keras.Input((4,), name="index"),
        keras.Input((12, 3), name="points"),
        keras.Input((5, 3), name="series"),
    )
    word = layers.Flatten(name="flat")(layers.Embedding(VOCABULARY, 3, name="table")(index))
    cloud = layers.GlobalAveragePooling1D(name="mean")(layers.Dense(8, name="phi")(points))
    once = layers.LSTM(4, name="lstm")(series)
    twice = layers.Bidirectional(layers.GRU(2, name="gru"), name="both")(series)
    joined = layers.Concatenate(name="ab")([word, cloud])
    joined = layers.Concatenate(name="all")([joined, layers.Concatenate(name="cd")([once, twice])])
    return keras.Model([index, points, series], layers.Dense(2, name="y")(joined))


def main(directory: Path) -> None:
    use_keras_2()
    import tf_keras as keras

    keras.utils.set_random_seed(5)
    file = directory / f"{NAME}.h5"
    network(keras).save(file)
    file.with_suffix(".yaml").write_text(yaml.safe_dump(DESCRIPTION))
    convert(file, directory / NAME, core="csim")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
