# SPDX-License-Identifier: Apache-2.0
"""What an hls4ml user types, without the rest of the stack: python tests/hls/plugin_session.py DIRECTORY"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np


def main(directory: Path) -> None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tf_keras as keras

    sys.modules["keras"] = keras
    import hls4ml

    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((5,), name="x"),
            layers.Dense(7, "relu", name="a"),
            layers.BatchNormalization(name="b"),
            layers.Dense(3, name="c"),
        ]
    )
    x = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    answers, reports = {}, {}
    for backend, strategy in (("Vitis", "Latency"), ("Hypersonic", "Latency"), ("Hypersonic", "distributed_arithmetic")):
        config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend=backend)
        config["Model"]["Strategy"] = strategy
        where = str(directory / f"{backend}_{strategy}")
        made = hls4ml.converters.convert_from_keras_model(model, hls_config=config, output_dir=where, backend=backend)
        made.compile()
        answers[f"{backend} {strategy}"] = [made.predict(x), made.predict(x[:1])]
        if backend == "Hypersonic":
            reports[strategy] = made.build()
    wanted = answers.pop("Vitis Latency")
    equal = {
        name: all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(got, wanted, strict=True))
        for name, got in answers.items()
    }
    session = {"equal": equal, "reports": reports, "distinct": len(np.unique(wanted[0]))}
    (directory / "session.json").write_text(json.dumps(session))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
