# SPDX-License-Identifier: Apache-2.0
"""Models whose conversion is replaced by that of small cores for benches, and whose simulators are a few bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hypersonic.building import conversion, preparing
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.hls.core import Core
from hypersonic.hls.frontend.description import ModelDescription
from hypersonic.hls.project import HlsProject
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from hypersonic.sim.card import xrt
from tests.support.rtl.bench_weights import write_bench_weights

_YAML = """\
name: {kernel}
input: {{name: x, precision: "ap_fixed<16,6>"}}
output: {{name: y}}
"""


@dataclass
class OwnModels:
    """Model files below a directory.

    simulated: the kernels with a simulator. gate: of each model's report. hardware: of a model's core, in its report.
    wide: models with rows of five elements instead of four.
    """

    place: Path
    simulated: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    hardware: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)

    def model(self, name: str, kernel: str = "", weights: int = 0) -> str:
        """The path of a new model. kernel: its name in the YAML. weights: the seed of weights that it loads at run time."""
        file = self.place / f"{name}.h5"
        file.touch()
        file.with_suffix(".yaml").write_text(_YAML.format(kernel=kernel or name))
        if weights:
            self.weights[name] = weights
        return str(file)

    def convert(self, description: ModelDescription, **_: Any) -> tuple[HlsProject, Core]:
        name, directory = description.file.stem, self.place / description.file.stem
        seed = self.weights.get(name, 0)
        core = (
            write_bench_weights(directory, name=description.name, seed=seed, size=5 if name in self.wide else 4)
            if seed
            else write_bench_core(*bench_rows(3, 2), directory, name=description.name)
        )
        report: dict[str, Any] = {"gate": self.gate} if self.gate else {}
        if name in self.hardware:
            report["core"] = {"hardware": self.hardware[name], "fixed_layers": [], "swap_clocks": 9}
        return HlsProject(directory, description.name, core.inputs, core.outputs, "", {}, report), core

    def simulate(self, _target: object, project: HlsProject, kernel: Kernel | None, _progress: object) -> Path:
        self.simulated.append(project.name)
        text = "".join(source.read_text() for source in kernel.sources) if kernel else project.name
        file = self.place / f"{project.name}.so"
        file.write_bytes(b"\x7fELF" + hashlib.sha256(text.encode()).digest())
        return file


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnModels:
    """Own models, with their conversion and their simulators replaced."""
    (place := tmp_path / "own").mkdir()
    models = OwnModels(place)
    monkeypatch.setattr(conversion, "convert_model", models.convert)
    monkeypatch.setattr(xrt, "build_simulator", models.simulate)
    monkeypatch.setattr(xrt, "library_path", lambda *_: None)
    monkeypatch.setattr(preparing, "is_prepared", lambda _: True)
    return models
