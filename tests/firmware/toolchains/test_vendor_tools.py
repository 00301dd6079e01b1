# SPDX-License-Identifier: Apache-2.0
"""A missing tool is reported at once, in one sentence, before any step that takes hours."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.platform import GIB, find_platform
from hypersonic.firmware.toolchains.errors import MissingVendorError
from hypersonic.firmware.toolchains.programs import BUILD_BYTES, check_space
from hypersonic.firmware.toolchains.vitis.tools import find_tools
from tests.firmware.toolchains.conftest import U250, Vendor


def _find(vendor: Vendor, **options: Any) -> object:
    return find_tools(U250, environment=vendor.environment, **options)


def test_the_tools_are_found_on_the_path_with_release_and_shell(vendor: Vendor) -> None:
    tools = find_tools(U250, environment=vendor.environment, hls=True)
    programs = vendor.place / "bin"
    assert (tools.vpp, tools.vivado, tools.hls) == (programs / "v++", programs / "vivado", programs / "vitis-run")
    assert (tools.release, tools.shell.name) == ("2024.2", f"{U250.vbnv}.xpfm")


def test_the_tools_are_found_where_settings64_says(vendor: Vendor) -> None:
    programs = vendor.place / "bin"
    environment = {
        **vendor.environment, "PATH": "/usr/bin:/bin", "XILINX_VITIS": str(vendor.place), "XILINX_VIVADO": str(vendor.place),
    }  # fmt: skip
    del environment["PLATFORM_REPO_PATHS"]  # the shell is then found below $XILINX_VITIS
    tools = find_tools(U250, environment=environment)
    assert (tools.vpp, tools.shell.parents[2]) == (programs / "v++", vendor.place)


@pytest.mark.parametrize(("name", "home"), [("v++", "XILINX_VITIS"), ("vivado", "XILINX_VIVADO")])
def test_a_missing_tool_is_named_with_what_to_install(vendor: Vendor, name: str, home: str) -> None:
    (vendor.place / "bin" / name).unlink()
    with pytest.raises(MissingVendorError) as refusal:
        _find(vendor)
    assert str(refusal.value) == (
        f"target hw for u250: {name} is neither on PATH nor in ${home}/bin (not set); install AMD Vitis 2025.1 or older and "
        "source its settings64.sh; sw_emu and hw_emu are built without the vendor's tools"
    )


def test_vitis_hls_is_missed_only_when_it_is_needed(vendor: Vendor) -> None:
    (vendor.place / "bin" / "vitis-run").unlink()
    assert _find(vendor)
    with pytest.raises(MissingVendorError, match="vitis-run is neither on PATH"):
        _find(vendor, hls=True)


def test_a_release_that_has_dropped_the_shell_is_refused(vendor: Vendor) -> None:
    vendor.plan(**{"v++ release": "2025.2", "vivado release": "2025.2"})
    with pytest.raises(LinkError, match=r"Vitis 2025.2 no longer supports u250: expected 2025.1 or older"):
        _find(vendor)


def test_two_releases_side_by_side_are_refused(vendor: Vendor) -> None:
    vendor.plan(**{"vivado release": "2023.1"})
    with pytest.raises(MissingVendorError, match=r"v\+\+ is 2024.2 .* but vivado is 2023.1 .* one release"):
        _find(vendor)


def test_a_tool_that_says_no_release_is_refused(vendor: Vendor) -> None:
    vendor.plan(**{"v++ release": "?"})
    with pytest.raises(MissingVendorError, match=r"v\+\+ --version names no release; its last line is: +\*\*\*\* SW Build"):
        _find(vendor)


def test_a_tool_that_does_not_start_is_refused(vendor: Vendor) -> None:
    (vendor.place / "bin" / "v++").write_text("#!/nowhere/interpreter\n")
    with pytest.raises(MissingVendorError, match=r"v\+\+ --version does not run: .*repair the installation"):
        _find(vendor)


def test_a_shell_that_is_not_installed_is_named_with_those_that_are(vendor: Vendor) -> None:
    shutil.rmtree(vendor.place / "platforms" / U250.vbnv)
    with pytest.raises(MissingVendorError) as refusal:
        _find(vendor)
    message = str(refusal.value)
    assert f"{U250.vbnv}.xpfm is in none of {vendor.place}/platforms, /opt/xilinx/platforms" in message
    assert f"installed: {find_platform('u200').vbnv}" in message
    assert "PLATFORM_REPO_PATHS" in message


def test_a_full_disk_is_seen_before_the_build(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(MissingVendorError, match=r"GiB free, place and route needs .*--build-directory"):
        check_space(tmp_path / "not" / "yet" / "there", free + GIB)
    check_space(tmp_path, 0)
    assert BUILD_BYTES > 10 * GIB


def test_a_living_card_has_no_newest_release(vendor: Vendor) -> None:
    living = replace(U250, newest_vitis="")
    vendor.plan(**{"v++ release": "2026.1", "vivado release": "2026.1"})
    assert find_tools(living, environment=vendor.environment).release == "2026.1"
