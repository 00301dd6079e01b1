# SPDX-License-Identifier: Apache-2.0
"""Reports in the forms the tools write them, and in forms nobody should."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.firmware.toolchains.vitis.reports import (
    Clock,
    ReportError,
    Timing,
    read_clocks,
    read_kernel_utilisation,
    read_timing,
)
from tests.firmware.toolchains.conftest import STAND_INS


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "report"
    file.write_text(text)
    return file


def test_the_timing_summary_is_read() -> None:
    assert read_timing(STAND_INS / "timing.rpt") == Timing(0.021, 0.0, 0, 0.010, 0.0, 0)


def test_missed_timing_is_read_with_its_endpoints(tmp_path: Path) -> None:
    text = (STAND_INS / "timing.rpt").read_text()
    missed = text.replace(
        "      0.021        0.000                      0               714233",
        "     -0.539     -718.710                   4761               714233",
    )
    timing = read_timing(_file(tmp_path, missed))
    assert (timing.setup_wns_ns, timing.setup_tns_ns, timing.setup_failing) == (-0.539, -718.710, 4761)


def test_a_design_without_paths_has_no_slack_to_miss(tmp_path: Path) -> None:
    text = (STAND_INS / "timing.rpt").read_text()
    bare = text.replace("0.021        0.000                      0               714233", "NA NA NA NA").replace(
        "0.010        0.000                      0               709872", "NA NA NA NA"
    )
    assert read_timing(_file(tmp_path, bare)) == Timing(0.0, 0.0, 0, 0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("WNS(ns)", "wns", "no table that begins with WNS"),
        ("0.021 ", "soon  ", "holds no numbers"),
        ("0.021 ", "1e999 ", "holds no finite numbers"),
        ("THS(ns)", "XYZ(ns)", "has no column 'THS"),
        ("    -------      -------", "    xxxxxxx      -------", "no table that begins with WNS"),
        ("0.021        0.000", "0.021", "no table that begins with WNS"),
    ],
)
def test_a_damaged_timing_summary_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (STAND_INS / "timing.rpt").read_text()
    assert old in text
    with pytest.raises(ReportError, match=message):
        read_timing(_file(tmp_path, text.replace(old, new)))


def test_kernels_and_compute_units_are_read_with_the_platform(tmp_path: Path) -> None:
    used = read_kernel_utilisation(STAND_INS / "kernel_util.rpt")
    assert list(used) == ["Platform", "User Budget", "Used Resources", "Unused Resources", "facile", "facile_1", "facile_2"]
    assert used["facile_2"] == {"LUT": 20512, "LUTAsMem": 2085, "REG": 18120, "BRAM": 15, "URAM": 0, "DSP": 0}
    assert used["User Budget"]["LUT"] == 1_562_525


def test_a_utilisation_without_used_resources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no row `Used Resources`"):
        read_kernel_utilisation(_file(tmp_path, "| Name | LUT |\n| facile | 3 [ 1.00%] |\n"))


def test_scalable_clocks_are_read_as_asked_for_and_as_achieved(tmp_path: Path) -> None:
    clocks = read_clocks(STAND_INS / "xclbin.info")
    assert clocks[:2] == (
        Clock("ulp_ucs_aclk_kernel_00", "SCALABLE", 300.0, 300.0), Clock("ulp_ucs_aclk_kernel_01", "SCALABLE", 500.0, 500.0),
    )  # fmt: skip
    assert [clock.kind for clock in clocks] == ["SCALABLE", "SCALABLE", "FIXED"]


def test_an_info_without_system_clocks_has_none(tmp_path: Path) -> None:
    assert read_clocks(_file(tmp_path, "Scalable Clocks\n-----\n   Name:      DATA_CLK\n   Frequency: 300 MHz\n")) == ()


def test_a_frequency_that_is_none_is_refused(tmp_path: Path) -> None:
    text = (STAND_INS / "xclbin.info").read_text().replace("Achieved Freq:  300", "Achieved Freq:  fast")
    with pytest.raises(ReportError, match="a clock's frequency is not a number"):
        read_clocks(_file(tmp_path, text))


def test_a_report_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"missing\.rpt: No such file"):
        read_timing(tmp_path / "missing.rpt")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_gives_a_report_or_one_refusal(tmp_path: Path, data: st.DataObject) -> None:
    name, read = data.draw(
        st.sampled_from(
            [("timing.rpt", read_timing), ("kernel_util.rpt", read_kernel_utilisation), ("xclbin.info", read_clocks)]
        )
    )
    content = bytearray((STAND_INS / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 30))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "damaged").write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with suppress(ReportError):
        read(tmp_path / "damaged")
