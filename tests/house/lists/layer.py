# SPDX-License-Identifier: Apache-2.0
"""A layer: y = -x, of a class that an extension gives hls4ml, with a stage and a module of its own."""

from __future__ import annotations

from tests.house.lists.change import Change

_LAYER = '''\
# SPDX-License-Identifier: Apache-2.0
"""The negative of each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast


@dataclass(frozen=True, eq=False)
class Negate(OneInput):
    """y[i] = result(-x[i])."""


def _read(layer: Any, x: Tensor, y: Tensor) -> Negate:
    return Negate(layer.name, x, y)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Negate, x: Integers) -> Integers:
    return cast(-x, layer.x.precision.fraction, layer.y.precision)


LAYER = LayerType(Negate, _evaluate, readers={"Negate": _read})
'''

_STAGE = '''\
# SPDX-License-Identifier: Apache-2.0
"""The negative of each element, as rf_negate."""

from __future__ import annotations

from hypersonic.hls.network.layers.negate import Negate
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import Numbers, shift
from hypersonic.hls.rf.stage import Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: latency of rf_negate; includes two clocks of the output FIFO
_CLOCKS = 5


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Negate) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.size)
    plan.finish(layer, negate_stage(name, layer, x, plan.result(layer, x.lanes)))


def negate_stage(name: str, layer: Negate, x: Stream, y: Stream) -> Stage:
    """Return the rf_negate stage."""
    parameters: dict[str, Value] = {
        "LANES": x.lanes, "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed),
        **result_parameters(x.precision.fraction, layer.y.precision),
    }  # fmt: skip
    return Stage(name, "rf_negate", layer.name, parameters, (x,), (y,), one_to_one(x.beats, _CLOCKS))


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    width, lanes = numbers["X_WIDTH"] + 1, numbers["LANES"]
    lane = Amounts(lut=width, ff=width) + cast_cost(width, numbers)
    return lane.times(lanes) + flow_cost(lanes * numbers["Y_WIDTH"], _CLOCKS - 2)


STAGE = StageType(("rf_negate",), _cost, (shift,), LayerPlan(Negate, _plan))
'''

_UNROLL = '''\
# SPDX-License-Identifier: Apache-2.0
"""The negative of each element."""

from __future__ import annotations

from collections.abc import Iterable

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, total, zero
from hypersonic.hls.network.layers.negate import Negate


def _negate(graph: AdderGraph, _layer: Negate, x: Numbers) -> Iterable[Number]:
    return (total(graph, zero(graph), number, subtract=True) for number in x)


UNROLL = {Negate: _negate}
'''

_MODULE = """\
// SPDX-License-Identifier: Apache-2.0
//
// y = result_t(-x), LANES elements per clock.
`default_nettype none

module rf_negate #(
    parameter int LANES = 2,  // elements of a beat
    parameter int X_WIDTH = 8,  // bits of an input element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int RESULT_SHIFT = 0,  // fraction bits of x minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic [LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                     s_axis_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  logic [LANES*(X_WIDTH+1)-1:0] values;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    wire [X_WIDTH-1:0] x = s_axis_tdata[lane*X_WIDTH+:X_WIDTH];
    logic [X_WIDTH:0] negative_q;

    always_ff @(posedge clk) negative_q <= -{X_SIGNED && x[X_WIDTH-1], x};

    assign values[lane*(X_WIDTH+1)+:X_WIDTH+1] = negative_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (X_WIDTH + 1),
      .SIGNED_IN(1'b1),
      .LATENCY  (1),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
"""

_BENCH = '''\
# SPDX-License-Identifier: Apache-2.0
"""rf_negate against ap_fixed's cast of -x: any stalls, reset."""

from __future__ import annotations

import random

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.negate import Negate
from hypersonic.hls.rf.stage import Stream
from hypersonic.hls.rf.stages.negate import negate_stage
from tests.support.rtl.bench_cases import RowCase, drawn
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of

X, Y, LANES, BEATS = FixedPoint(9, 5), FixedPoint(7, 4), 2, 3


class Case(RowCase):
    name = "negate"

    def dut(self) -> Dut:
        size = LANES * BEATS
        layer = Negate("n", Tensor("x", (size,), X), Tensor("y", (size,), Y))
        stage = negate_stage("n", layer, Stream("x", X, LANES, BEATS), Stream("y", Y, LANES, BEATS))
        return Dut("rf_negate", dict(stage.parameters), {"s_axis": LANES * X.width}, LANES * Y.width)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        x = drawn(X, LANES * BEATS, rng)
        y = [Y.cast(-number, X.fraction) for number in x]
        return beats_of(x, LANES, X.width), beats_of(y, LANES, Y.width)


CASES = [Case()]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case)
'''

