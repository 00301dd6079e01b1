# SPDX-License-Identifier: Apache-2.0
"""Stages of random networks mapped by Yosys one by one, for compare_stages.py:

    python tests/hls/rf/measure_stages.py SEED FILE [MOST]

writes FILE, a line of JSON a stage: its module, parameters and streams, and what it takes, without the memories that files fill
and without the flip-flops that DSP48E2 and block RAMs absorb. At most MOST stages of a module; one takes Yosys half a minute,
and some minutes go by in its first. stages.jsonl is of seed 1 with at most 4.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.firmware.estimate.absorbed import absorb
from hypersonic.firmware.estimate.cells import parse_blif
from hypersonic.firmware.estimate.module_tree import module_of, without_absorbed
from hypersonic.firmware.estimate.yosys import synthesise
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.depthwise import Depthwise
from hypersonic.hls.network.layers.map import MapFunction
from hypersonic.hls.network.layers.recurrent import Recurrent
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.rf.stages.dense import dense_shapes
from hypersonic.hls.rf.write import _instance, module_files
from tests.hls.rf.fit.networks import Net, facile_v2, jets, recurrent, resnet50, separable, transformer

_ROUNDINGS = (Rounding.TRN, Rounding.RND, Rounding.RND_CONV)


def networks() -> Iterator[Network]:
    yield Net(4, 6).quantise().layernorm().quantise().network("types")
    net = Net(4, 6)
    net.scaled(MapFunction.AFFINE).scaled(MapFunction.LEAKY).product(net.x)
    yield net.table().table(37).softmax().network("functions")
    yield from (jets(), facile_v2(), separable(), recurrent(), transformer(), resnet50(((1, 4),), 16))
    yield Net(6, 6, 4).convolution(4, 3).relu().pool(2, 2).convolution(8, 1).average().dense(6).network("small")


def drawn(network: Network, rng: np.random.Generator) -> Network:
    """With random types of results, weights and accumulators, and reuse factors that leave up to 64 multipliers."""
    kinds: dict[str, FixedPoint] = {}

    def typed(tensor: Tensor) -> Tensor:
        width = int(rng.integers(6, 18))
        kind = FixedPoint.with_fraction(
            width, int(rng.integers(2, 6)), True, rng.choice(_ROUNDINGS), rng.choice([Overflow.WRAP, Overflow.SAT])
        )
        return replace(tensor, precision=kinds.setdefault(tensor.name, kind))

    def weights(old: Constants) -> Constants:
        most = 1 << int(rng.integers(3, 15))
        return Constants(rng.integers(-most, most, size=old.raw.shape), old.fraction)

    layers: list[Any] = []
    for layer in network.layers:
        names = ("a", "b") if len(layer.inputs) == 2 else ("x",)
        changed: dict[str, Any] = {name: typed(getattr(layer, name)) for name in names} | {"y": typed(layer.y)}
        if isinstance(layer, Dense | Depthwise):
            changed |= {"weight": weights(layer.weight), "accum": FixedPoint.with_fraction(int(rng.integers(20, 36)), 12)}
        if isinstance(layer, Recurrent):
            changed |= {"weight": weights(layer.weight), "accum": changed["x"].precision}
        if isinstance(layer, Dense):
            few = [factor for factor, shape in dense_shapes(layer).items() if 4 <= shape.p * shape.q <= 64]
            changed["reuse_factor"] = int(rng.choice(few)) if few else max(dense_shapes(layer))
        layers.append(replace(layer, **changed))
    inputs, outputs = (tuple(typed(tensor) for tensor in side) for side in (network.inputs, network.outputs))
    return Network(network.name, inputs, outputs, tuple(layers))


def measured(stage: Stage) -> Amounts:
    """The resources of a stage mapped by Yosys, without rf_rom, and without what DSP48E2 and block RAMs absorb."""
    with tempfile.TemporaryDirectory() as scratch:
        files = [(Path(scratch) / f"c__{memory.file}", memory.text()) for memory in stage.memories]
        files.append((Path(scratch) / "top.sv", _top(stage)))
        for file, text in files:
            file.write_text(text)
        made = synthesise("top", [*module_files(Pipeline("", (stage,), stage.inputs[:1], ())), *(file for file, _ in files)])
    whole = without_absorbed(module_of("top", 1, made.cells), absorb(parse_blif(made.netlist()))[1])
    roms = sum((module.total for path, module in whole.walk() if path.endswith("/rf_rom")), Amounts())
    return whole.total + roms.times(-1)


def _top(stage: Stage) -> str:
    ports = ["input logic clk", "input logic rst_n"]
    for ways, streams in ((("input", "output"), stage.inputs), (("output", "input"), stage.outputs)):
        for stream in streams:
            name, (there, back) = stream.name, ways
            ports += [f"{there} logic {name}_tvalid", f"{back} logic {name}_tready", f"{there} logic {name}_tlast"]
            ports.append(f"{there} logic [{stream.width - 1}:0] {name}_tdata")
    return "\n".join(["module top (", ",\n".join(ports), ");", *_instance(stage, "c"), "endmodule", ""])


def main(seed: int, file: Path, most: int) -> None:
    rng, seen = np.random.default_rng(seed), dict[str, int]()
    with file.open("w") as output:
        for network in networks():
            for stage in plan(drawn(network, rng)).stages:
                seen[stage.module] = seen.get(stage.module, 0) + 1
                if seen[stage.module] <= most and stage.module != "rf_fork" and stage.inputs[0].width <= 600:
                    output.write(json.dumps(_line(stage, measured(stage))) + "\n")
                    output.flush()


def _line(stage: Stage, taken: Amounts) -> dict[str, Any]:
    streams = {side: [[s.lanes, s.precision.width, s.beats] for s in getattr(stage, side)] for side in ("inputs", "outputs")}
    parameters = {key: value for key, value in stage.parameters.items() if not isinstance(value, str)}
    return {"module": stage.module, "parameters": parameters, **streams, "taken": asdict(taken)}


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 4)
