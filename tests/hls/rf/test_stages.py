# SPDX-License-Identifier: Apache-2.0
"""Every stage of the rf core has all its parts, and every module of hls/rtl/rf that is a stage belongs to one of them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersonic.hls import verilator
from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.network.base import Multiplying
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.modules import rtl_sources, sources_of
from hypersonic.hls.rf.parts.limits import NO_LIMIT
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.registry import STAGES, stage_cost, stage_type
from hypersonic.hls.rf.stage import Stage
from hypersonic.hls.rf.stage_type import StageType
from tests.hls.rf.fit.networks import Net
from tests.hls.rf.lint_networks import network

FOLDERS = [Path(str(sys.modules[f"hypersonic.hls.rf.{folder}"].__path__[0])) for folder in ("stages", "wires")]
STAGE_FILES = [file for folder in FOLDERS for file in folder.glob("*.py")]

#: modules that the core's top is made of beside its stages (rf/top/weights.py)
OF_THE_TOP = {"rf_weights"}


#: modules and packages by name
FILES = {file.stem: file for folder in (AXIS_RTL, RF_RTL) for file in sorted(folder.glob("*.sv"))}
MODULES = sorted(name for name in FILES if not name.endswith("_pkg"))
PACKAGES = sorted(FILES.keys() - set(MODULES))


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_has_all_its_parts(name: str) -> None:
    kind = STAGES[name]
    assert kind.limits or kind.limits is NO_LIMIT
    assert kind.modules or kind.layer, "neither an instance nor a layer"
    if kind.layer:
        assert bool(kind.layer.sharing) == issubclass(kind.layer.noun, Multiplying)
    for module in kind.modules:
        text = FILES[module].read_text()
        assert set(kind.long) == set(re.findall(r"^ +parameter logic (?:signed )?\[63:0\] (\w+)", text, re.MULTILINE))


def test_every_module_is_one_stage_files_or_a_part_of_another_module() -> None:
    owners = Counter(module for kind in STAGES.values() for module in kind.modules)
    assert set(owners.values()) == {1}
    ours = {file.stem for file in RF_RTL.glob("*.sv")} & set(MODULES)
    parts = {inner.stem for module in ours for inner in rtl_sources(module)[:-1]} & ours
    assert owners.keys() - ours == {"axis_fifo", "axis_skid"}
    assert ours == (owners.keys() & ours) | parts | OF_THE_TOP
    # rf_recurrent has them in a loop
    assert owners.keys() & parts == {"rf_fork", "rf_lanes", "rf_mac"}


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_stages_modules_are_named_in_its_own_file_alone(name: str) -> None:
    for module in STAGES[name].modules:
        files = [file.stem for file in STAGE_FILES if f'"{module}"' in file.read_text()]
        assert files == [name]


def test_the_page_on_the_rf_core_has_every_module_of_a_stage() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "rf-core.md").read_text()
    modules = {module for kind in STAGES.values() for module in kind.modules if module.startswith("rf_")}
    assert sorted(module for module in modules if f"`{module}`" not in page) == []


def planned() -> Iterator[Stage]:
    for seed in range(8):
        yield from plan(network(seed), 1 << 20).stages
    yield from plan(Net(6, 6, 4).convolution(4, 3).depthwise(3).flat().dense(6).network("small")).stages


def test_every_planned_stage_has_a_type_and_a_cost() -> None:
    seen = set()
    for stage in planned():
        assert isinstance(stage_type(stage), StageType)
        assert isinstance(stage_cost(stage), Amounts)
        seen.add(stage.module)
    assert len(seen) >= 12


# ---------------------------------------------------------------- file lists
def instantiated(module: str) -> set[str]:
    """The modules that a module has instances of, and the packages that it takes constants or functions from."""
    text = re.sub(r"//.*", "", FILES[module].read_text())
    modules = {inner for inner in MODULES if re.search(rf"^ *{inner} (#\(|u_\w+ \()", text, re.MULTILINE)}
    return modules | {package for package in PACKAGES if f"{package}::" in text and package != module}


@pytest.mark.parametrize("module", MODULES)
def test_the_file_list_of_a_module_is_what_it_instantiates_in_compile_order(module: str) -> None:
    listed = [file.stem for file in rtl_sources(module)]
    assert len(set(listed)) == len(listed)
    assert listed[-1] == module
    used = instantiated(module)
    inner = {file.stem for one in used & set(MODULES) for file in rtl_sources(one)} | used & set(PACKAGES)
    assert set(listed) == {module} | inner
    for at, one in enumerate(listed):
        assert instantiated(one) <= set(listed[:at])
    verilator.lint(rtl_sources(module), module)


def test_the_files_of_all_modules_are_all_files() -> None:
    assert len(MODULES) >= 25
    assert {file.stem for file in sources_of(MODULES)} == FILES.keys()


def test_an_unknown_module_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="module 'rf_nothing' does not exist, expected one of axis_fifo, "):
        rtl_sources("rf_nothing")


def test_a_package_is_not_a_module() -> None:
    with pytest.raises(ValueError, match="module 'rf_pkg' does not exist, expected one of axis_fifo, "):
        rtl_sources("rf_pkg")
