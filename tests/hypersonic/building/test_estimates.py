# SPDX-License-Identifier: Apache-2.0
"""Estimates beside a build: they never end it, and run while the simulator is made. Conversion and simulators are replaced."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypersonic.building import preparing
from hypersonic.building.linking import Linked, link_and_report
from hypersonic.building.model import build
from hypersonic.building.preparing import prepared
from hypersonic.building.together import build_together
from hypersonic.firmware.estimate import report as estimates
from hypersonic.firmware.estimate.kernel import ResourceReport
from hypersonic.firmware.estimate.module_tree import Module
from hypersonic.firmware.estimate.report import BuildReport
from hypersonic.firmware.estimate.yosys import SynthesisError
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.hls.errors import MissingToolError, ToolError
from hypersonic.hls.resources import Amounts
from tests.hypersonic.building.own_models import OwnModels

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


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def reason(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way in which an estimate ends, as its reason."""
    monkeypatch.setattr(estimates, "estimate", _raise(request.param))
    monkeypatch.setattr(estimates, "estimate_f2_shell", _raise(request.param))
    return ERRORS[request.param]


def test_an_estimate_that_cannot_be_made_is_a_line_with_the_reason_and_does_not_end_the_build(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    lines: list[str] = []
    model = own.model("alpha")
    version = build(model, repository=tmp_path, on_resources=lines.extend)
    line = f"alpha: no estimate of LUT, FF, DSP48E2, RAMB36, URAM288 and of the deepest logic, because {reason}"
    assert lines == [line, "alpha_1: SLR0, m_axi_gmem0 on DDR[0], m_axi_gmem1 on DDR[0]"]
    entry = Manifest.read(version / "manifest.json").report["resources"]
    assert entry == {"not_estimated": reason, "platform": "u250", "known": Amounts().to_json()}
    assert build(model, repository=tmp_path, on_resources=lines.extend) == version

    monkeypatch.setattr(estimates, "estimate", _report)
    better = build(model, repository=tmp_path, on_resources=lines.extend)
    assert better.name == "2"
    assert Manifest.read(better / "manifest.json").report["resources"]["modules"]["alpha"]["lut"] == 100
    monkeypatch.setattr(estimates, "estimate", _raise(ToolError("killed")))
    assert build(model, repository=tmp_path, on_resources=lines.extend) == better, "an estimate is kept"


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
    alpha, beta = (Manifest.read(place / "manifest.json").report["resources"] for place in places)
    assert alpha["modules"]["alpha"]["lut"] == 100
    assert beta["not_estimated"] == "what Yosys said"
    (line,) = (line for line in lines if line.startswith("beta: no estimate"))
    assert line.endswith("because what Yosys said")


def test_an_f2_card_is_built_without_the_estimate_of_its_shell(reason: str, own: OwnModels, tmp_path: Path) -> None:
    shell = estimates.try_f2_shell(2)
    assert isinstance(shell, estimates.Missing)
    assert shell.line.startswith("f2_shell: no estimate")
    assert shell.reason == reason


def test_an_emulated_card_is_made_while_its_kernel_is_estimated_and_a_real_one_afterwards() -> None:
    both, report, made = threading.Barrier(2, timeout=30), BuildReport(["a line"], {}, ""), list[str]()

    def make() -> Linked:
        both.wait()
        return Linked(b"emulated")

    def estimate() -> BuildReport:
        both.wait()
        return report

    linked, told = link_and_report(Target.HW_EMU, make, estimate)
    assert (linked().xclbin, told) == (b"emulated", report)

    def place() -> Linked:
        made.append("placed")
        return Linked(b"placed")

    linked, told = link_and_report(Target.HW, place, lambda: report)
    assert (made, told) == ([], report)
    assert linked().xclbin == b"placed"


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
