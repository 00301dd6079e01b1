# SPDX-License-Identifier: Apache-2.0
"""Cell states and weights of recurrent layers: python inside_session.py DIRECTORY writes found.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.frontend.keras.inside import STATE, layer_facts, results
from hypersonic.hls.frontend.keras.model import use_keras_2


def last_states(layer: Any, x: Any) -> list[Any]:
    """The last cell states as Keras gives them, one for each direction."""
    import tf_keras as keras

    given = keras.Input(x.shape[1:])
    again = type(layer).from_config({**layer.get_config(), "name": "again"})
    parts = [again.forward_layer, again.backward_layer] if hasattr(again, "forward_layer") else [again]
    for part in parts:
        part.return_state = True
    again.return_state = True
    states = again(given)
    again.set_weights(layer.get_weights())
    return [np.asarray(state) for state in keras.Model(given, states)(x)[2::2]]


def normalised(activation: str) -> dict[str, dict[str, list[float]]]:
    """The weights, flat, of a Dense with kernel 1 and bias 1 and a normalisation that halves behind it, by layer."""
    import tf_keras as keras

    x = keras.Input((1,))
    dense = keras.layers.Dense(1, activation=activation, name="d", kernel_initializer="ones", bias_initializer="ones")
    norm = keras.layers.BatchNormalization(name="n", epsilon=0, moving_variance_initializer=keras.initializers.Constant(4))
    facts = layer_facts(keras.Model(x, norm(dense(x))), {f"d_{activation}": {}})
    return {each.name: {name: values.reshape(-1).tolist() for name, values in each.weights.items()} for each in facts}


def main(directory: Path) -> None:
    use_keras_2()
    import tf_keras as keras

    keras.utils.set_random_seed(5)
    layers = keras.layers
    x = keras.Input((6, 3))
    once, both = layers.LSTM(4, name="once"), layers.Bidirectional(layers.LSTM(2, return_sequences=True), name="both")
    gated = layers.Bidirectional(layers.GRU(2), name="gated")
    behind = both(x)
    model = keras.Model(x, [once(x), gated(behind)])
    for layer in (once, both):
        layer.set_weights([3 * weight for weight in layer.get_weights()])
    rows = np.random.default_rng(0).normal(size=(40, 6, 3)).astype(np.float32)
    found = results(model, {}, [rows])
    ends = {"once": [found[f"once{STATE}"][:, -1]]}
    states = found[f"both{STATE}"]
    ends["both"] = [half[:, -1] for half in (states[:40], states[40:])]
    apart = {
        layer.name: [float(np.abs(a - b).max()) for a, b in zip(ends[layer.name], last_states(layer, rows), strict=True)]
        for layer in (once, both)
    }
    named = {each.name: {name: values.shape for name, values in each.weights.items()} for each in layer_facts(model, {})}
    largest = {name: float(np.abs(found[f"{name}{STATE}"]).max()) for name in ("once", "both")}
    folds = {activation: normalised(activation) for activation in ("linear", "relu")}
    said = {
        "folds": folds,
        "apart": apart,
        "largest": largest,
        "weights": named,
        "states": sorted(name for name in found if STATE in name),
    }
    (directory / "found.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
