# SPDX-License-Identifier: Apache-2.0
"""The reading of the files of Yosys and nextpnr."""

from __future__ import annotations

from typing import Any

from hypersonic.sim.timing.designs import INSTANCE, TOP
from hypersonic.sim.timing.results import Counts, Step, counted, fan_outs, read_routed


def cell(kind: str, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> dict[str, Any]:
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {"type": kind, "port_directions": directions, "connections": inputs | outputs}


MODULE = {
    "ports": {"clk": {"direction": "input", "bits": [2]}, "y": {"direction": "output", "bits": [5]}},
    "cells": {
        "a": cell("TRELLIS_FF", {"CLK": [2], "DI": [4], "CE": ["1"]}, {"Q": [5]}),
        "b": cell("TRELLIS_FF", {"CLK": [2], "DI": [5]}, {"Q": [6]}),
        "c": cell("LUT4", {"A": [5], "B": [6], "C": [5], "D": ["0"]}, {"Z": [4]}),
        "d": cell("CCU2C", {"A0": [6]}, {"S0": [7]}),
        "e": cell("TRELLIS_DPR16X4", {"WCK": [2], "RAD": [6, 7, 7, 7]}, {"DO": [8]}),
        "f": cell("DP16KD", {"CLKA": [2], "ADA0": [6]}, {"DOA0": [9]}),
        "g": cell("MULT18X18D", {"A0": [9]}, {"P0": [10]}),
    },
    "netnames": {"design.y": {"bits": [5]}, "design.word": {"bits": [6, 7], "offset": 4}},
}


def test_cells_and_the_largest_fan_out_are_those_of_the_module_without_its_wrapper() -> None:
    modules = {TOP: {"cells": {INSTANCE: {"type": "m"}}}, "m": MODULE}
    assert counted(modules) == Counts(luts=1 + 2 + 4, ffs=2, block_rams=1, multipliers=1, largest_fan_out=4)


def test_loads_are_inputs_of_cells_and_output_ports_and_clocks_do_not_count() -> None:
    assert fan_outs(MODULE) == {4: 1, 5: 4, 6: 4, 7: 3, 9: 1}


DELAYS = r"""
        (INTERCONNECT \$gbuf\$clk/CLKO a/CLK (0:0:0) (0:0:0))
        (INTERCONNECT a/Q b/DI (100:100:100) (100:100:100))
        (INTERCONNECT a/Q c/A (900:900:900) (900:900:900))
        (INTERCONNECT b/Q c/B (500:500:500) (500:500:500))
        (INTERCONNECT d/F d/DI (0:0:0) (0:0:0))
"""
REPORT = {
    "fmax": {"clk": {"achieved": 200.0}},
    "critical_paths": [
        {"from": "<async>", "to": "posedge clk", "path": []},
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                {"type": "clk-to-q", "delay": 0.3},
                {"type": "routing", "delay": 1.2344, "net": "design.word[4]"},
                {"type": "setup", "delay": 0.1},
            ],
        },
    ],
}


def test_a_routing_is_kept_as_its_clock_its_longest_path_and_its_wires_by_fan_out() -> None:
    result = read_routed(REPORT, {"modules": {TOP: MODULE}}, DELAYS)
    assert result.mhz == 200.0
    assert result.path == (Step("clk-to-q", 0.3, "", 0), Step("routing", 1.234, "design.word[4]", 4), Step("setup", 0.1, "", 0))
    assert result.wires == ((1, 1, 0.5), (2, 1, 0.9))
