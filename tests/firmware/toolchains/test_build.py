# SPDX-License-Identifier: Apache-2.0
"""A whole build for a card, with stand-ins where the vendor's tools are called (see conftest.py)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.errors import LinkError, ResourceError
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.vitis_xml import describe_units, parse_kernels
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest, check
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.toolchains.errors import MissingVendorError, StepError, TimingError
from hypersonic.firmware.toolchains.steps import Progress
from hypersonic.firmware.toolchains.toolchain import Bitstream, CardOptions, KernelUnits
from hypersonic.firmware.toolchains.vitis.build import (
    check_timing,
)
from hypersonic.firmware.toolchains.vitis.config import vpp_config
from hypersonic.firmware.toolchains.vitis.reports import ReportError, Timing
from hypersonic.firmware.toolchains.vitis.tools import Tools
from hypersonic.firmware.xclbin.connectivity import place_units
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.resources import Amounts
from tests.firmware.toolchains.conftest import U250, Vendor, build_bitstream

ALL = ["check_part.tcl", "package_xo.tcl", "vpl.synth", "vpl.impl"]


@pytest.fixture
def kernel(kernel: Kernel, vendor: Vendor) -> Kernel:
    vendor.link_as(kernel.name, U250, 2)
    return kernel


def _build(
    kernel: Kernel, tools: Tools, tmp_path: Path, unit: Amounts | None = None, units: int = 2,
    progress: Progress = lambda _: None, **options: Any,
) -> Bitstream:  # fmt: skip
    card = CardOptions(**{"needed_bytes": 0, **options})
    return build_bitstream(KernelUnits(kernel, units, unit), tools, tmp_path / "builds", card, progress)


def test_a_build_gives_an_xclbin_with_its_timing_and_utilisation(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    built = _build(kernel, tools, tmp_path)
    assert vendor.steps() == ALL
    assert [unit.name for unit in Xclbin.read(built.xclbin).compute_units] == ["bench_1", "bench_2"]
    assert (built.report["kernel_mhz"], built.report["timing"]["setup_wns_ns"]) == (300, 0.021)
    assert built.report["utilisation"]["facile_2"]["LUT"] == 20512
    assert built.report["clocks"][0]["achieved_mhz"] == 300.0
    assert built.tools == {"vitis": "2024.2"}


def test_v_plus_plus_is_called_exactly_so(vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    built = _build(kernel, tools, tmp_path)
    link = [
        "v++", "--link", "--target", "hw", "--platform", str(tools.shell), "--config", "link.cfg", "--temp_dir", "link",
        "--log_dir", "link/logs", "--report_dir", "link/reports", "--remote_ip_cache", "../ip_cache", "--jobs", "2",
        "--save-temps", "--output", "link/bench.xclbin",
    ]  # fmt: skip
    assert vendor.calls()[2:] == [
        [*link, "--to_step", "vpl.synth", "bench.xo"], [*link, "--from_step", "vpl.impl", "bench.xo"],
    ]  # fmt: skip
    written, units = (built.build / "link.cfg").read_text(), describe_units("bench", 2)
    assert written == vpp_config(U250, [units], place_units(U250, units), vitis="2024.2")
    assert "nk=bench:2:bench_1,bench_2" in written


def test_the_linker_is_told_of_each_port_and_unit_that_the_kernel_object_has(
    kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    built = _build(kernel, tools, tmp_path)
    (described,) = parse_kernels((built.build / "kernel.xml").read_bytes())
    lines = (built.build / "link.cfg").read_text().splitlines()
    syntax = r"(#.*|kernel_frequency=0:\d+|\[connectivity\]|nk=\w+:\d+:[\w,]+|sp=\w+\.\w+:\w+\[[\d:]+\]|slr=\w+:SLR\d|)"
    assert [line for line in lines if not re.fullmatch(syntax, line)] == []
    masters = [port.name for port in described.ports if port.mode == "master"]
    units = [unit.name for unit in Xclbin.read(built.xclbin).compute_units]
    connected = [line.removeprefix("sp=").split(":")[0] for line in lines if line.startswith("sp=")]
    assert sorted(connected) == sorted(f"{unit}.{port}" for unit in units for port in masters)
    assert [line for line in lines if line.startswith("kernel_frequency=")] == ["kernel_frequency=0:300"]
    assert [line.removeprefix("slr=").split(":")[0] for line in lines if line.startswith("slr=")] == units


def test_a_finished_build_is_returned_at_once(vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    first = _build(kernel, tools, tmp_path)
    assert _build(kernel, tools, tmp_path) == first
    assert vendor.steps() == ALL


def test_a_finished_build_needs_neither_its_project_nor_room_for_another(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    first = _build(kernel, tools, tmp_path)
    shutil.rmtree(first.build / "link")
    assert _build(kernel, tools, tmp_path, needed_bytes=1 << 60) == first
    assert vendor.steps() == ALL


def test_a_full_disk_ends_the_build_before_its_first_step(vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    with pytest.raises(MissingVendorError, match="place and route needs"):
        _build(kernel, tools, tmp_path, needed_bytes=1 << 60)
    assert vendor.calls() == []


def test_another_kernel_configuration_or_release_is_another_build(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    places = {_build(kernel, tools, tmp_path).build, _build(kernel, tools, tmp_path, kernel_mhz=250).build}
    kernel.sources[-1].write_text(kernel.sources[-1].read_text() + "// another\n")
    places |= {_build(kernel, tools, tmp_path).build}
    vendor.plan(**{"v++ release": "2025.1", "vivado release": "2025.1"})
    places |= {_build(kernel, Tools(tools.vpp, tools.vivado, "2025.1", tools.shell), tmp_path).build}
    assert len(places) == 4
    assert vendor.steps() == ALL * 4


def test_an_interrupted_place_and_route_is_begun_again_without_synthesis(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    def interrupt(text: str) -> None:
        if text == "Starting placement..":
            raise KeyboardInterrupt

    vendor.plan(implement={"wait": True})
    with pytest.raises(KeyboardInterrupt):
        _build(kernel, tools, tmp_path, progress=interrupt)
    assert not Path(f"/proc/{(vendor.place / 'pid').read_text()}").exists()
    assert not list((tmp_path / "builds").glob("*/bench.xclbin"))
    vendor.plan()
    built = _build(kernel, tools, tmp_path)
    assert vendor.steps() == [*ALL, "vpl.impl"]
    assert built.xclbin.is_file()


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("synthesise", "ERROR: [v++ 60-1] unrecognised option '--to_step'"),
        ("implement", "ERROR: [v++ 60-1] vpl.impl is not a step of this flow"),
    ],
)
def test_a_release_that_does_not_divide_the_link_links_in_one_step(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path, refused: str, said: str
) -> None:
    vendor.plan(**{refused: {"say": said, "code": 1}})
    told: list[str] = []
    built = _build(kernel, tools, tmp_path, progress=told.append)
    assert built.xclbin.is_file()
    assert "Vitis 2024.2 does not divide the link into steps: linking in one" in told
    whole = vendor.calls()[-1]
    assert (whole[:2], whole[-1]) == (["v++", "--link"], "bench.xo")
    assert not {"--to_step", "--from_step"} & set(whole)
    calls = len(vendor.calls())
    assert _build(kernel, tools, tmp_path) == built
    assert len(vendor.calls()) == calls  # as a build in two steps, it returns at once


def test_another_error_of_v_plus_plus_does_not_begin_the_link_again(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:  # fmt: skip
    vendor.plan(synthesise={"say": "ERROR: [v++ 60-2] the platform is not valid", "code": 1})
    with pytest.raises(StepError, match="the platform is not valid"):
        _build(kernel, tools, tmp_path)
    assert vendor.steps() == ["check_part.tcl", "package_xo.tcl", "vpl.synth"]


def test_a_licence_that_is_missing_is_found_before_synthesis(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    vendor.plan(check_part={"say": "ERROR: [Common 17-345] A valid license was not found for feature 'Synthesis'", "code": 1})
    with pytest.raises(StepError, match="there is no licence for this device: set XILINXD_LICENSE_FILE"):
        _build(kernel, tools, tmp_path)
    assert vendor.steps() == ["check_part.tcl"]
    vendor.plan()
    _build(kernel, tools, tmp_path)
    assert vendor.steps() == ["check_part.tcl", *ALL]


def test_a_clock_that_v_plus_plus_gave_up_is_explained(vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    error = "ERROR: [VPL 101-2] design did not meet timing - system clock: clk_kernel_01_unbuffered_net; slack: -0.883 ns"
    vendor.plan(implement={"say": error, "code": 1})
    with pytest.raises(
        StepError, match=r"lower --kernel-mhz; it said: ERROR: \[VPL 101-2\] .* slack: -0.883 ns; the whole log"
    ):
        _build(kernel, tools, tmp_path)


def test_a_lowered_clock_is_refused_kept_and_taken_when_allowed(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    vendor.replace("xclbin.info", "Achieved Freq:  300 MHz", "Achieved Freq:  258.8 MHz")
    vendor.replace(
        "timing.rpt", "      0.021        0.000                      0", "     -0.539     -718.710                   4761"
    )
    with pytest.raises(TimingError) as missed:
        _build(kernel, tools, tmp_path)
    assert (
        "bench.xclbin runs at 258.8 MHz, asked for 300: v++ lowered the clock, its setup slack is -0.539 ns (4761 end"
        in str(missed.value)
    )
    assert "--lower-clock" in str(missed.value)
    built = _build(kernel, tools, tmp_path, lower_clock=True)
    assert vendor.steps() == ALL
    assert built.report["kernel_mhz"] == 258.8


MET = Timing(0.0, 0.0, 0, 0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("timing", "achieved_mhz", "lower_clock", "message"),
    [
        (MET, 300.0, False, ""),
        (MET, 299.5, False, ""),  # a step of the clock generator
        (MET, 0.0, False, ""),  # the tools did not say
        (
            MET,
            250.0,
            False,
            "runs at 250 MHz, asked for 300: v++ lowered the clock, its setup slack is 0.000 ns (0 endpoints fail); accept",
        ),
        (MET, 250.0, True, ""),
        (
            Timing(-0.1, -3.0, 7, 0.0, 0.0, 0),
            300.0,
            True,
            "misses 300 MHz: its setup slack is -0.100 ns (7 endpoints fail); ask for a lower",
        ),
        (
            Timing(-0.1, -3.0, 7, 0.0, 0.0, 0),
            0.0,
            True,
            "misses 300 MHz: its setup slack is -0.100 ns (7 endpoints fail); ask for a lower",
        ),
        (Timing(0.0, 0.0, 0, -0.02, -0.1, 3), 250.0, True, "misses hold by 0.020 ns at 3 endpoints, which a lower clock does"),
    ],
)
def test_timing_is_met_or_refused(timing: Timing, achieved_mhz: float, lower_clock: bool, message: str) -> None:
    if not message:
        return check_timing(Path("x.xclbin"), timing, achieved_mhz, 300, lower_clock=lower_clock)
    with pytest.raises(TimingError) as missed:
        check_timing(Path("x.xclbin"), timing, achieved_mhz, 300, lower_clock=lower_clock)
    assert message in str(missed.value)
    return None


def test_what_was_linked_must_be_what_was_asked_for(vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    vendor.link_as(kernel.name, U250, 1)
    with pytest.raises(StepError, match=r"compute units is \['bench_1'\], expected \['bench_1', 'bench_2'\]"):
        _build(kernel, tools, tmp_path)
    vendor.link_as(kernel.name, find_platform("u200"), 2)
    with pytest.raises(StepError, match=f"platform is '{find_platform('u200').vbnv}', expected '{U250.vbnv}'"):
        _build(kernel, tools, tmp_path, kernel_mhz=200)


def test_a_build_without_its_reports_is_refused(vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    built = _build(kernel, tools, tmp_path)
    (report,) = built.build.rglob("impl_1_hw_bb_locked_timing_summary_routed.rpt")
    report.rename(report.with_name("impl_1_hw_bb_locked_timing_summary_postroute_physopted.rpt"))
    assert _build(kernel, tools, tmp_path).report == built.report
    (file,) = built.build.rglob("*physopted.rpt")
    file.write_text("nothing")
    with pytest.raises(ReportError, match="no table that begins with WNS"):
        _build(kernel, tools, tmp_path)
    file.unlink()
    (built.build / "reports" / "timing.rpt").unlink()
    with pytest.raises(StepError, match="holds none of impl_1_hw_bb_locked_timing_summary_postroute_physopted"):
        _build(kernel, tools, tmp_path)


def test_a_kernel_that_does_not_fit_is_refused_before_anything_runs(
    vendor: Vendor, kernel: Kernel, tools: Tools, tmp_path: Path
) -> None:
    with pytest.raises(ResourceError, match="compute units bench_1 to bench_2 do not fit u250: in all SLRs"):
        _build(kernel, tools, tmp_path, unit=Amounts(lut=1_300_000))
    with pytest.raises(LinkError, match="the kernel's clock is 2000 MHz, expected 10 to 650"):
        _build(kernel, tools, tmp_path, kernel_mhz=2000)
    with pytest.raises(LinkError, match="5 compute units do not fit u250"):
        _build(kernel, tools, tmp_path, units=5)
    assert vendor.calls() == []


def test_a_build_enters_a_model_repository_with_its_figures(kernel: Kernel, tools: Tools, tmp_path: Path) -> None:
    built = _build(kernel, tools, tmp_path)
    xclbin, core = built.xclbin.read_bytes(), kernel.core
    manifest = Manifest.of(
        xclbin, model=kernel.name, platform=U250.name, core=core.kind, inputs=core.inputs, outputs=core.outputs,
        ii=core.ii, latency_cycles=core.latency_cycles, max_batch_size=16, tools=built.tools, report=built.report,
    )  # fmt: skip
    place = publish(tmp_path / "models", xclbin, manifest, config_pbtxt(manifest))
    kept = Manifest.read(place / "manifest.json")
    assert check(kept, xclbin).kernels[0].name == "bench"
    assert json.loads((place / "manifest.json").read_text())["report"]["timing"] == built.report["timing"]