_ENDS = '    "rf_pad": lambda d: {'
_NEW_ENDS = """\
    "rf_negate": lambda d: {"LANES": d.of(1, 2), "X_WIDTH": d.of(*NARROW), "X_SIGNED": d.bit(), **d.result()},
"""

_ROW = "| `rf_quantise` |"

_CHECK = """\
import tempfile
from pathlib import Path

import numpy as np
from hls4ml.model.graph import ModelGraph
from hls4ml.model.layers import Layer, register_layer

from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.read import read_network
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.spec import TensorSpec


class Negate(Layer):
    def initialize(self):
        self.add_output_variable(self.get_input_variable().shape)


register_layer("Negate", Negate)
layers = [
    {"class_name": "InputLayer", "name": "x", "input_shape": [4]},
    {"class_name": "Negate", "name": "negate", "inputs": ["x"]},
    {"class_name": "Activation", "activation": "relu", "name": "y", "n_in": 4, "inputs": ["negate"]},
]
precision = {"Model": {"Precision": "ap_fixed<8,4>", "ReuseFactor": 1, "Strategy": "Resource"}}
config = {"OutputDir": "out", "ProjectName": "net", "Backend": "Vitis", "IOType": "io_parallel", "HLSConfig": precision}
network = read_network(ModelGraph.from_layer_list(config, layers))
assert [type(layer).__name__ for layer in network.layers] == ["Negate", "Map"]
x = np.random.default_rng(1).integers(-128, 128, (50, 4))
y = np.maximum(np.where(x == -128, -128, -x), 0)  # ap_fixed<8,4> wraps
np.testing.assert_array_equal(evaluate(network, x).astype(np.int64), y)
np.testing.assert_array_equal(adder_graph(network).evaluate(x), y)
rows = [Row(tuple(TensorSpec(t.name, t.shape, t.precision) for t in side)) for side in (network.inputs, network.outputs)]
with tempfile.TemporaryDirectory() as directory:
    core, _ = write_rf_core(network, "net", *rows, Path(directory))
    with RtlCore(core, optimisation="-O0") as simulated:
        np.testing.assert_array_equal(simulated.predict_raw(x, Stalls(100, 100)), y)
"""

CHANGE = Change(
    section="A layer",
    new={
        "hls/network/layers/negate.py": _LAYER,
        "hls/rf/stages/negate.py": _STAGE,
        "hls/da/layers/negate.py": _UNROLL,
        "hls/rtl/rf/rf_negate.sv": _MODULE,
        "sim/tb/rf_negate/test_rf_negate.py": _BENCH,
    },
    edits={
        "tests/hls/rf/test_lint.py": [(_ENDS, _NEW_ENDS + _ENDS)],
        "sim/timing/modules.toml": [("[rf.rf_output]\n", "[rf.rf_negate]\n[rf.rf_output]\n")],
        "docs/rf-core.md": [(_ROW, f"| `rf_negate` | the negative of each element | one per beat |\n{_ROW}")],
    },
    unneeded={
        "hls/network/registry.py": "collects the layers",
        "hls/rf/read.py": "it has a stage",
        "tests/support/rtl/stream_bench.py": "drives the bench",
        "tests/hls/network/test_registry.py": "both cores compute it",
        "tests/hls/layers/layer_rows.py": "no Keras model has it",
        "docs/layers.md": "no Keras model has it",
        "hls/frontend/traps.py": "it is a class of its own",
        "hls/frontend/keras/layers.py": "no Keras model has it",
        "hls/frontend/keras/simplify.py": "it is not made of others",
    },
    check=_CHECK,
    tests=(
        "sim/tb/rf_negate",
        "tests/hls/network/test_registry.py",
        "tests/sim/timing/test_designs.py",
        *(
            f"tests/hls/rf/test_{name}"
            for name in (
                "lint.py::test_every_module_has_its_ends",
                "lint.py::test_a_module_is_clean_at_the_ends_of_its_parameters[rf_negate]",
                "stages.py::test_a_stage_has_all_its_parts[negate]",
                "stages.py::test_a_stages_modules_are_named_in_its_own_file_alone[negate]",
                "stages.py::test_every_module_is_one_stage_files_or_a_part_of_another_module",
                "stages.py::test_the_file_list_of_a_module_is_what_it_instantiates_in_compile_order[rf_negate]",
                "stages.py::test_the_files_of_all_modules_are_all_files",
                "stages.py::test_the_page_on_the_rf_core_has_every_module_of_a_stage",
            )
        ),
    ),
)
