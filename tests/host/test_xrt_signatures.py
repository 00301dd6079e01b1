# SPDX-License-Identifier: Apache-2.0
"""host/xrt.py against XRT itself: its functions, their signatures, its constants, its version."""

from __future__ import annotations

import ctypes
import re
import subprocess
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from hypersonic.host import xrt
from hypersonic.host.driver import FROM_DEVICE, TO_DEVICE, RunState
from hypersonic.host.errors import LibraryNotFoundError
from hypersonic.host.library import SONAME
from hypersonic.host.version import file_version
from hypersonic.host.xrt import _PROTOTYPES, Library, _Uuid
from hypersonic.sim.card.library import library_path
from tests.support.optional import needs

FACTS = Path(__file__).with_name("xrt_facts.h")
#: Debian's libxrt-dev, XRT's own packages
HEADERS = next((path for path in map(Path, ("/usr/include/xrt", "/opt/xilinx/xrt/include")) if path.is_dir()), None)

#: C's types as the binding names them; an enum is passed as an int
TYPES: dict[str, Any] = {
    "void *": c_void_p, "int": c_int, "unsigned int": c_uint, "uint32_t": c_uint32, "uint64_t": c_uint64, "size_t": c_size_t,
    "const char *": c_char_p, "uint32_t *": ctypes.POINTER(c_uint32), "xuid_t": _Uuid, "const xuid_t": _Uuid,
    "enum ert_cmd_state": c_int, "enum xclBOSyncDirection": c_int,
}  # fmt: skip

#: ert.h: enum ert_cmd_state
STATES = (
    "NEW",
    "QUEUED",
    "RUNNING",
    "COMPLETED",
    "ERROR",
    "ABORT",
    "SUBMITTED",
    "TIMEOUT",
    "NORESPONSE",
    "SKERROR",
    "SKCRASHED",
)

#: of libuuid, whose header XRT's includes
UUID_H = """typedef unsigned char uuid_t[16];
void uuid_copy(uuid_t, const uuid_t);
int uuid_compare(const uuid_t, const uuid_t);
void uuid_clear(uuid_t);
int uuid_is_null(const uuid_t);
int uuid_parse(const char *, uuid_t);
void uuid_unparse_lower(const uuid_t, char *);
"""


def real_library() -> Path | None:
    """Where the dynamic loader finds XRT; None without it."""
    try:
        library = ctypes.CDLL(SONAME)
    except OSError:
        return None
    return xrt._loaded_file(library)


XRT = real_library()
needs_xrt = pytest.mark.skipif(XRT is None, reason=needs("libxrt1"))


def facts() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The header's declarations as the binding writes them: the fixed arguments of a variadic one."""
    lines = re.findall(r"^([a-z].*?)(xrt\w+)\((.*)\);$", FACTS.read_text(), flags=re.MULTILINE)
    return {name: (TYPES[result.strip()], tuple(map(_type, _fixed(arguments)))) for result, name, arguments in lines}


def _fixed(arguments: str) -> list[str]:
    return [argument for argument in arguments.split(", ") if argument != "..."]


def _type(argument: str) -> Any:
    return TYPES[re.sub(r"\w+$", "", argument).strip()]


def test_every_function_is_bound_as_xrt_declares_it() -> None:
    assert facts() == _PROTOTYPES


def test_states_and_directions_are_xrts() -> None:
    assert {state.name: state.value for state in RunState} == {name: 1 + index for index, name in enumerate(STATES)}
    assert (TO_DEVICE, FROM_DEVICE, xrt.NORMAL) == (0, 1, 0)


