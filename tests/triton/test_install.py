# SPDX-License-Identifier: Apache-2.0
"""Compiling and installing the backend, and finding a tritonserver."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hypersonic.host.xrt import Library
from hypersonic.triton import tables
from hypersonic.triton.compile import CPP, backend_library
from hypersonic.triton.errors import BackendInstallError, TritonServerNotFoundError
from hypersonic.triton.install import install
from hypersonic.triton.program import find_tritonserver
from hypersonic.triton.serve import backend_directory, has_emulated

pytestmark = pytest.mark.whole("triton", "host/errors.py", "firmware/kernel/registers.py")


@pytest.fixture(scope="module")
def library() -> Path:
    return backend_library()


def symbols(library: Path, *options: str) -> list[list[str]]:
    listed = subprocess.run(["nm", "-D", *options, str(library)], capture_output=True, text=True, check=True).stdout
    return [line.split() for line in listed.splitlines()]


def test_only_triton_s_entry_points_are_exported(library: Path) -> None:
    names = {line[-1] for line in symbols(library, "--defined-only")}
    assert names == {
        "TRITONBACKEND_Initialize", "TRITONBACKEND_Finalize", "TRITONBACKEND_ModelInitialize", "TRITONBACKEND_ModelFinalize",
        "TRITONBACKEND_ModelInstanceInitialize", "TRITONBACKEND_ModelInstanceFinalize", "TRITONBACKEND_ModelInstanceExecute",
        "TRITONBACKEND_ModelInstanceReady",
    }  # fmt: skip


def test_functions_of_later_releases_are_weak_because_triton_resolves_all_symbols_at_load(library: Path) -> None:
    weak = {line[-1] for line in symbols(library, "--undefined-only") if line[0] == "w"}
    assert {name for name in weak if name.startswith("TRITON")} == {"TRITONBACKEND_RequestIsCancelled"}


def test_nothing_is_linked_that_tritonserver_links(library: Path) -> None:
    listed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    needed = {name.split(".so")[0] for name in re.findall(r"NEEDED.*\[(.*)\]", listed)}
    assert needed <= {"libstdc++", "libm", "libgcc_s", "libc", "libdl", "libpthread", "ld-linux-x86-64"}


def test_the_tables_of_errno_registers_and_parameters_are_those_of_python() -> None:
    assert '{16, "EBUSY", Kind::DeviceBusy, "it is in use with another xclbin, by this process or another' in tables.causes()
    assert "constexpr std::uint32_t kAxiError = 0x50;" in tables.constants()
    assert 'constexpr Parameter kRetryMs{"retry_ms", 10000, 1, 2147483647};' in tables.parameters()


def test_the_advice_after_a_hung_run_is_that_of_python() -> None:
    assert f'kReset = "{Library.reset}";' in (CPP / "card" / "unit.hpp").read_text()


def test_install_replaces_the_file_and_a_server_that_has_it_open_keeps_the_old_one(tmp_path: Path, library: Path) -> None:
    target = install(tmp_path)
    assert target == tmp_path / "fpga" / "libtriton_fpga.so"
    assert target.read_bytes() == library.read_bytes()
    with target.open("rb") as opened:
        target.write_bytes(b"old")
        before = target.stat().st_ino
        install(tmp_path)
        assert (target.stat().st_ino != before, opened.read()) == (True, b"old")
    assert [path.name for path in target.parent.iterdir()] == ["libtriton_fpga.so"]


def test_a_directory_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(BackendInstallError, match=r"missing/fpga/libtriton_fpga.so cannot be written .* --backend-directory"):
        install(tmp_path / "missing")


def test_our_own_server_under_triton_s_name_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("script", b"#!/bin/sh\nexec hypersonic serve\n"), ("program", b"\x7fELF and more")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tritonserver").write_bytes(content)
        (tmp_path / name / "tritonserver").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'script'}:{tmp_path / 'program'}")
    assert find_tritonserver().path == tmp_path / "program" / "tritonserver"
    with pytest.raises(TritonServerNotFoundError, match="is not a program: expected NVIDIA's tritonserver, an ELF file"):
        find_tritonserver(tmp_path / "script" / "tritonserver")


def test_the_other_backends_of_the_server_stay(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "server" / "bin" / "tritonserver"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    for name in ("python", "fpga"):
        (tmp_path / "server" / "backends" / name).mkdir(parents=True)
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    made = backend_directory(find_tritonserver(program), library)
    assert {path.name: path.resolve() for path in made.iterdir()} == {
        "python": tmp_path / "server" / "backends" / "python", "fpga": made / "fpga",
    }  # fmt: skip
    assert (made / "fpga" / library.name).resolve() == library.resolve()


@pytest.mark.parametrize(
    ("manifest", "emulated"),
    [('{"target": "hw_emu"}', True), ('{"target": "sw_emu"}', True), ('{"target": "hw"}', False), ("[]", False), ("{", False)],
)
def test_the_emulated_card_is_for_repositories_that_need_it(tmp_path: Path, manifest: str, emulated: bool) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "manifest.json").write_text(manifest)
    assert has_emulated(tmp_path) == emulated
