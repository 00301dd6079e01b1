# SPDX-License-Identifier: Apache-2.0
"""Which test modules are slow, so that `make check` leaves them out, and which are long, so that `make test-quick` does.

A module is slow if it is in one of SLOW_FOLDERS, or if it imports one of STARTERS, itself or through a helper module of tests/.
It is long if it is in one of LONG_FOLDERS. A single test has the mark `slow` or `long`.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: every test there needs a server process, a Verilated kernel or another program, often through a fixture of conftest.py
SLOW_FOLDERS = (
    "sim/tb", "tests/clients", "tests/deploy", "tests/end_to_end", "tests/f2", "tests/faults", "tests/pynq", "tests/reference",
    "tests/sim",
)  # fmt: skip

#: the longest, which take more than half of the suite's processor time; `make test-quick` leaves them out
LONG_FOLDERS = (
    "sim/tb/kernel", "tests/clients", "tests/deploy", "tests/docs", "tests/end_to_end", "tests/f2", "tests/faults",
    "tests/firmware/estimate", "tests/firmware/formal", "tests/hls/frontend", "tests/hls/layers", "tests/hls/plugin",
    "tests/hls/zoo", "tests/pynq", "tests/reference",
)  # fmt: skip

#: no test there is slow because of its imports or its folder: they ask git, start short commands, or only compute
QUICK_FOLDERS = ("tests/client", "tests/house", "tests/plan/farm")

#: modules that start processes, run Verilator, Yosys or g++, convert models with hls4ml, or import TensorFlow
STARTERS = (
    "cocotb", "hypersonic.building", "hypersonic.firmware.estimate", "hypersonic.firmware.formal", "hypersonic.hls.build",
    "hypersonic.hls.child", "hypersonic.hls.convert", "hypersonic.hls.csim", "hypersonic.hls.verilator",
    "hypersonic.server.backends.python", "hypersonic.server_process", "hypersonic.sim.card.f2", "hypersonic.sim.lint",
    "hypersonic.sim.card.simulator", "keras", "subprocess", "tensorflow", "tf_keras",
)  # fmt: skip


@cache
def is_slow(file: Path) -> bool:
    """Return whether all tests of this file are slow. A file outside the repository, which a test of pytest writes, is not."""
    if not file.is_relative_to(ROOT):
        return False
    folders = {str(folder) for folder in file.relative_to(ROOT).parents}
    if folders & set(QUICK_FOLDERS):
        return False
    return bool(folders & set(SLOW_FOLDERS)) or any(imports_starter(module) for module in imported_modules(file))


def is_long(file: Path) -> bool:
    """Return whether all tests of this file are long."""
    return file.is_relative_to(ROOT) and bool({str(folder) for folder in file.relative_to(ROOT).parents} & set(LONG_FOLDERS))


@cache
def imports_starter(module: str) -> bool:
    """Return whether a module is one of STARTERS, lies below one, or is a helper of tests/ that imports one."""
    if f"{module}.".startswith(tuple(f"{starter}." for starter in STARTERS)):
        return True
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    is_helper = module.startswith("tests.") and file.name != "conftest.py" and file.is_file()
    return is_helper and any(imports_starter(each) for each in imported_modules(file) if each != module)


@cache
def imported_modules(file: Path) -> frozenset[str]:
    """The dotted names that a file imports, anywhere in it; `from a import b` gives `a` and `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)
