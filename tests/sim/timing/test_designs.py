# SPDX-License-Identifier: Apache-2.0
"""The designs: every module of the RTL, in a wrapper of registers."""

from __future__ import annotations

import re

import pytest

from hypersonic.sim.lint import modules
from hypersonic.sim.timing.__main__ import main
from hypersonic.sim.timing.designs import GROUPS, DesignError, Ports, designs, find, ports_of, wrapper_text


def test_every_module_of_the_rtl_is_routed() -> None:
    assert {file.stem for file in modules()} <= {design.module for design in designs()}


def test_designs_have_names_of_their_own_and_the_shell_is_first() -> None:
    assert len({design.name for design in designs()}) == len(designs())
    groups = [design.group for design in designs()]
    assert groups == sorted(groups, key=GROUPS.index)


def test_the_parameters_of_a_design_are_parameters_of_its_module() -> None:
    files = {file.stem: file.read_text() for file in modules()}
    for design in designs():
        for name, _ in design.parameters:
            assert re.search(rf"\bparameter\b[^,;=]*\b{name}\b", files[design.module]), f"{design.name}: {name}"


def test_memories_have_the_same_contents_each_time() -> None:
    (first, words), (second, more) = find("rf_cell").memories
    assert (first, second) == ("GATE_FILE.mem", "ACT_FILE.mem")
    assert len(words.splitlines()) == len(more.splitlines()) == 1024
    assert find("rf_cell").memories == find("rf_cell").memories


def test_each_input_comes_from_a_register_and_each_output_goes_into_one() -> None:
    design = find("axis_join")
    text = wrapper_text(design, Ports("clk", (("a", 2), ("b", 3)), (("y", 5), ("z", 1))))
    assert ".a(in_q[0+:2]),\n    .b(in_q[2+:3])" in text
    assert "always_ff @(posedge clk) in_q <= {in_q[4:0], pin_in};" in text
    assert ".y(out[0+:5]),\n    .z(out[5+:1])" in text
    assert "always_ff @(posedge clk) level_0 <= out;" in text
    assert re.findall(r"level_\d\[\d\] <= [^;]+", text) == [
        "level_1[0] <= ^level_0[3:0]",
        "level_1[1] <= ^level_0[5:4]",
        "level_2[0] <= ^level_1[1:0]",
    ]
    assert "assign pin_out = level_2[0];" in text


def test_a_module_without_outputs_is_refused() -> None:
    with pytest.raises(DesignError, match="module sink has no output"):
        ports_of({"ports": {"clk": {"direction": "input", "bits": [2]}}}, "sink")


def test_an_unknown_design_is_an_error_that_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nobody"]) == 2
    assert "no design 'nobody' in modules.toml, expected one of axi_burst_split," in capsys.readouterr().err
