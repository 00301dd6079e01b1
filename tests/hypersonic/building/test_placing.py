# SPDX-License-Identifier: Apache-2.0
"""Which kernels a build gives registers at their AXI ports. The conversion and the simulators are replaced (own_models.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hypersonic.building import linking
from hypersonic.building.converted import Converted
from hypersonic.building.fit.card import NO_FIT
from hypersonic.building.model import build
from hypersonic.building.placing import placed
from hypersonic.building.request import CARD_DEFAULTS, check_request
from hypersonic.building.together import build_together
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.slices import SLICES
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.steps import Progress
from hypersonic.firmware.toolchains.toolchain import Bitstream, KernelUnits
from hypersonic.hls.core import Core, Logic
from hypersonic.hls.project import HlsProject
from hypersonic.hls.resources import Amounts
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from tests.hypersonic.building.own_models import OwnModels


def _model(place: Path, platform: str, units: int, core: Core) -> Converted:
    place.mkdir(exist_ok=True)
    (file := place / "alpha.h5").touch()
    file.with_suffix(".yaml").write_text("name: alpha\ninput: {name: x, precision: 'ap_fixed<16,6>'}\noutput: {name: y}\n")
    request = check_request(str(file), None, Target.HW_EMU, platform, "da", units, place, CARD_DEFAULTS, NO_FIT, lambda _: None)
    project = HlsProject(place, "alpha", core.inputs, core.outputs, "", {}, {})
    return Converted(request, project, core, keep_kernel(core), "alpha")


def test_the_adders_of_a_core_count_before_there_is_an_estimate(tmp_path: Path) -> None:
    core = write_bench_core(*bench_rows(3, 2), tmp_path / "core", name="alpha")
    for luts, wanted in ((30_000, False), (140_000, True)):
        model = _model(tmp_path / "own", "u200", 2, replace(core, logic=Logic(luts, luts)))
        (planned,) = placed([model])
        assert planned.kernel
        assert planned.kernel.port_registers == wanted


class StoppedError(Exception):
    """The toolchain has got its kernels."""


@dataclass(frozen=True)
class Toolchain:
    """Keeps the kernels that it is to link."""

    given: list[KernelUnits] = field(default_factory=list)

    def link(self, _name: str, kernels: Sequence[KernelUnits], _directory: Path, _progress: Progress) -> Bitstream:
        self.given.extend(kernels)
        raise StoppedError


@pytest.mark.parametrize(("lut", "wanted"), [(150_000, False), (205_000, True)])
def test_the_estimate_of_yosys_decides_again_before_place_and_route(tmp_path: Path, lut: int, wanted: bool) -> None:
    core, toolchain = write_bench_core(*bench_rows(3, 2), tmp_path / "core", name="alpha"), Toolchain()
    (model,) = placed([_model(tmp_path / "own", "u250", 1, core)])
    assert model.kernel
    assert not model.kernel.port_registers
    card = replace(model, request=replace(model.request, target=Target.HW, toolchain=toolchain))
    with pytest.raises(StoppedError):
        linking.link([card], tmp_path, "alpha", lambda *_: Amounts(lut=lut))
    (part,) = toolchain.given
    assert part.kernel.port_registers == wanted
    assert part.unit == Amounts(lut=lut) + (SLICES if wanted else Amounts())


@pytest.mark.parametrize(("platform", "wanted"), [("u250", 0), ("u55c", 5)])
def test_the_emulated_kernel_is_the_one_of_the_card(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, wanted: int
) -> None:
    kernels: list[Kernel] = []

    def link(models: list[Converted], *rest: object) -> linking.Linked:
        kernels.extend(model.kernel for model in models if model.kernel)
        return linking.link(models, *rest)  # type: ignore[arg-type] # the arguments of link

    monkeypatch.setattr("hypersonic.building.model.link", link)
    version = build(
        own.model("alpha"), platform=platform, compute_units=2, repository=tmp_path / "models", directory=tmp_path / "build"
    )
    left = (tmp_path / "build" / "alpha" / "kernel" / "alpha.v").read_text()
    assert left == kernels[0].top_file.read_text()
    assert left.count("u_axis_skid_gmem") == wanted
    assert Manifest.read(version / "manifest.json").kernel_sha256 == kernels[0].sha256


def test_models_in_one_xclbin_are_planned_together(own: OwnModels, tmp_path: Path) -> None:
    models = [own.model("alpha"), own.model("beta")]
    build_together(models, "both", platform="u55c", repository=tmp_path / "models", directory=tmp_path / "build")
    tops = [(tmp_path / "build" / name / "kernel" / f"{name}.v").read_text() for name in ("alpha", "beta")]
    assert [top.count("u_axis_skid_gmem") for top in tops] == [0, 5]