def compare(directory: Path, declarations: str) -> str:
    """The errors of a C compiler for XRT's headers with these declarations: empty when all types are the same."""
    constants = {f"ERT_CMD_STATE_{state.name}": state.value for state in RunState}
    constants |= {"XCL_BO_SYNC_BO_TO_DEVICE": TO_DEVICE, "XCL_BO_SYNC_BO_FROM_DEVICE": FROM_DEVICE}
    constants |= {"sizeof(xuid_t)": 16, "sizeof(enum ert_cmd_state)": 4, "sizeof(enum xclBOSyncDirection)": 4}
    asserts = [f'_Static_assert({name} == {value}, "{name}");' for name, value in constants.items()]
    headers = [f"#include <{name}>" for name in ("xrt/xrt_device.h", "xrt/xrt_bo.h", "xrt/xrt_kernel.h", "ert.h")]
    (directory / "uuid").mkdir(exist_ok=True)
    (directory / "uuid" / "uuid.h").write_text(UUID_H)
    command = ["gcc", "-std=gnu11", "-fsyntax-only", f"-I{directory}", "-isystem", str(HEADERS), "-xc", "-"]
    source = "\n".join([*headers, declarations, *asserts, ""])
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).stderr


@pytest.mark.skipif(HEADERS is None, reason=needs("libxrt-dev"))
def test_xrts_own_headers_agree_with_each_declaration_and_constant(tmp_path: Path) -> None:
    declarations = FACTS.read_text()
    assert compare(tmp_path, declarations) == ""
    wrong = declarations.replace("unsigned int timeout_ms", "uint64_t timeout_ms")
    assert re.search(r"conflicting types for .xrtRunWaitFor.", compare(tmp_path, wrong))


@needs_xrt
def test_the_installed_xrt_has_every_function_and_tells_its_version() -> None:
    library = Library(SONAME)
    assert XRT is not None
    assert library.version == file_version(XRT)
    assert library.version is not None
    assert (2, 11, 0) <= library.version < (3, 0, 0)


def test_the_emulated_card_tells_no_version() -> None:
    assert Library(str(library_path())).version is None


def _stub(directory: Path, text: str, name: str = "libxrt_stub.so") -> str:
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-xc", "-shared", "-fPIC", "-o", directory / name, "-"], input=text, text=True, check=True)
    return str(directory / name)


def test_an_xrt_that_tells_an_old_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    functions = "int xrtVersionMajor() {return 2;} int xrtVersionMinor() {return 8;} int xrtVersionPatch() {return 743;}"
    path = _stub(tmp_path, functions)
    with pytest.raises(LibraryNotFoundError, match=r"it is XRT 2\.8\.743, expected 2\.11\.0 or newer; install XRT"):
        Library(path)


def test_an_old_xrt_is_known_by_the_name_of_its_file(tmp_path: Path) -> None:
    _stub(tmp_path, "int xrtDeviceOpen() {return 0;}", "libxrt_coreutil.so.2.9.317")
    (tmp_path / "libxrt_coreutil.so.2").symlink_to("libxrt_coreutil.so.2.9.317")
    with pytest.raises(LibraryNotFoundError, match=r"it is XRT 2\.9\.317, expected 2\.11\.0 or newer"):
        Library(str(tmp_path / "libxrt_coreutil.so.2"))


def test_an_xrt_without_a_function_says_which_and_what_it_is(tmp_path: Path) -> None:
    _stub(tmp_path / "lib", "int xrtDeviceOpen() {return 0;}")
    (tmp_path / "version.json").write_text('{"BUILD_VERSION": "2.14.1"}')
    with pytest.raises(LibraryNotFoundError, match=r"undefined symbol: xrtDeviceClose \(its version: 2\.14\.1\)"):
        Library(str(tmp_path / "lib" / "libxrt_stub.so"))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"BUILD_VERSION": 2}', '{"BUILD_VERSION": "new"}', "\xff", "[" * 70000])
def test_a_version_file_that_says_nothing_is_no_version(tmp_path: Path, content: str) -> None:
    (tmp_path / "version.json").write_text(content, encoding="latin-1")
    assert file_version(tmp_path / "lib" / "libxrt.so") is None
