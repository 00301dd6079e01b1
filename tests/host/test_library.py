# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypersonic.firmware.target import Target
from hypersonic.hls import verilator
from hypersonic.host import library
from hypersonic.host.errors import DeviceError, LibraryNotFoundError, failure
from hypersonic.host.library import library_path, load_library


@pytest.fixture(autouse=True)
def _no_xrt_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (library.OVERRIDE, "XILINX_XRT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("target", Target)
def test_the_environment_names_the_library_for_any_target(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    monkeypatch.setenv(library.OVERRIDE, "/somewhere/libxrt.so")
    assert library_path(target) == "/somewhere/libxrt.so"


def test_a_card_is_driven_by_the_xrt_that_setup_sh_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    monkeypatch.setenv("XILINX_XRT", str(tmp_path))
    for name in ("libxrt_coreutil.so", "libxrt_coreutil.so.2"):
        (tmp_path / "lib" / name).touch()
        assert library_path(Target.HW) == str(tmp_path / "lib" / name)


def test_without_a_path_the_dynamic_loader_looks_for_it() -> None:
    assert library_path(Target.HW) in ("libxrt_coreutil.so.2", "/opt/xilinx/xrt/lib/libxrt_coreutil.so.2")


@pytest.mark.parametrize("target", [Target.SW_EMU, Target.HW_EMU])
def test_emulation_has_its_own_library(target: Target) -> None:
    assert Path(library_path(target)).name == "libxrt_emu.so"
    assert load_library(target).path == library_path(target)


def test_an_emulated_card_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(progress: object) -> Path:
        raise RuntimeError("g++ is not on PATH")

    monkeypatch.setattr(importlib, "import_module", lambda _: SimpleNamespace(library_path=broken))
    with pytest.raises(LibraryNotFoundError, match="emulated card for target hw_emu cannot be built: g\\+\\+ is not on PATH"):
        library_path(Target.HW_EMU)


def test_emulation_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "EMULATION", "hypersonic.sim.nowhere")
    with pytest.raises(LibraryNotFoundError, match=r"No module named 'hypersonic\.sim\.nowhere'"):
        library_path(Target.SW_EMU)


@pytest.mark.parametrize("name", ["/nowhere/libxrt_coreutil.so.2", "libm.so.6", __file__])
def test_a_file_that_is_no_xrt_says_what_to_do(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(library.OVERRIDE, name)
    with pytest.raises(LibraryNotFoundError, match=r"install XRT .*libxrt1.* or set HYPERSONIC_XRT_LIBRARY") as refused:
        load_library(Target.HW)
    assert f"{name}: {name}" not in str(refused.value)


def test_a_failure_without_an_errno_points_at_xrts_own_message() -> None:
    for code in (0, -1):
        assert str(failure(DeviceError, "x", code)) == "x; XRT's own message is above, on standard error"
    assert "XRT answered EPERM" in str(failure(DeviceError, "x", 1))
    assert "XRT answered EINVAL (Invalid argument)" in str(failure(DeviceError, "x", -22))


def test_what_is_compiled_is_said_before_and_nothing_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path))
    compiled: list[int] = []

    def compile_nothing(command: Sequence[object], directory: Path) -> None:
        compiled.append(len(caplog.messages))
        (directory / "libxrt_emu.so").touch()

    monkeypatch.setattr(verilator, "run", compile_nothing)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "handlers", [])  # another test's, which would hear it as well
    with caplog.at_level(logging.INFO, "hypersonic"):
        assert library_path(Target.HW_EMU) == library_path(Target.SW_EMU)
    assert compiled == [1]
    assert caplog.messages == ["compiling the emulated card, once for this version (5 to 20 s)"]
