# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build`, FACILE from its weights to a published xclbin, and what the emulated card answers with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

import hypersonic.building.model
import hypersonic.sim.card.xrt
from hypersonic.building import csim
from hypersonic.building.csim import build_csim
from hypersonic.building.errors import BuildError
from hypersonic.building.fit.card import FitOptions
from hypersonic.building.model import build
from hypersonic.firmware.errors import LinkError, PlatformError, PublishError
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.publish.manifest import FILE_NAME, Manifest, check
from hypersonic.firmware.publish.repository import find_published
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.errors import MissingVendorError
from hypersonic.hls.csim.compiled import Csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.project import HlsProject
from hypersonic.hls.zoo.facile.events import gate_rows
from hypersonic.sim.card.simulator import build_simulator
from tests.support.rtl.bench_weights import write_bench_weights

if TYPE_CHECKING:
    from tests.sim.conftest import Xrt

ROWS = 16_000
EMULATED = (Target.HW_EMU, Target.SW_EMU)


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[Target, Path]:
    """A model repository per target with FACILE in it."""
    places = {target: tmp_path_factory.mktemp(str(target)) for target in EMULATED}
    for target, place in places.items():
        assert build("facile", target, repository=place) == place / "facile" / "1"
    return places


def test_a_build_for_emulation_leaves_the_emulated_card_in_the_cache_for_the_first_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repositories: dict[Target, Path]
) -> None:
    del repositories  # built before
    targets: list[Target] = []

    def made_first(target: Target, progress: Callable[[str], None]) -> str:
        progress("compiling the emulated card")
        targets.append(target)
        assert not list(tmp_path.iterdir())  # nothing is published yet
        return ""

    monkeypatch.setattr(hypersonic.sim.card.xrt, "library_path", made_first)
    lines: list[str] = []
    build("facile", Target.SW_EMU, repository=tmp_path, progress=lines.append)
    assert targets == [Target.SW_EMU]
    assert "compiling the emulated card" in lines


@pytest.fixture(scope="session")
def rows() -> NDArray[np.float32]:
    """An event's worth of channels, and in one of a hundred numbers a float no detector gives."""
    x = np.resize(gate_rows(), (ROWS, 18)).astype(np.float32)
    draw = np.random.default_rng(7)
    odd = draw.random(x.shape) < 0.01
    kinds = np.array([np.nan, np.inf, -np.inf, 1e-45, -1e-39, 3.4e38, -3.4e38, -0.0], dtype=np.float32)
    x[odd] = draw.choice(kinds, odd.sum())
    return x


