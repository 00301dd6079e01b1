# SPDX-License-Identifier: Apache-2.0
"""The vendor's tools cannot be here. stand_ins/ holds programs of their names that record how they are called and leave the
files the real ones leave; everything else in these tests is what a real build runs.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.steps import Progress
from hypersonic.firmware.toolchains.toolchain import Bitstream, CardOptions, KernelUnits
from hypersonic.firmware.toolchains.vitis.build import link_kernels
from hypersonic.firmware.toolchains.vitis.tools import Tools, find_tools
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from tests.support.optional import require

STAND_INS = Path(__file__).resolve().parent / "stand_ins"
U250 = find_platform("u250")


@dataclass(frozen=True)
class Vendor:
    """The stand-ins, installed below `place`; plan: what they are to do differently."""

    place: Path
    environment: dict[str, str]

    def plan(self, **calls: Any) -> None:
        (self.place / "plan.json").write_text(json.dumps(calls))

    def calls(self) -> list[list[str]]:
        record = self.place / "calls.jsonl"
        return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []

    def steps(self) -> list[str]:
        """The calls by what they were for."""
        marks = ("check_part.tcl", "package_xo.tcl", "vpl.synth", "vpl.impl", "cp", "create-fpga-image", "build_prj.tcl")
        return [next(mark for mark in marks if mark in call) for call in self.calls()]

    def vivado_record(self) -> list[list[str]]:
        return [line.split("\x1f") for line in (self.place / "vivado.record").read_text().splitlines()]

    def link_as(self, kernel: str, platform: Platform, compute_units: int) -> None:
        """Set the result of place and route: an xclbin from our own writer."""
        self.link_kernels(platform, LinkedKernel(kernel, compute_units))

    def link_kernels(self, platform: Platform, *kernels: LinkedKernel) -> None:
        (self.place / "linked.xclbin").write_bytes(assemble_kernels(kernels, Target.HW, platform, b"bitstream"))

    def replace(self, file: str, old: str, new: str) -> None:
        text = (self.place / file).read_text()
        assert old in text
        (self.place / file).write_text(text.replace(old, new))


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vendor:
    require("tclsh", "tcl")
    place = tmp_path / "vendor"
    programs = place / "bin"
    programs.mkdir(parents=True)
    for name in ("vivado", "v++", "vitis-run", "aws"):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{STAND_INS}/tool.py" {name} "$@"\n')
        (programs / name).chmod(0o755)
    for name in ("timing.rpt", "kernel_util.rpt", "xclbin.info"):
        shutil.copy(STAND_INS / name, place / name)
    for platform in (U250, find_platform("u200")):
        (place / "platforms" / platform.vbnv).mkdir(parents=True)
        (place / "platforms" / platform.vbnv / f"{platform.vbnv}.xpfm").touch()
    monkeypatch.setenv("STAND_IN", str(place))
    path = f"{programs}:/usr/bin:/bin"
    stand_ins = Vendor(place, {"PATH": path, "PLATFORM_REPO_PATHS": str(place / "platforms"), "STAND_IN": str(place)})
    stand_ins.plan()
    return stand_ins


@pytest.fixture
def tools(vendor: Vendor) -> Tools:
    return find_tools(U250, environment=vendor.environment)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    core = write_bench_core(*bench_rows(18, 1), tmp_path)
    return write_kernel(core, tmp_path / "kernel")


def build_bitstream(
    part: KernelUnits, tools: Tools, directory: Path, options: CardOptions, progress: Progress = lambda _: None
) -> Bitstream:
    """Link one kernel for a U250, with two jobs."""
    return link_kernels(part.kernel.name, [part], U250, tools, directory, options, progress, jobs=2)
