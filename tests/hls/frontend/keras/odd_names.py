# SPDX-License-Identifier: Apache-2.0
"""A network twice, with plain names and with names that hls4ml cannot take:

python tests/hls/frontend/keras/odd_names.py DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hypersonic.hls.convert import convert
from hypersonic.hls.frontend.keras.model import use_keras_2

PLAIN = ["x", "one", "two", "norm", "three", "four", "y"]

#: a C++ keyword; the weights' words; alike but for illegal characters and capitals; an activation that hls4ml calls as the next
ODD = ["int", "bias_kernel", "a/b", "beta_norm", "A.b", "A.b_relu", "2-y"]

_YAML = """\
name: odd
input: {name: x, precision: "ap_fixed<16,6>"}
output: {name: y}
hls4ml:
  Model: {Precision: "ap_fixed<16,6>", ReuseFactor: 1}
  LayerName:
    %s: {Precision: {result: "ap_fixed<14,5>"}}
    %s: {Precision: {result: "ap_fixed<13,5>"}}
"""


def main(directory: Path) -> None:
    use_keras_2()
    import tf_keras as keras

    layers, reports = keras.layers, {}
    for kind, names in (("plain", PLAIN), ("odd", ODD)):
        keras.utils.set_random_seed(3)
        source, one, two, norm, three, four, last = names
        x = layers.Input((4,), name=source)
        y = layers.Activation("relu", name=two)(layers.Dense(4, bias_initializer="random_normal", name=one)(x))
        y = layers.BatchNormalization(beta_initializer="random_normal", gamma_initializer="random_normal", name=norm)(y)
        y = layers.Dense(3, "relu", bias_initializer="random_normal", name=three)(y)
        y = layers.Activation("linear", name=four)(y)
        model = keras.Model(x, layers.Dense(2, bias_initializer="random_normal", name=last)(y))
        (where := directory / kind).mkdir()
        model.save(where / "odd.h5")
        (where / "odd.yaml").write_text(_YAML % (json.dumps(one), json.dumps(four)))
        report = convert(where / "odd.h5", where / "project", core="da").report
        reports[kind] = {"gate": report["gate"], "notes": report["notes"]}
    (directory / "found.json").write_text(json.dumps(reports))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
