# SPDX-License-Identifier: Apache-2.0
"""Every RTL module has a bench of its own, or CONTRIBUTING.md lists the bench that drives it and says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.sim import lint
from tests.house.graph import ROOT

FIRMWARE_RTL = ROOT / "firmware" / "rtl"
BENCHES = ROOT / "sim" / "tb"
SECTION = "## RTL modules without a bench of their own"

#: benches that build a whole design: the module at its top
DESIGNS = {"sim/tb/kernel": "kernel_shell", "tests/f2": "f2_shell"}

_ROW = re.compile(r"^\| `(\w+)` \| `([\w/]+)` \| (.+) \|$", re.MULTILINE)


def modules() -> dict[str, Path]:
    """Every RTL module by its name, and its file."""
    return {file.stem: file for file in lint.modules((AXIS_RTL, RF_RTL, FIRMWARE_RTL))}


def is_driven_by(module: str, bench: Path) -> bool:
    """True if a bench has the module as its top, or as an instance in the top that the bench writes for it.

    A bench names its top in run_bench(directory, "top", ...), Dut("top", ...) or stage_dut("top", ...); an instance is
    `module #(` or `module u_`.
    """
    text = "\n".join(file.read_text() for file in sorted(bench.glob("*")) if file.suffix in {".py", ".sv"})
    top = rf'run_bench\(\s*[^",]+,\s*"{module}"|\b(?:D|stage_d)ut\(\s*"{module}"'
    return re.search(rf"{top}|\b{module} (?:#\(|u_\w+ \()", text) is not None


def sources(module: str) -> set[str]:
    """The modules that a module is made of, itself included."""
    listing = FIRMWARE_RTL / f"{module}.f"
    files = map(Path, listing.read_text().split()) if listing.is_file() else rtl_sources(module)
    return {file.stem for file in files}


def own_benches(names: list[str]) -> set[str]:
    return {name for name in names if (BENCHES / name).is_dir() and is_driven_by(name, BENCHES / name)}


def listed() -> dict[str, tuple[str, str]]:
    """The rows of CONTRIBUTING.md's table: module -> (folder of the bench, reason)."""
    _, _, section = (ROOT / "CONTRIBUTING.md").read_text().partition(SECTION)
    return {name: (bench, reason) for name, bench, reason in _ROW.findall(section)}


def test_every_module_has_a_bench_of_its_own_or_is_listed() -> None:
    names = list(modules())
    without = set(names) - own_benches(names)
    assert set(listed()) == without, f"{SECTION} of CONTRIBUTING.md lists the modules without a bench in sim/tb, and no others"


def test_every_bench_of_a_module_drives_that_module() -> None:
    idle = {name for name in modules() if (BENCHES / name).is_dir()} - own_benches(list(modules()))
    assert not idle, f"no test in sim/tb/<module> has the module as its top: {sorted(idle)}"


@pytest.mark.parametrize("module", listed())
def test_a_listed_module_is_part_of_what_its_bench_drives(module: str) -> None:
    bench, _ = listed()[module]
    assert list((ROOT / bench).glob("test_*.py")), f"{bench} has no tests"
    assert module in sources(DESIGNS.get(bench, Path(bench).name))


@pytest.mark.parametrize(
    ("text", "driven"),
    [
        ('run_bench(tmp_path, "rf_rom", rtl_sources("rf_rom"), __name__)', True),
        ('Dut(\n    "rf_rom", {}, {"s_axis": 8}, 8)', True),
        ('_TOP = "rf_rom #(.WIDTH(8)) u_rf_rom (.*);"', True),
        ('run_bench(tmp_path, "rf_table", rtl_sources("rf_rom"), __name__)', False),
    ],
)
def test_a_bench_is_known_by_its_top(text: str, driven: bool, tmp_path: Path) -> None:
    (tmp_path / "test_rom.py").write_text(text)
    assert is_driven_by("rf_rom", tmp_path) is driven
