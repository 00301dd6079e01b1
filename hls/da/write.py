# SPDX-License-Identifier: Apache-2.0
"""Writes the da core: a Network's adders, pipelined, between two streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypersonic.hls.core import AXIS_RTL, Core, Logic, Operations
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.da.emit import Lanes, core_module, network_module
from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.da.schedule import Schedule, schedule
from hypersonic.hls.network.base import Network, element_types
from hypersonic.hls.row import Row

#: clocks that a result spends in axis_fifo: one in its memory, one in its output register
_FIFO_CLOCKS = 2


def write_core(
    network: Network,
    name: str,
    inputs: Row,
    outputs: Row,
    directory: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Core, dict[str, Any]]:
    """Write <name>_core.sv, <name>_network.sv and core.json into `directory`; return the core and its figures.

    Args:
        inputs, outputs: the network's tensors, in its order.
        progress: called with a line for work that takes time.

    Raises:
        UnsupportedLayerError: With the layer's name.
    """
    x, y = Lanes(element_types(network.inputs)), Lanes(element_types(network.outputs))
    counts: dict[str, int] = {}
    plan = schedule(adder_graph(network, progress, counts), y.widths)
    directory.mkdir(parents=True, exist_ok=True)
    inner, top = f"{name}_network", f"{name}_core"
    (directory / f"{inner}.sv").write_text(network_module(inner, plan, x, y))
    (directory / f"{top}.sv").write_text(core_module(top, inner, plan, x.bits, y.bits))
    shared = [AXIS_RTL / "axis_fifo.sv", AXIS_RTL / "axis_free_running.sv"]
    sources = (*shared, directory / f"{inner}.sv", directory / f"{top}.sv")
    core = Core(
        name, CoreKind.DA, top, sources, inputs, outputs, ii=1, latency_cycles=plan.stages + _FIFO_CLOCKS,
        logic=Logic(plan.estimated_luts, plan.register_bits),
        layers=tuple(Operations(layer.name, type(layer).__name__, counts[layer.y.name]) for layer in network.layers),
    )  # fmt: skip
    core.save(directory)
    return core, _figures(core, plan)


def _figures(core: Core, plan: Schedule) -> dict[str, Any]:
    return {
        "kind": core.kind,
        "ii": core.ii,
        "latency_cycles": core.latency_cycles,
        "stages": plan.stages,
        "adders": plan.adders,
        "estimated_luts": plan.estimated_luts,
        "register_bits": plan.register_bits,
    }
