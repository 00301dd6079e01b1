# SPDX-License-Identifier: Apache-2.0
"""Random small Keras models with random precisions, converted in one process, because importing TensorFlow costs seconds:

    python tests/hls/da/random_models.py SEED COUNT DIRECTORY

writes DIRECTORY/net_<i>/ as hypersonic.hls.convert does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.fixed import Overflow, Rounding
from hypersonic.hls.frontend.keras.model import use_keras_2

#: all that hls4ml and the da core know: WRAP_SM is not in hls4ml, SAT_ZERO not in the core
MODES = [f"{q},{o}" for q, o in product(Rounding, (Overflow.WRAP, Overflow.SAT, Overflow.SAT_SYM))]

MERGES = ("Add", "Subtract", "Average", "Maximum", "Minimum", "Concatenate")


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


@dataclass
class Drawing:
    """A functional model as it grows: tensors by name, hls4ml's LayerName for its layers, and who was read."""

    rng: np.random.Generator
    modes: Modes
    tensors: dict[str, Any]
    names: dict[str, Any]
    read: set[str]

    def pick(self) -> str:
        """One of the last tensors, so that models grow deep."""
        name = str(self.rng.choice(list(self.tensors)[-4:]))
        self.read.add(name)
        return name

    def add(self, index: int) -> None:
        kind = str(self.rng.choice(["dense", "dense", "dense", "bn", "relu", "linear", *MERGES]))
        name = f"{kind}_{index}"
        result = {"result": self.modes.precision(4, 18, (1, 9))}
        if kind == "dense":
            self._dense(name, result)
        elif kind == "bn":
            self.tensors[name] = _keras().layers.BatchNormalization(name=name)(self.tensors[self.pick()])
            types = {"scale": self.modes.precision(8, 14, (3, 3), True), "bias": self.modes.precision(8, 16, (4, 4), True)}
            self.names[name] = {"Precision": {**types, **result}}
        elif kind in MERGES:
            self._merge(kind, name, result)
        else:
            self.tensors[name] = _keras().layers.Activation(kind, name=name)(self.tensors[self.pick()])
            self.names[name] = {"Precision": result}

    def _dense(self, name: str, result: dict[str, str]) -> None:
        units, bias = int(self.rng.integers(1, 6)), bool(self.rng.random() < 0.7)
        activation = self.rng.choice(np.array([None, "relu"]))
        drawn = _keras().initializers.RandomUniform(-3.7, 3.7, seed=int(self.rng.integers(1 << 30)))
        layer = _keras().layers.Dense(units, activation, bias, kernel_initializer=drawn, bias_initializer=drawn, name=name)
        self.tensors[name] = layer(self.tensors[self.pick()])
        accum = str(self.rng.choice(["auto", "ap_fixed<60,14>", "ap_fixed<18,13>", "ap_fixed<20,14,AP_RND_CONV>"]))
        types = {"weight": self.modes.precision(4, 12, (3, 3), True), "bias": self.modes.precision(4, 14, (3, 4), True)}
        self.names[name] = {"Precision": {**types, "accum": accum, **result}}
        if activation:
            self.names[f"{name}_relu"] = {"Precision": {"result": self.modes.precision(4, 16, (1, 9))}}

    def _merge(self, kind: str, name: str, result: dict[str, str]) -> None:
        """With a tensor of the same size, or with itself."""
        left = self.pick()
        size = self.tensors[left].shape[1]
        same = [other for other, tensor in self.tensors.items() if kind == "Concatenate" or tensor.shape[1] == size]
        right = str(self.rng.choice(same[-3:]))
        self.read.add(right)
        self.tensors[name] = getattr(_keras().layers, kind)(name=name)([self.tensors[left], self.tensors[right]])
        if self.rng.random() < 0.6:  # else of hls4ml's automatic type
            self.names[name] = {"Precision": result}


def _keras() -> Any:
    import tf_keras

    return tf_keras


def model(rng: np.random.Generator, modes: Modes) -> tuple[Any, dict[str, Any]]:
    """Up to three inputs and seven layers, every end an output, maybe one in the middle too; and hls4ml's LayerName for it."""
    keras = _keras()
    inputs = {f"x_{k}": keras.Input((int(rng.integers(1, 6)),), name=f"x_{k}") for k in range(int(rng.integers(1, 4)))}
    drawing = Drawing(rng, modes, dict(inputs), {}, set())
    for index in range(int(rng.integers(1, 8))):
        drawing.add(index)
    outputs = [name for name in drawing.tensors if name not in inputs and (name not in drawing.read or rng.random() < 0.2)]
    rng.shuffle(outputs)
    used = [tensor for name, tensor in inputs.items() if name in drawing.read]
    network = keras.Model(used[::-1], [drawing.tensors[name] for name in outputs])
    for layer in network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            n = layer.get_weights()[0].shape[0]
            layer.set_weights([rng.uniform(-2, 2, n), rng.uniform(-2, 2, n), rng.uniform(-1, 1, n), rng.uniform(0.9, 2, n)])
    return network, drawing.names


def main(seed: int, count: int, directory: Path) -> None:
    use_keras_2()
    rng = np.random.default_rng(seed)
    modes = Modes(rng)
    for index in range(count):
        written, names = model(rng, modes)
        file = directory / f"net_{index}.h5"
        written.save(file)
        description = {
            "name": f"net_{index}",
            "inputs": {name: {"precision": modes.precision(3, 16, (1, 8))} for name in written.input_names},
            "outputs": {},
            "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<24,12>"}}, "LayerName": names},
        }
        file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
        convert(file, directory / f"net_{index}", core="da")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
