# SPDX-License-Identifier: Apache-2.0
"""Models of HGQ2 with backend="Hypersonic": python tests/hls/plugin/hgq_session.py DIRECTORY. It needs HGQ2 on PYTHONPATH."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from hgq.config import QuantizerConfigScope
from hgq.layers import QConv2D, QDense, QEinsumDense, QSoftmax

from tests.hls.frontend.keras.hgq_session import drawn
from tests.support.own_warnings import texts_of_own


def sets() -> Any:
    """A picture's pixels as a set of particles, with the same layer for each: probabilities, and the numbers before."""
    given = keras.Input((4, 4, 1))
    x = keras.layers.Reshape((4, 2))(QConv2D(2, 3, activation="relu")(given))
    x = QEinsumDense("bij,jk->bik", (4, 2), bias_axes="k", activation="relu")(x)
    x = QDense(3)(keras.layers.Flatten()(x))
    return keras.Model(given, [QSoftmax()(x), x])


def main(directory: Path) -> None:
    keras.utils.set_random_seed(4)
    scopes = (
        QuantizerConfigScope(place="all", default_q_type="kbi", overflow_mode="SAT_SYM"),
        QuantizerConfigScope(place="datalane", default_q_type="kif", overflow_mode="WRAP"),
    )
    with scopes[0], scopes[1]:
        model = sets()
    rows = np.random.default_rng(1).normal(size=(100, 4, 4, 1)).astype(np.float32)
    session = compared(directory, drawn(model, rows, 1), rows)
    (directory / "session.json").write_text(json.dumps(session))


def compared(directory: Path, model: Any, rows: Any) -> dict[str, Any]:
    """The answers of the RTL and of hls4ml's C++ against the trained model's, and what a stream is told."""
    import hls4ml

    trained, equal, types = [np.asarray(answer) for answer in model(rows)], {}, {}
    for backend in ("Vitis", "Hypersonic"):
        config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend=backend)
        for settings in config["LayerName"].values() if backend == "Hypersonic" else ():
            del settings["Precision"]
        where = directory / backend
        options = {"hls_config": config, "backend": backend, "output_dir": str(where)}
        converted = hls4ml.converters.convert_from_keras_model(model, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            converted.write()
            fast(where)
            converted._compile()
        equal[backend] = all(map(np.array_equal, converted.predict(rows), trained))
        types[backend] = [str(layer.get_output_variable().type.precision) for layer in converted.get_layers()]
    try:
        hls4ml.converters.convert_from_keras_model(model, io_type="io_stream", **options)
        stream = "converted"
    except ValueError as error:
        stream = f"{type(error).__name__}: {error}"
    return {
        "equal": equal,
        "types alike": types["Vitis"] == types["Hypersonic"],
        "distinct": [len(np.unique(answer)) for answer in trained],
        "warnings": texts_of_own(caught),
        "stream": stream,
    }


def fast(project: Path) -> None:
    """Let g++ compile the project as one file and without optimisation."""
    bridge, script = project / "myproject_bridge.cpp", project / "build_lib.sh"
    bridge.write_text(f'#include "firmware/myproject.cpp"\n{bridge.read_text()}')
    lines = [line for line in script.read_text().splitlines() if "firmware/${PROJECT}.cpp -o" not in line]
    text = "\n".join(lines).replace("${PROJECT}.o ${PROJECT}_bridge.o", "${PROJECT}_bridge.o")
    script.write_text(text.replace("-O3", "-O0 -w") + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
