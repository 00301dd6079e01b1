# SPDX-License-Identifier: Apache-2.0
"""Random small Keras models with random precisions, converted in one process, because importing TensorFlow costs seconds:

    python tests/hls/random_models.py SEED COUNT DIRECTORY

writes DIRECTORY/net_<i>/ as hypersonic.hls.convert does.
"""

from __future__ import annotations

import sys
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.keras_model import use_keras_2

MODES = [f"AP_{q},AP_{o}" for q, o in product(("TRN", "RND", "RND_CONV"), ("WRAP", "SAT"))]


class Modes:
    """Every rounding and overflow mode in turn, so that a handful of networks meets them all."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._modes = cycle(rng.permutation(MODES))

    def precision(self, low: int, high: int, integers: tuple[int, int], signed: bool | None = None) -> str:
        """low to high bits, of which integers[0] to integers[1] left of the point."""
        width = self._rng.integers(low, high, endpoint=True)
        # ap_types reads beyond its bits when more are dropped than there are: the point stays inside the number
        integer = min(width, self._rng.integers(*integers, endpoint=True))
        kind = "ap_fixed" if signed or (signed is None and self._rng.random() < 0.7) else "ap_ufixed"
        return f"{kind}<{width},{integer},{next(self._modes)}>"


def model(rng: np.random.Generator, modes: Modes) -> tuple[Any, dict[str, Any]]:
    """A chain of dense, batch normalisation and activations, and hls4ml's LayerName for it."""
    import tf_keras as keras

    size = int(rng.integers(1, 6))
    layers: list[Any] = [keras.Input((size,), name="x")]
    names: dict[str, Any] = {}
    for index in range(int(rng.integers(1, 5))):
        kind = rng.choice(["dense", "dense", "bn", "relu", "linear"])
        name = f"{kind}_{index}"
        result = modes.precision(4, 18, (1, 9))
        if kind == "dense":
            units, bias = int(rng.integers(1, 6)), bool(rng.random() < 0.7)
            activation = rng.choice([None, "relu"])
            initializer = keras.initializers.RandomUniform(-3.9, 3.9, seed=int(rng.integers(1 << 30)))
            layers.append(
                keras.layers.Dense(
                    units, activation, bias, kernel_initializer=initializer, bias_initializer=initializer, name=name
                )
            )
            weight, accum = (
                modes.precision(4, 12, (3, 3), True),
                rng.choice(["auto", "auto", "ap_fixed<60,14>", "ap_fixed<58,11,AP_RND>"]),
            )
            names[name] = {
                "Precision": {
                    "weight": weight,
                    "bias": modes.precision(4, 14, (3, 4), True),
                    "accum": str(accum),
                    "result": result,
                }
            }
            if activation:
                names[f"{name}_relu"] = {"Precision": {"result": modes.precision(4, 16, (1, 9))}}
        elif kind == "bn":
            layers.append(keras.layers.BatchNormalization(name=name))
            names[name] = {
                "Precision": {
                    "scale": modes.precision(8, 14, (3, 3), True),
                    "bias": modes.precision(8, 16, (4, 4), True),
                    "result": result,
                }
            }
        else:
            layers.append(keras.layers.Activation(kind, name=name))
            names[name] = {"Precision": {"result": result}}
    made = keras.Sequential(layers)
    for layer in made.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            n = layer.get_weights()[0].shape[0]
            layer.set_weights([rng.uniform(-2, 2, n), rng.uniform(-2, 2, n), rng.uniform(-1, 1, n), rng.uniform(0.9, 2, n)])
    return made, names


def main(seed: int, count: int, directory: Path) -> None:
    use_keras_2()
    rng = np.random.default_rng(seed)
    modes = Modes(rng)
    for index in range(count):
        made, names = model(rng, modes)
        file = directory / f"net_{index}.h5"
        made.save(file)
        description = {
            "name": f"net_{index}",
            "input": {"name": "x", "precision": modes.precision(3, 16, (1, 8))},
            "output": {"name": "y"},
            "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<24,12>"}}, "LayerName": names},
        }
        file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
        convert(file, directory / f"net_{index}", core="da")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
