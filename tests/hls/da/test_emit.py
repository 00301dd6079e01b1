# SPDX-License-Identifier: Apache-2.0
"""The written SystemVerilog: lint-clean text, and equal to its adder graph bit for bit under stalls and resets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.core import Core
from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.da.write import write_core
from hypersonic.hls.errors import ProjectError, ToolError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Layer, Network, Tensor, element_types
from hypersonic.hls.network.layers.merge import MergeOperation
from hypersonic.hls.network.layers.table import Table
from hypersonic.hls.network.layers.zero_pad import ZeroPad
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore, Stalls, compile_cores
from hypersonic.hls.spec import SpecMismatchError, TensorSpec
from hypersonic.hls.verilator import LOG, lint, warnings
from tests.hls.network import made

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction


def network(name: str, seed: int, *, signed: bool, wide: bool) -> Network:
    """Every kind of layer, every rounding and overflow mode on the way; `wide` has sums beyond 64 bits."""
    rng = np.random.default_rng(seed)

    def constants(*shape: int) -> Constants:
        return Constants(rng.integers(-(1 << 11), 1 << 11, shape), 6)

    source, other = fixed_point(40 if wide else 9, 5, signed), fixed_point(7, 3, not signed)
    accum = fixed_point(90 if wide else 30, 11 + 6)
    scaled = fixed_point(60 if wide else 14, 9, True, Rounding.RND_CONV, Overflow.SAT)
    result = fixed_point(12, 5, signed, Rounding.TRN, Overflow.SAT)
    x, t = made.vector("x", 3, source), made.vector("t", 2, other)
    drawn = fixed_point(16, 4, True, Rounding.RND, Overflow.WRAP)
    bn = made.scaling("bn", x, constants(3), constants(3), scaled)
    both = made.concatenation("both", bn.y, t, scaled)
    first = made.dense("wide", both.y, constants(5, 5), constants(5), accum, drawn)
    relu = made.activation("relu", first.y, True, fixed_point(11, 3, False, Rounding.RND_CONV, Overflow.SAT))
    narrow = made.dense("narrow", relu.y, constants(5, 2), constants(2), fixed_point(28, 9), result)
    symmetric = fixed_point(9, 4, signed, Rounding.RND_INF, Overflow.SAT_SYM)
    added = made.merge("sum", narrow.y, t, MergeOperation.ADD, symmetric)
    back = made.dense("back", relu.y, constants(5, 2), constants(2), fixed_point(28, 9), result)
    wraps = fixed_point(13, 6, True, Rounding.RND_ZERO, Overflow.WRAP)
    least = made.merge("least", added.y, back.y, MergeOperation.MINIMUM, wraps)
    zeroed = fixed_point(12, 6, signed, Rounding.RND, Overflow.SAT_ZERO)
    times = made.merge("times", added.y, back.y, MergeOperation.MULTIPLY, zeroed)
    padded = ZeroPad("padded", replace(times.y, shape=(2, 1)), Tensor("padded", (3, 1), fixed_point(10, 5)), (0, 1, 0, 0))
    moved = made.moved("moved", padded.y, (1, 2, 0))
    sigmoid, elu = curve("sigmoid", added.y, rng, negative_only=False), curve("elu", moved.y, rng, negative_only=True)
    layers: tuple[Layer, ...] = (
        bn, both, first, relu, narrow, added, back, least, times, padded, moved, sigmoid, elu
    )  # fmt: skip
    return made.network(name, [x, t], layers, ["least", "sum", "moved", "sigmoid", "elu"])


def curve(name: str, x: Tensor, rng: np.random.Generator, *, negative_only: bool) -> Table:
    """A function in a table of 40 entries."""
    to = fixed_point(7, 4)
    values = Constants(rng.integers(to.min_raw, to.max_raw, 40), to.fraction)
    return Table(name, x, made.vector(name, x.size, to), values, 3, negative_only, Constants(np.array([3]), 1))


def row(tensors: Iterable[Tensor]) -> Row:
    return Row(tuple(TensorSpec(tensor.name, (tensor.size,), tensor.precision) for tensor in tensors))


def written(net: Network, directory: Path) -> Core:
    return write_core(net, net.name, row(net.inputs), row(net.outputs), directory / net.name)[0]


def rows(net: Network, count: int) -> np.ndarray:
    low, high = ([getattr(to, end) for to in element_types(net.inputs)] for end in ("min_raw", "max_raw"))
    return np.random.default_rng(2).integers(low, high, (count, len(low)), endpoint=True)


NETWORKS = [network(f"net_{i}", i, signed=bool(i % 2), wide=i > 1) for i in range(4)]


def test_rtl_equals_its_graph_under_stalls_and_after_a_reset_in_mid_run(tmp_path: Path) -> None:
    cores = [written(net, tmp_path) for net in NETWORKS]
    for net, core in zip(NETWORKS, cores, strict=True):
        x = rows(net, 700)
        expected = adder_graph(net).evaluate(x)
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            for stalls in (Stalls(), Stalls(128, 0, 3), Stalls(0, 200, 4), Stalls(90, 160, 5)):
                np.testing.assert_array_equal(rtl.predict_raw(x, stalls), expected)
            cut = rtl.predict_raw(x, Stalls(30, 90, 6), clock_limit=300)
            assert 0 < len(cut) < 300
            np.testing.assert_array_equal(cut, expected[: len(cut)])
            rtl.reset()
            np.testing.assert_array_equal(rtl.predict_raw(x[::-1], Stalls(30, 90, 7)), expected[::-1])


def test_a_row_takes_the_latency_and_the_next_one_clock_each(tmp_path: Path) -> None:
    core = written(NETWORKS[0], tmp_path)
    with RtlCore(core, optimisation="-O0") as rtl:
        rtl.predict_raw(rows(NETWORKS[0], 1))
        assert rtl.clocks == core.latency_cycles + 1
        rtl.predict_raw(rows(NETWORKS[0], 1000))
        assert rtl.clocks == core.latency_cycles + 1000
        with pytest.raises(SpecMismatchError, match=r"shape \(4, 2\), expected \(rows, 5\)"):
            rtl.predict_raw(np.zeros((4, 2), dtype=np.int64))


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
def test_the_text_is_clean_under_wall_without_waivers(net: Network, tmp_path: Path) -> None:
    core = written(net, tmp_path)
    lint(core.sources, core.top)
    assert not any("verilator" in source.read_text() for source in core.sources)


def random_casts(seed: int) -> Network:
    """Chains of layers whose every type is drawn: a cast that saturates before one that wraps to fewer bits, and so on."""
    rng = np.random.default_rng(seed)

    def kind() -> FixedPoint:
        width, signed = int(rng.integers(1, 19)), bool(rng.integers(2))
        modes = Rounding(rng.choice(list(Rounding))), Overflow(rng.choice(list(Overflow)))
        return fixed_point(width + signed, int(rng.integers(-3, width + 4)), signed, *modes)

    def layer(name: str, at: Tensor, other: Tensor) -> Layer:
        match int(rng.integers(8)):
            case 0:
                numbers = Constants(rng.integers(-4, 5, (2, 2)), 2), Constants(rng.integers(-9, 9, 2), 2)
                return made.dense(name, at, *numbers, fixed_point(60, 30), kind())
            case 1:
                numbers = Constants(rng.integers(-9, 9, 2), 2), Constants(rng.integers(-9, 9, 2), 2)
                return made.scaling(name, at, *numbers, kind())
            case 2:
                return made.merge(name, at, other, MergeOperation(rng.choice(list(MergeOperation))), kind())
            case relu:
                return made.activation(name, at, relu > 6, kind())

    sources, layers, outputs = [], list[Layer](), []
    for chain in range(20):
        drawn = kind()
        sources.append(made.vector(f"x{chain}", 2, fixed_point(drawn.width, drawn.fraction, drawn.signed)))
        at = sources[-1]
        for step in range(int(rng.integers(1, 5))):
            layers.append(layer(f"l{chain}_{step}", at, sources[rng.integers(chain + 1)]))
            at = layers[-1].y
        outputs.append(at.name)
    return made.network("net", sources, layers, outputs)


@pytest.mark.parametrize("seed", range(8))
def test_casts_one_behind_another_are_clean_under_wall_whatever_their_types(seed: int, tmp_path: Path) -> None:
    core = written(random_casts(seed), tmp_path)
    lint(core.sources, core.top)


def wide(size: int, bits: int, *, read: bool) -> Network:
    """read: every element is an output; else a few are summed, and the rest is not looked at."""
    x = made.vector("x", size, fixed_point(bits, 4))
    if read:
        return made.network("wide", [x], [made.activation("r", x, True, fixed_point(bits, 4))], ["r"])
    weight = np.zeros((size, 1), np.int64)
    weight[::97] = 3
    bias = Constants(np.array([1]), 2)
    layer = made.dense("d", x, Constants(weight, 2), bias, fixed_point(30, 6), fixed_point(16, 6))
    return made.network("wide", [x], [layer], ["d"])


def test_a_row_of_65536_bits_most_of_which_are_not_read_is_clean_under_wall(tmp_path: Path) -> None:
    core = written(wide(4096, 16, read=False), tmp_path)
    lint(core.sources, core.top)


def test_a_row_of_19200_bits_and_a_core_that_verilator_warns_of_are_simulated(tmp_path: Path) -> None:
    net, warned = wide(600, 32, read=True), NETWORKS[1]
    cores = [written(net, tmp_path), written(warned, tmp_path)]
    lint(cores[0].sources, cores[0].top)
    text = cores[1].sources[-1].read_text()
    cores[1].sources[-1].write_text(text.replace("endmodule", "  logic [3:0] nobody;\n  assign nobody = 8'd1;\nendmodule"))
    with pytest.raises(ToolError, match="nobody"):
        lint(cores[1].sources, cores[1].top)
    log = (compile_cores(cores, "-O0").parent / LOG).read_text()
    assert any("nobody" in line for line in warnings(log))
    for core, network in zip(cores, (net, warned), strict=True):
        x = rows(network, 40)
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 60, 1)), adder_graph(network).evaluate(x))


def test_a_network_that_ignores_its_inputs_is_still_a_core(tmp_path: Path) -> None:
    zero = Constants(np.zeros((2, 1), np.int64), 0)
    x = made.vector("x", 2, fixed_point(4, 0))
    layer = made.dense("d", x, zero, Constants(np.array([5]), 1), fixed_point(8, 2), fixed_point(8, 2))
    net = made.network("deaf", [x], [layer], ["d"])
    core = written(net, tmp_path)
    lint(core.sources, core.top)
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(rows(net, 5)), np.full((5, 1), 10))


def test_a_saved_core_loads_and_a_missing_source_is_named(tmp_path: Path) -> None:
    core = written(NETWORKS[0], tmp_path)
    directory = tmp_path / core.name
    assert Core.load(directory) == core
    (directory / f"{core.top}.sv").unlink()
    with pytest.raises(ProjectError, match=rf"{core.top}\.sv, which is not there"):
        Core.load(directory)


def test_a_directory_without_a_core_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"core.json does not exist"):
        Core.load(tmp_path)
    (tmp_path / "core.json").write_text('{"schema": 99}')
    with pytest.raises(ProjectError, match=r"schema is 99, expected 7; build the model again"):
        Core.load(tmp_path)
