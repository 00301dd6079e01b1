# SPDX-License-Identifier: Apache-2.0
"""Random Keras models for the rf core, converted in one process, because importing TensorFlow costs seconds:

    python tests/hls/rf/rf_models.py SEED DIRECTORY FAMILY:COUNT...

writes DIRECTORY/<family>_<i>/ (HLS project, core/, network.pickle) and the cores' memory files into DIRECTORY/memory/. Every
other model is io_stream. A model that the core refuses leaves DIRECTORY/<family>_<i>.refused with the words instead.
"""

from __future__ import annotations

import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.convert import _snap_weights
from hypersonic.hls.core import RTL, Core
from hypersonic.hls.keras_model import conversion_options, use_keras_2
from hypersonic.hls.network import UnsupportedLayerError, edge
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rf.graph import read_rf_network
from hypersonic.hls.rf.layers import Tensor
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.stage import Pipeline
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.hls.rf.families import FAMILIES, Config


def convert(model: Any, names: Config, name: str, directory: Path, io_type: str = "io_parallel") -> bool:
    """One model -> its project and core; whether there is a core."""
    import hls4ml

    config = hls4ml.utils.config_from_keras_model(
        model, granularity="name", backend="Vitis", default_precision="ap_fixed<24,12>"
    )
    for layer, options in names.items():
        config["LayerName"].setdefault(layer, {}).update(options)
    path = directory / name
    options = {**conversion_options(path / "hls", name, "xcu250-figd2104-2L-e"), "io_type": io_type}
    graph = hls4ml.converters.convert_from_keras_model(model, hls_config=config, **options)
    _snap_weights(graph)
    graph.write()
    try:
        network = read_rf_network(graph)
    except UnsupportedLayerError as error:
        (directory / f"{name}.refused").write_text(str(error))
        return False
    inputs, outputs = (_row(tensors) for tensors in (network.inputs, network.outputs))
    (path / "network.pickle").write_bytes(pickle.dumps(network))
    beats = name.startswith("beats")
    core, figures = write_rf_core(network, name, inputs, outputs, path / "core", whole_row_bits=0 if beats else 1 << 20)
    if beats:
        _wrapped(core, plan(network, whole_row_bits=0), path / "core")
    HlsProject(path, name, inputs, outputs, "xcu250-figd2104-2L-e", {}, {"core": figures}).save()
    (directory / "memory").mkdir(exist_ok=True)
    for file in (path / "core").glob("*.mem"):
        shutil.copy(file, directory / "memory")
    return True


_WRAPPER = """\
`default_nettype none
module {top} (
    input  logic clk, rst_n, s_axis_x_tvalid,
    output logic s_axis_x_tready,
    input  logic [{x}-1:0] s_axis_x_tdata,
    input  logic s_axis_x_tlast,
    output logic m_axis_y_tvalid,
    input  logic m_axis_y_tready,
    output logic [{y}-1:0] m_axis_y_tdata,
    output logic m_axis_y_tlast
);
  logic a_tvalid, a_tready, a_tlast, b_tvalid, b_tready, b_tlast;
  logic [{a}-1:0] a_tdata;
  logic [{b}-1:0] b_tdata;
  rf_lanes #(.IN_LANES({x} / {a}), .OUT_LANES(1), .WIDTH({a})) u_in (
      .clk(clk), .rst_n(rst_n), .s_axis_tvalid(s_axis_x_tvalid), .s_axis_tready(s_axis_x_tready),
      .s_axis_tdata(s_axis_x_tdata), .s_axis_tlast(s_axis_x_tlast),
      .m_axis_tvalid(a_tvalid), .m_axis_tready(a_tready), .m_axis_tdata(a_tdata), .m_axis_tlast(a_tlast));
  {core} u_core (
      .clk(clk), .rst_n(rst_n), .s_axis_x_tvalid(a_tvalid), .s_axis_x_tready(a_tready), .s_axis_x_tdata(a_tdata),
      .s_axis_x_tlast(a_tlast), .m_axis_y_tvalid(b_tvalid), .m_axis_y_tready(b_tready), .m_axis_y_tdata(b_tdata),
      .m_axis_y_tlast(b_tlast));
  rf_lanes #(.IN_LANES(1), .OUT_LANES({y} / {b}), .WIDTH({b})) u_out (
      .clk(clk), .rst_n(rst_n), .s_axis_tvalid(b_tvalid), .s_axis_tready(b_tready), .s_axis_tdata(b_tdata),
      .s_axis_tlast(b_tlast), .m_axis_tvalid(m_axis_y_tvalid), .m_axis_tready(m_axis_y_tready),
      .m_axis_tdata(m_axis_y_tdata), .m_axis_tlast(m_axis_y_tlast));
endmodule
`default_nettype wire
"""


def _wrapped(core: Core, pipeline: Pipeline, directory: Path) -> None:
    """A core whose ports take a row in beats, behind lane converters, so that the simulation's whole rows fit it."""
    top, file = f"{core.name}_whole", directory / f"{core.name}_whole.sv"
    a, b = pipeline.inputs[0].width, pipeline.outputs[0].width
    x, y = core.inputs.raw_bits, core.outputs.raw_bits
    file.write_text(_WRAPPER.format(top=top, core=core.top, x=x, y=y, a=a, b=b))
    lanes = RTL / "rf_lanes.sv"
    sources = dict.fromkeys([RTL / "axis_skid.sv", lanes, *core.sources, file])
    # a skid and a register in front, a register behind
    later = core.latency_cycles + 2 * (x > a) + (y > b)
    replace(core, top=top, sources=tuple(sources), latency_cycles=later).save(directory)


def _row(tensors: tuple[Tensor, ...]) -> Row:
    return Row(tuple(TensorSpec(tensor.name, tensor.shape, edge(tensor.precision, tensor.name)) for tensor in tensors))


def main(seed: int, directory: Path, families: list[tuple[str, int]]) -> None:
    use_keras_2()
    for family, count in families:
        rng, made = np.random.default_rng([seed, *family.encode()]), 0
        for attempt in range(4 * count):  # some are refused
            model, names = FAMILIES[family](rng)
            io_type = "io_stream" if attempt % 2 else "io_parallel"
            made += convert(model, names, f"{family}_{attempt}", directory, io_type)
            if made == count:
                break


if __name__ == "__main__":
    wanted = [argument.split(":") for argument in sys.argv[3:]]
    main(int(sys.argv[1]), Path(sys.argv[2]), [(family, int(count)) for family, count in wanted])
