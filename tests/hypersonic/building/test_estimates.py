# SPDX-License-Identifier: Apache-2.0
"""Estimates beside a build: they never end it, and run while the simulator is made. Conversion and simulators are replaced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hypersonic.building import estimating as estimating_module
from hypersonic.building import preparing
from hypersonic.building.converted import Converted
from hypersonic.building.estimating import estimating, publish_estimated
from hypersonic.building.fit.card import NO_FIT
from hypersonic.building.model import build
from hypersonic.building.preparing import prepared
from hypersonic.building.request import CARD_DEFAULTS, check_request
from hypersonic.building.together import build_together
from hypersonic.firmware.errors import ResourceError
from hypersonic.firmware.estimate import report as estimates
from hypersonic.firmware.estimate.kernel import ResourceReport
from hypersonic.firmware.estimate.module_tree import Module
from hypersonic.firmware.estimate.report import BuildReport, Estimates, make_estimates
from hypersonic.firmware.estimate.yosys import SynthesisError
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.hls.errors import MissingToolError, ToolError
from hypersonic.hls.project import HlsProject
from hypersonic.hls.resources import Amounts
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from tests.hypersonic.building.own_models import OwnModels
from tests.support.processes import alive
from tests.support.waiting import wait_until

#: what ends an estimate -> the reason that the user reads
ERRORS: dict[Exception, str] = {
    SynthesisError("Yosys used the cell X, whose size is not known"): "Yosys used the cell X, whose size is not known",
    ToolError("Yosys was ended by SIGKILL;\nmemory"): "Yosys was ended by SIGKILL; memory",
    MissingToolError("Yosys is not installed"): "Yosys is not installed",
    subprocess.TimeoutExpired("yosys", 5): "TimeoutExpired: Command 'yosys' timed out after 5 seconds",
    MemoryError(): "MemoryError: ",
    KeyError("batch.s0"): "KeyError: 'batch.s0'",
}


def _raise(error: Exception) -> Callable[..., Any]:
    def estimate(*_: object) -> None:
        raise error

    return estimate


def _report(kernel: Any, *_: object) -> ResourceReport:
    return ResourceReport(kernel.name, "0.70", Module(kernel.name, 1, Amounts(lut=100)), (), 1.0)


@contextmanager
def _in_this_process(kernels: Sequence[tuple[Kernel, int]], platform: Platform) -> Iterator[Callable[[], Estimates]]:
    yield lambda: make_estimates(kernels, platform)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are made in this process, where they can be replaced."""
    monkeypatch.setattr(estimating_module, "estimating", _in_this_process)


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def reason(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, here: None) -> str:
    """Each way in which an estimate ends, as its reason."""
    monkeypatch.setattr(estimates, "estimate", _raise(request.param))
    monkeypatch.setattr(estimates, "estimate_shell", _raise(request.param))
    return ERRORS[request.param]


def _resources(version: Path) -> dict[str, Any]:
    entry: dict[str, Any] = Manifest.read(version / "manifest.json").report["resources"]
    return entry


