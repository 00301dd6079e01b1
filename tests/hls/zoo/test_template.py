# SPDX-License-Identifier: Apache-2.0
"""The template of a model folder: a copy under another name trains, converts and is judged, as hls/zoo/README.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hypersonic.hls.frontend.description import ZOO, read_description

pytestmark = pytest.mark.whole

TEMPLATE = ZOO / "template" / "my_model"
ROOT = ZOO.parents[1]

TRAINED_AND_JUDGED = """
from pathlib import Path
from hypersonic.hls.zoo import keras_2, training
import qkeras
from pulse_height import network, task, train

name, folder = "pulse_height", Path(train.__file__).parent
assert network.network().count_params() == network.PARAMETERS
assert training.main(train.RECIPE, train.__doc__, ["--output", str(folder)]) == 0
custom = {}
qkeras.utils._add_supported_quantized_objects(custom)
model = keras_2.keras()[1].models.load_model(folder / f"{name}.h5", custom_objects=custom, compile=False)
sample = task.TASK.sample(1000, 1)
figure = task.TASK.measured((network.predict(model, sample.inputs[0]),), sample.truth)
assert 0.0 < figure < 0.05, figure
"""


def copied(place: Path, name: str) -> Path:
    """The template as a package `name` in `place`: what README.md does inside the zoo."""
    folder = Path(shutil.copytree(TEMPLATE, place / name, ignore=shutil.ignore_patterns("__pycache__")))
    (folder / "my_model.yaml").rename(folder / f"{name}.yaml")
    for file in folder.iterdir():
        text = file.read_text().replace("hypersonic.hls.zoo.template.my_model", name)
        file.write_text(text.replace("my_model", name))
    return folder


def run(*argv: str, place: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(place))), "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", *argv], env=environment, cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_copy_of_the_template_trains_is_judged_and_builds_for_sw_emu(tmp_path: Path) -> None:
    folder = copied(tmp_path, "pulse_height")
    assert not [file for file in folder.iterdir() if "my_model" in file.name + file.read_text()]
    described = read_description(folder / "pulse_height.h5")
    assert described.name == "pulse_height"
    assert described.gate is not None
    assert described.gate.rows == "pulse_height.events:gate_rows"
    said = run("-c", TRAINED_AND_JUDGED, place=tmp_path)
    assert re.search(r"^68 % width of height / true height: 0\.0\d+$", said, re.MULTILINE)
    where = ("--model-repository", str(tmp_path / "models"), "--build-directory", str(tmp_path / "build"))
    model = str(folder / "pulse_height.h5")
    run("-m", "hypersonic.cli", "build", model, "--target", "sw_emu", *where, place=tmp_path)
    assert (tmp_path / "models" / "pulse_height" / "1" / "manifest.json").is_file()


def test_no_command_lists_the_template_as_a_model() -> None:
    for pattern in ("*/*.yaml", "*/task.py", "*/train.py"):
        assert "template" not in {file.parent.name for file in ZOO.glob(pattern)}