@pytest.fixture(scope="session")
def golden(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """hls4ml's C++ on those rows, by the golden conversions: (rows, 1) float32."""
    project, library = build_csim("facile")
    return project.outputs.from_raw(Csim(library, project).predict_raw(project.inputs.to_raw((rows,))))[0]


@pytest.mark.parametrize("target", EMULATED)
def test_a_whole_event_comes_back_with_the_bits_of_csim(
    xrt: Xrt, repositories: dict[Target, Path], rows: NDArray[np.float32], golden: NDArray[np.float32], target: Target
) -> None:
    device = xrt.device(repositories[target] / "facile" / "1" / "model.xclbin")
    kernel = xrt.kernel(device, "facile:{facile_1}", exclusive=True)
    for count in (0, 1, 15, 16, 17, 1000, ROWS):
        x, y = xrt.buffer(device, max(72 * count, 1)), xrt.buffer(device, 4 * count + 64)
        y.array[:] = 0xA5
        x.fill(rows[:count])
        y.to_device()
        run = xrt.run(kernel, x, y, count)
        xrt.start(run)
        assert xrt.finish(run, 60_000).name == "COMPLETED"
        np.testing.assert_array_equal(y.floats(count).view(np.uint32), golden[:count, 0].view(np.uint32))
        assert (y.array[4 * count :] == 0xA5).all()
    assert xrt.register(kernel, registers.AXI_ERROR) == 0


def test_an_event_costs_at_most_its_reads_and_a_little(
    xrt: Xrt, repositories: dict[Target, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_MEMORY", "ideal")
    device = xrt.device(repositories[Target.HW_EMU] / "facile" / "1" / "model.xclbin")
    kernel = xrt.kernel(device, "facile:{facile_1}", exclusive=True)
    x, outputs = xrt.buffer(device, 72 * ROWS), [xrt.buffer(device, 4 * ROWS) for _ in range(2)]
    runs = [xrt.run(kernel, x, y, ROWS) for y in outputs]
    for run in runs:
        xrt.start(run)
    for run in runs:
        assert xrt.finish(run, 60_000).name == "COMPLETED"
    reads = ROWS * 72 / 64
    assert reads <= xrt.register(kernel, registers.RUN_CYCLES)
    assert xrt.register(kernel, registers.BUSY_CYCLES) <= 2 * reads * 1.02


def test_a_published_version_is_whole(repositories: dict[Target, Path]) -> None:
    for target, place in repositories.items():
        version = place / "facile" / "1"
        manifest = Manifest.read(version / FILE_NAME)
        xclbin = check(manifest, (version / "model.xclbin").read_bytes())
        assert (manifest.model, manifest.target, xclbin.target) == ("facile", target, target)
        assert manifest.core == ("da" if target is Target.HW_EMU else "csim")
        assert 'backend: "fpga"' in (place / "facile" / "config.pbtxt").read_text()
        assert [tensor.shape for tensor in (*manifest.inputs.tensors, *manifest.outputs.tensors)] == [(18,), (1,)]


def test_a_build_that_is_there_is_found_silently_and_without_tensorflow(repositories: dict[Target, Path]) -> None:
    code = (
        "import sys; from pathlib import Path; from hypersonic.building.model import build; said = []\n"
        "print(build('facile', sys.argv[1], repository=Path(sys.argv[2]), progress=said.append))\n"
        "print(said, 'tensorflow' in sys.modules, 'hls4ml' in sys.modules)\n"
    )
    for target, place in repositories.items():
        argv = [sys.executable, "-c", code, target, str(place)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stdout == f"{place / 'facile' / '1'}\n[] False False\n"


def test_another_build_of_a_model_is_its_next_version(tmp_path: Path) -> None:
    first = build("facile", Target.SW_EMU, repository=tmp_path)
    steps: list[str] = []
    second = build("facile", Target.SW_EMU, repository=tmp_path, compute_units=2, progress=steps.append)
    assert [first.name, second.name] == ["1", "2"]
    assert steps == [f"publishing facile in {tmp_path}"]
    assert Manifest.read(second / FILE_NAME).compute_units == ("facile_1", "facile_2")
    assert build("facile", Target.SW_EMU, repository=tmp_path, compute_units=2) == second
    assert build("facile", Target.SW_EMU, repository=tmp_path).name == "3"


def test_the_builds_for_two_targets_lie_side_by_side_under_names_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = build("facile", Target.HW_EMU, repository=tmp_path)
    golden = build("facile", Target.SW_EMU, repository=tmp_path, name="facile_sw_emu")
    assert (kernel, golden) == (tmp_path / "facile" / "1", tmp_path / "facile_sw_emu" / "1")
    manifests = [Manifest.read(version / FILE_NAME) for version in (kernel, golden)]
    assert [(one.model, one.target, one.kernel) for one in manifests] == [
        ("facile", Target.HW_EMU, "facile"), ("facile_sw_emu", Target.SW_EMU, "facile"),
    ]  # fmt: skip
    assert 'name: "facile_sw_emu"\n' in (golden.parent / "config.pbtxt").read_text()
    assert build("facile", Target.SW_EMU, repository=tmp_path, name="facile_sw_emu") == golden
    assert build("facile", Target.HW_EMU, repository=tmp_path) == kernel
    assert capsys.readouterr().err == ""


def test_a_build_that_takes_the_place_of_one_for_another_target_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build("facile", Target.SW_EMU, repository=tmp_path)
    assert capsys.readouterr().err == ""
    assert build("facile", Target.HW_EMU, repository=tmp_path).name == "2"
    note = capsys.readouterr().err
    assert note.startswith(f"hypersonic: note: {tmp_path / 'facile'}: version 1 is a sw_emu build")
    assert "--name facile_sw_emu" in note
    build("facile", Target.HW_EMU, repository=tmp_path, compute_units=2)
    assert capsys.readouterr().err == ""


def test_a_damaged_version_is_not_taken_for_the_build(tmp_path: Path) -> None:
    version = build("facile", Target.SW_EMU, repository=tmp_path)
    manifest = Manifest.read(version / FILE_NAME)
    assert find_published(tmp_path, manifest) == version
    (version / "model.xclbin").write_bytes(b"xclbin2")
    assert find_published(tmp_path, manifest) is None


def no_work(step: str) -> None:
    """A build step that must not run, because an error in the arguments is reported first."""
    raise AssertionError(step)


def test_a_build_replaces_its_own_directory_whole_and_no_other(tmp_path: Path) -> None:
    place = tmp_path / "build" / "facile"
    with ThreadPoolExecutor(3) as pool:
        directories = [
            pool.submit(build, "facile", Target.SW_EMU, repository=tmp_path / "m", directory=place.parent) for _ in range(6)
        ]
        for one in directories:
            one.result()
    assert HlsProject.load(place).name == "facile"
    assert [path.name for path in place.parent.iterdir()] == ["facile"]
    (place / "project.json").unlink()
    with pytest.raises(BuildError, match="facile exists and does not hold an HLS project; give another --build-directory"):
        build("facile", Target.SW_EMU, repository=tmp_path / "m", directory=place.parent)


def test_what_cannot_be_built_here_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        MissingVendorError, match=r"target hw for u250: v\+\+ .*; sw_emu and hw_emu are built without the vendor's tools"
    ):
        build("facile", Target.HW, repository=tmp_path)
    with pytest.raises(BuildError, match="core csim has no RTL: got target hw_emu"):
        build("facile", Target.HW_EMU, core="csim", repository=tmp_path)
    with pytest.raises(BuildError, match="core is 'dsp', expected da, rf, hls or csim"):
        build("facile", Target.SW_EMU, core="dsp", repository=tmp_path)
    with pytest.raises(BuildError, match="core hls is made by Vitis HLS for cards: got target sw_emu, expected hw"):
        build("facile", Target.SW_EMU, core="hls", repository=tmp_path)
    for target, core, wanted in ((Target.SW_EMU, "rf", "target hw_emu"), (Target.HW_EMU, "da", "core rf")):
        with pytest.raises(BuildError, match=f"--fit shares the multipliers of RTL: got target {target}, .*; take {wanted}"):
            build("facile", target, core=core, fit=FitOptions("u250"), repository=tmp_path, progress=no_work)
    for number in (0, -1, 129):
        with pytest.raises(LinkError, match=f"compute units: got {number}, expected 1 to 128"):
            build("facile", compute_units=number, repository=tmp_path, progress=no_work)
    for name in ("a/b", "..", ".hidden", "x" * 129):
        with pytest.raises(PublishError, match=r"model name is '.*', expected at most 128 letters, digits"):
            build("facile", name=name, repository=tmp_path, progress=no_work)
    (tmp_path / "file").touch()
    with pytest.raises(PublishError, match="file is not a directory"):
        build("facile", repository=tmp_path / "file", progress=no_work)
    (tmp_path / "file").unlink()
    with pytest.raises(BuildError, match="target is 'hw_emulation', expected one of sw_emu, hw_emu, hw"):
        build("facile", "hw_emulation", repository=tmp_path)
    with pytest.raises(PlatformError, match="u251"):
        build("facile", platform="u251", repository=tmp_path)
    with pytest.raises(ConversionError, match="model is 'facilee', expected a zoo name"):
        build("facilee", repository=tmp_path)
    assert not list(tmp_path.iterdir())


def test_building_again_tells_nothing_and_gives_the_same_simulator() -> None:
    project, _ = build_csim("facile")
    assert isinstance(project, HlsProject)
    lines: list[str] = []
    first = build_simulator(Target.SW_EMU, project)
    assert build_simulator(Target.SW_EMU, project, None, lines.append) == first
    assert not lines


def test_the_weights_of_a_core_are_published_with_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    core = write_bench_weights(tmp_path / "core")
    conversion = HlsProject(tmp_path, core.name, core.inputs, core.outputs, "", {}), core
    monkeypatch.setattr("hypersonic.building.conversion.convert_model", lambda *_, **__: conversion)
    version = build("facile", core="rf", repository=tmp_path / "models")
    manifest = Manifest.read(version / FILE_NAME)
    assert core.weights is not None
    assert (version / "weights.bin").read_bytes() == core.weights.read_bytes()
    assert manifest.weights_bytes == 64 * core.weight_beats
    check(manifest, (version / "model.xclbin").read_bytes())
    assert build("facile", core="rf", repository=tmp_path / "models") == version
    f2 = build("facile", platform="aws_f2", core="rf", repository=tmp_path / "f2")
    assert (f2 / "weights.bin").read_bytes() == core.weights.read_bytes()
    core.weights.write_bytes(bytes(64 * core.weight_beats))
    retrained = build("facile", core="rf", repository=tmp_path / "models")
    assert retrained.name == "2"
    assert (retrained / "model.xclbin").read_bytes() == (version / "model.xclbin").read_bytes()


@pytest.mark.parametrize(("kept", "expected"), [(True, ["csim"]), (False, ["da"])])
def test_csim_is_taken_from_the_conversion_that_is_there(
    kept: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def convert(*_: object, core: str, **__: object) -> None:
        asked.append(core)
        raise InterruptedError

    monkeypatch.setattr(csim, "is_converted", lambda *_: kept)
    monkeypatch.setattr(csim, "convert_model", convert)
    with pytest.raises(InterruptedError):
        build_csim("facile")
    assert asked == expected