def test_an_estimate_that_cannot_be_made_is_a_line_with_the_reason_and_does_not_end_the_build(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    lines: list[str] = []
    model = own.model("alpha")
    version = build(model, repository=tmp_path, on_resources=lines.extend)
    line = f"alpha: no estimate of LUT, FF, DSP48E2, RAMB36, URAM288 and of the deepest logic, because {reason}"
    assert lines == [line, "alpha_1: SLR0, m_axi_gmem0 on DDR[0], m_axi_gmem1 on DDR[0]"]
    assert _resources(version) == {"not_estimated": reason, "platform": "u250", "known": Amounts().to_json()}
    assert build(model, repository=tmp_path, on_resources=lines.extend) == version

    monkeypatch.setattr(estimates, "estimate", _report)
    assert build(model, repository=tmp_path, on_resources=lines.extend) == version, "an estimate makes no new version"
    assert _resources(version)["modules"]["alpha"]["lut"] == 100
    monkeypatch.setattr(estimates, "estimate", _raise(ToolError("killed")))
    assert build(model, repository=tmp_path, on_resources=lines.extend) == version
    assert _resources(version)["modules"]["alpha"]["lut"] == 100, "an estimate is kept"
    assert build(model, repository=tmp_path) == version


@pytest.mark.usefixtures("here")
def test_models_in_one_xclbin_are_placed_without_the_estimate_of_one(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimate(kernel: Any, *_: object) -> ResourceReport:
        if kernel.name == "beta":
            raise SynthesisError("what Yosys said")
        return _report(kernel)

    monkeypatch.setattr(estimates, "estimate", estimate)
    lines: list[str] = []
    places = build_together([own.model("alpha"), own.model("beta")], "both", repository=tmp_path, on_resources=lines.extend)
    alpha, beta = map(_resources, places)
    assert alpha["modules"]["alpha"]["lut"] == 100
    assert beta["not_estimated"] == "what Yosys said"
    (line,) = (line for line in lines if line.startswith("beta: no estimate"))
    assert line.endswith("because what Yosys said")


def test_an_f2_card_is_built_without_the_estimate_of_its_shell(reason: str) -> None:
    shell = estimates.try_shell("f2_shell", 2)
    assert isinstance(shell, estimates.Missing)
    assert shell.line.startswith("f2_shell: no estimate")
    assert shell.reason == reason


def test_an_emulated_card_is_published_before_its_estimate_is_there(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, steps = list[dict[str, Any]](), list[str]()

    @contextmanager
    def late(*_: object) -> Iterator[Callable[[], Estimates]]:
        def wait() -> Estimates:
            seen.append(Manifest.read(tmp_path / "alpha" / "1" / "manifest.json").report)
            return Estimates({"alpha": _report(kernel)})

        yield wait

    kernel = SimpleNamespace(name="alpha")
    monkeypatch.setattr(estimating_module, "estimating", late)
    version = build(own.model("alpha"), repository=tmp_path, on_resources=lambda _: None, progress=steps.append)
    assert seen == [{}]
    assert steps[-1] == f"published {version}: a server can load it; the estimate of its resources follows"
    assert _resources(version)["modules"]["alpha"]["lut"] == 100


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.usefixtures("here")
def test_a_design_that_does_not_fit_by_its_estimate_is_published_for_emulation_with_a_warning(
    together: bool, own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def estimate(kernel: Any, *_: object) -> ResourceReport:
        return ResourceReport(kernel.name, "0.70", Module(kernel.name, 1, Amounts(lut=10_000_000)), (), 1.0)

    monkeypatch.setattr(estimates, "estimate", estimate)
    lines: list[str] = []
    if together:
        models = [own.model("alpha"), own.model("beta")]
        version = build_together(models, "both", repository=tmp_path, on_resources=lines.extend)[0]
    else:
        version = build(own.model("alpha"), repository=tmp_path, on_resources=lines.extend)
    warning = capsys.readouterr().err
    assert "fit u250" in warning
    assert warning.endswith("; it is published for emulation, target hw refuses it\n")
    assert "fit u250" in lines[-1]
    assert _resources(version)["modules"]["alpha"]["lut"] == 10_000_000


def test_place_and_route_wait_for_the_estimate_which_refuses_what_does_not_fit(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[str]] = []
    described = check_request(
        own.model("alpha"), None, Target.HW_EMU, "u250", "da", 1, tmp_path, CARD_DEFAULTS, NO_FIT, lambda _: None
    )
    request = replace(described, target=Target.HW)
    core = write_bench_core(*bench_rows(3, 2), tmp_path / "core", name="alpha")
    project = HlsProject(tmp_path, "alpha", core.inputs, core.outputs, "", {}, {})
    model = Converted(request, project, core, write_kernel(core, tmp_path / "kernel"), "alpha")
    refused = BuildReport(["a table"], {}, "compute unit alpha_1 does not fit u250")

    @contextmanager
    def none(*_: object) -> Iterator[Callable[[], Estimates]]:
        yield lambda: Estimates({})

    monkeypatch.setattr(estimating_module, "estimating", none)
    with pytest.raises(ResourceError, match=r"compute unit alpha_1 does not fit u250$"):
        publish_estimated(tmp_path, [model], pytest.fail, lambda _: refused, told.append, lambda _: None)
    assert told == [["a table"]]


@pytest.mark.whole
def test_the_estimate_of_a_process_of_its_own_is_the_one_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    core = write_bench_core(*bench_rows(2, 1), tmp_path / "core")
    kernels = [(write_kernel(core, tmp_path / "kernel"), 1)]
    (broken := tmp_path / "broken.sv").write_text("module nothing_of_this_kernel; endmodule\n")
    kernels = [(replace(kernel, sources=(broken,)), units) for kernel, units in kernels]
    with estimating(kernels, find_platform("u250")) as estimated:
        made = estimated()
    assert made == make_estimates(kernels, find_platform("u250"))
    assert isinstance(made.kernels[core.name], estimates.Missing)


def test_a_process_that_dies_is_an_estimate_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = [sys.executable, "-c", "import sys; sys.stderr.write('no room\\n'); sys.exit(3)"]
    monkeypatch.setattr(estimating_module, "python_argv", lambda *_: dying)
    core = write_bench_core(*bench_rows(2, 1), tmp_path / "core")
    kernels = [(write_kernel(core, tmp_path / "kernel"), 1)]
    with estimating(kernels, find_platform("u250")) as estimated:
        missing = estimated().kernels[core.name]
    assert missing == estimates.Missing(core.name, "its process ended with 3 (no room)")


def test_a_build_that_fails_ends_the_estimate_and_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    tool = f"import os, subprocess as s; c = s.Popen(['sleep', '600']); open({str(pids)!r}, 'w').write(str(c.pid)); c.wait()"
    monkeypatch.setattr(estimating_module, "python_argv", lambda *_: [sys.executable, "-c", tool])

    def fail() -> None:
        with estimating([], find_platform("u250")):
            wait_until(lambda: pids.is_file() and pids.read_text() != "")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    wait_until(lambda: not alive(int(pids.read_text())))  # killed; whoever is its parent now has to notice


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes of preparations, in place of which one runs that waits."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def waiting(_argv: object, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(["sleep", "600"], **options))
        return started[-1]

    monkeypatch.setattr(preparing, "is_prepared", lambda _: False)
    monkeypatch.setattr(subprocess, "Popen", waiting)
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_a_build_that_fails_stops_what_is_being_prepared(child: list[subprocess.Popen[bytes]]) -> None:
    def fail() -> None:
        with prepared(Target.HW_EMU):
            assert child[0].poll() is None
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        fail()
    assert child[0].returncode != 0


def test_nothing_is_prepared_for_a_card_or_when_the_cache_has_everything(
    child: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with prepared(Target.HW):
        assert not child
    monkeypatch.setattr(preparing, "is_prepared", lambda _: True)
    with prepared(Target.HW_EMU):
        assert not child
