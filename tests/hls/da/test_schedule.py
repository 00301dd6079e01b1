# SPDX-License-Identifier: Apache-2.0
"""Where the registers go, by the delay the logic is given; and that Yosys' netlist is not slower than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.estimate.cells import parse_blif
from hypersonic.firmware.estimate.logic_path import longest_paths
from hypersonic.firmware.estimate.yosys import synthesise
from hypersonic.hls.da.delay import (
    FEW,
    FF_OUT,
    FF_SETUP,
    GROWTH,
    LUT,
    WIRE,
    adder_ps,
    fan_outs,
    is_power_of_two,
    wire_ps,
)
from hypersonic.hls.da.emit import Lanes, network_module
from hypersonic.hls.da.graph import AdderGraph, Input
from hypersonic.hls.da.schedule import Schedule, schedule
from hypersonic.hls.fixed import FixedPoint, Rounding

WIDTH = 12


def inputs(graph: AdderGraph, count: int) -> list[int]:
    return [graph.input(i, -(1 << (WIDTH - 1)), (1 << (WIDTH - 1)) - 1) for i in range(count)]


def tree(graph: AdderGraph, x: list[int]) -> int:
    """The sum of x, two and two."""
    while len(x) > 1:
        x = [graph.add(*x[i : i + 2], subtract=i % 4 == 2) if i + 1 < len(x) else x[i] for i in range(0, len(x), 2)]
    return x[0]


def neuron(graph: AdderGraph, x: list[int], rounding: Rounding, high: int) -> int:
    """A rounded sum between 0 and `high`."""
    return graph.clamp(graph.clamp(graph.drop(tree(graph, x), 4, rounding), 0, None), None, high)


def plan_of(graph: AdderGraph, outputs: tuple[int, ...], stage_ns: float) -> Schedule:
    done = graph.finished(outputs)
    return schedule(done, [done.nodes[i].width for i in done.outputs], stage_ns)


def test_a_wide_adder_takes_longer_than_a_narrow_one() -> None:
    assert adder_ps(40) - adder_ps(4) == 90
    graph = AdderGraph()
    total = tree(graph, inputs(graph, 2))
    assert plan_of(graph, (total,), 2.8).ready_ps[-1] == FF_OUT + adder_ps(WIDTH + 1)


def test_terms_that_may_be_squeezed_one_after_the_other_count_as_if_they_were() -> None:
    graph = AdderGraph()
    x = inputs(graph, 8)
    plan = plan_of(graph, (tree(graph, x),), 1000.0)
    four = FF_OUT + adder_ps(WIDTH + 1) + (WIRE + LUT) + adder_ps(WIDTH + 2)
    assert plan.ready_ps[-1] == four + 3 * (WIRE + LUT) + adder_ps(WIDTH + 3)


def test_a_sum_that_others_read_too_is_not_taken_apart() -> None:
    graph = AdderGraph()
    a, b, c, d = inputs(graph, 4)
    shared = graph.add(graph.add(a, b), c)
    plan = plan_of(graph, (graph.add(shared, d), shared), 1000.0)
    assert plan.ready_ps[plan.graph.outputs[0]] - plan.ready_ps[plan.graph.outputs[1]] == adder_ps(WIDTH + 2)


def test_a_wire_takes_longer_the_more_it_drives_from_a_few_loads_on() -> None:
    assert [wire_ps(loads) for loads in (0, 1, FEW)] == [WIRE] * 3
    assert [wire_ps(FEW << doublings) for doublings in range(4)] == [round(WIRE * (1 + GROWTH * n)) for n in range(4)]


def test_the_loads_of_a_node_are_what_its_bits_drive_through_wires_too() -> None:
    graph = AdderGraph()
    a, b = inputs(graph, 2)
    total = graph.add(a, b)
    done = graph.finished((graph.add(graph.shift(a, 2), b), graph.add(total, a), total))
    loads = fan_outs(done)
    assert [loads[i] for i, node in enumerate(done.nodes) if isinstance(node.operation, Input)] == [3, 2]


def test_a_register_with_many_readers_is_late_for_all_of_them() -> None:
    graph = AdderGraph()
    first, *others = inputs(graph, 4 * FEW + 1)
    plan = plan_of(graph, tuple(graph.add(first, other) for other in others), 1000.0)
    last = plan.ready_ps[plan.graph.outputs[0]]
    assert (
        last
        == FF_OUT + wire_ps(4 * FEW) - WIRE + adder_ps(WIDTH + 1)
        == FF_OUT + round(2 * GROWTH * WIRE) + adder_ps(WIDTH + 1)
    )


def test_more_time_a_stage_never_takes_more_stages() -> None:
    graph = AdderGraph()
    total = tree(graph, inputs(graph, 32))
    stages = [plan_of(graph, (total,), stage_ns).stages for stage_ns in (0.1, 1.3, 1.8, 2.8, 4.0, 1000.0)]
    assert stages == sorted(stages, reverse=True)
    assert (stages[0], stages[-1]) == (5, 1)


@pytest.mark.parametrize("bound", [0, 1, 127, -1, -2, -128])
def test_bounds_that_the_upper_bits_tell(bound: int) -> None:
    assert is_power_of_two(bound)


@pytest.mark.parametrize("bound", [2, 126, 128, -3, -127, -129])
def test_bounds_that_need_a_comparison(bound: int) -> None:
    assert not is_power_of_two(bound)


def test_no_path_in_the_netlist_is_longer_than_the_schedule_says(tmp_path: Path) -> None:
    graph = AdderGraph()
    x = inputs(graph, 12)
    sums = (
        tree(graph, x[:8]),
        neuron(graph, x[3:7], Rounding.RND_CONV, 127),
        neuron(graph, x[4:9], Rounding.RND, 100),
        graph.clamp(tree(graph, x[:3]), -256, 255),
        graph.clamp(tree(graph, x[5:8]), -255, 255),
        tree(graph, [neuron(graph, x[i : i + 3], Rounding.RND_ZERO, 63) for i in range(0, 9, 3)]),
    )
    plan = plan_of(graph, sums, 2.8)
    x_lanes = Lanes([FixedPoint.with_fraction(WIDTH, 0)] * len(x))
    y_lanes = Lanes([FixedPoint.with_fraction(plan.graph.nodes[i].width, 0) for i in plan.graph.outputs])
    source = tmp_path / "sums.sv"
    source.write_text(network_module("sums", plan, x_lanes, y_lanes))
    deepest = longest_paths(parse_blif(synthesise("sums", [source]).netlist()))[0]
    assert 1.5 < deepest.estimated_ns <= (max(plan.ready_ps) + FF_SETUP) / 1000 <= 2.8
