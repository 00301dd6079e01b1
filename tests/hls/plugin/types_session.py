# SPDX-License-Identifier: Apache-2.0
"""Networks whose sums hls4ml gives narrow types, with and without `types: exact`: python types_session.py DIRECTORY"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.own_warnings import texts_of_own

VARIANTS = ("Vitis", "Hypersonic", "exact")


def networks(keras: Any) -> dict[str, Any]:
    layers = keras.layers
    return {
        "pooled": keras.Sequential([keras.Input((8, 4)), layers.GlobalAveragePooling1D(name="mean"), layers.Dense(2)]),
        "recurrent": keras.Sequential([keras.Input((4, 3)), layers.LSTM(3, name="state"), layers.Dense(2)]),
        "normal": keras.Sequential(
            [keras.Input((2, 8)), layers.LayerNormalization(name="normal"), layers.Flatten(), layers.Dense(2)]
        ),
    }


def answers(model: Any, x: Any, where: Path, variant: str) -> tuple[Any, list[str]]:
    """The answers of one variant, and its warnings."""
    import hls4ml

    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Vitis")
    if variant == "exact":
        config["Model"]["types"] = "exact"
        if "normal" in config["LayerName"]:
            config["LayerName"]["normal"]["TableRangePower2"] = -6
    backend = "Vitis" if variant == "Vitis" else "Hypersonic"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        converted = hls4ml.converters.convert_from_keras_model(
            model, hls_config=config, output_dir=str(where / variant), backend=backend
        )
        converted.compile()
    return converted.predict(x).reshape(len(x), -1), texts_of_own(caught)


def misspelt(model: Any, where: Path) -> str:
    """Return the error for a misspelt word."""
    import hls4ml

    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Vitis")
    config["Model"]["types"] = "exakt"
    converted = hls4ml.converters.convert_from_keras_model(
        model, hls_config=config, output_dir=str(where), backend="Hypersonic"
    )
    try:
        converted.write()
    except ValueError as error:
        return str(error)
    return "written"


def main(directory: Path) -> None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tf_keras as keras

    keras.utils.set_random_seed(3)
    rng, found = np.random.default_rng(0), dict[str, Any]()
    for name, model in networks(keras).items():
        x = (4 * rng.normal(size=(50, *model.input_shape[1:]))).astype(np.float32)
        got = {variant: answers(model, x, directory / name, variant) for variant in VARIANTS}
        trained = model.predict(x, verbose=0)
        found[name] = {
            "equal": bool(np.array_equal(got["Vitis"][0], got["Hypersonic"][0])),
            "apart": {variant: float(np.abs(y - trained).max()) for variant, (y, _) in got.items()},
            "said": {variant: said for variant, (_, said) in got.items()},
        }
    found["misspelt"] = misspelt(networks(keras)["pooled"], directory / "misspelt")
    (directory / "types.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
