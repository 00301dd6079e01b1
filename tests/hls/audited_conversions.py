# SPDX-License-Identifier: Apache-2.0
"""Converts a small Keras model to each kind of core, and writes which files below hls/ Python opened, imported or handed to a
tool:

    python audited_conversions.py DIRECTORY        writes <kind>.json, a list of files, for each kind
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

HLS = Path(__file__).resolve().parents[2] / "hls"

touched: set[str] = set()


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the file that is opened, or those among the arguments of a program that is started."""
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        touched.add(os.fsdecode(arguments[0]))
    elif event == "subprocess.Popen":
        touched.update(os.fsdecode(argument) for argument in arguments[1] if isinstance(argument, str | bytes | os.PathLike))


sys.addaudithook(audit)

from hypersonic.hls.convert import convert  # noqa: E402 - the hook sees what is imported
from hypersonic.hls.frontend.keras.model import use_keras_2  # noqa: E402

use_keras_2()

import tf_keras as keras  # noqa: E402 - Keras 2

DESCRIPTION = """
name: audited
input: {precision: "ap_fixed<16,6>"}
output: {}
hls4ml: {Model: {Precision: {default: "ap_fixed<18,8>"}, Strategy: Resource, ReuseFactor: 4}}
gate: {rows: "hypersonic.hls.zoo.jets.events:gate_rows", tolerance: 1000000}
"""


def main(directory: Path) -> None:
    """Convert in this process, so that TensorFlow is imported once; each kind imports its own modules anew."""
    model = directory / "audited.h5"
    keras.utils.set_random_seed(4)
    keras.Sequential([keras.Input((16,), name="x"), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)]).save(model)
    model.with_suffix(".yaml").write_text(DESCRIPTION)
    shared: set[str] = set()
    for kind in ("csim", "da", "rf"):
        for name in [name for name in sys.modules if _is_ours(name) and kind != "csim" and name not in shared]:
            del sys.modules[name]
        convert(model, directory / kind, core=kind)
        ours = {name for name in sys.modules if _is_ours(name)}
        shared = shared or ours
        files = {*touched, *(str(sys.modules[name].__file__) for name in ours)}
        (directory / f"{kind}.json").write_text(json.dumps(sorted({str(file) for each in files for file in _source(each)})))
        touched.clear()


def _is_ours(name: str) -> bool:
    return name.startswith("hypersonic.hls.")


def _source(name: str) -> list[Path]:
    """The file below hls/ that is meant, the module of a .pyc, or nothing."""
    file = Path(name).resolve()
    if not file.is_relative_to(HLS) or not file.is_file():
        return []
    return [Path(importlib.util.source_from_cache(str(file))) if file.suffix == ".pyc" else file]


main(Path(sys.argv[1]))
