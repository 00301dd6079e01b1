# SPDX-License-Identifier: Apache-2.0
"""Cost and speed of a planned core, stage by stage."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from hypersonic.hls.rf.cost import block_rams, dsps, ultra_rams
from hypersonic.hls.rf.stage import Memory, Pipeline, Stage, row_beats
from hypersonic.hls.rf.swap import swap_clocks
from hypersonic.hls.rf.timing import Clocks, busy
from hypersonic.hls.rf.top.weights import weight_streams


def figures(pipeline: Pipeline, timed: Clocks) -> dict[str, Any]:
    """Return plain values for the project's report. Clocks are predictions; DSPs, block RAM and UltraRAM are estimates."""
    stages = [_stage(stage, timed) for stage in pipeline.stages]
    slowest = max(pipeline.stages, key=lambda stage: (stage.timing.ii, stage.multipliers), default=None)
    return {
        "kind": "rf",
        "ii": timed.ii,
        "latency_cycles": timed.latency,
        "multipliers": sum(stage.multipliers for stage in pipeline.stages),
        "multiplications": sum(stage.multiplications for stage in pipeline.stages),
        "memory_bits": sum(stage["memory_bits"] for stage in stages),
        "buffer_bits": sum(stage.ram_bits for stage in pipeline.stages),
        **{name: sum(stage[name] for stage in stages) for name in ("dsp48e2", "ramb36", "uram288", "dram_beats")},
        "swap_clocks": swap_clocks(pipeline),
        "fixed_layers": _fixed_layers(pipeline),
        "bottleneck": slowest.layer if slowest else "",
        "stages": stages,
        **({"hardware": [_hardware(stage) for stage in pipeline.stages]} if weight_streams(pipeline) else {}),
        "notes": list(pipeline.notes),
    }


def _hardware(stage: Stage) -> dict[str, Any]:
    """A stage without its name: module, parameters and a hash of its constants, to say in which layer two kernels differ."""
    files = {memory.file for memory in stage.memories}
    constants = sha256("".join(memory.text() for memory in stage.memories).encode()).hexdigest()[:16]
    parameters = {name: str(value) for name, value in stage.parameters.items() if value not in files}
    return {"layer": stage.layer, "module": stage.module, **parameters, **({"constants": constants} if files else {})}


def _fixed_layers(pipeline: Pipeline) -> list[str]:
    """Return the layers whose constants are part of the hardware, tables aside, if the core reads others at run time."""
    if not any(stage.feed for stage in pipeline.stages):
        return []
    return list(dict.fromkeys(stage.layer for stage in pipeline.stages if stage.module in _TRAINED and stage.memories))


#: modules whose memories hold trained constants, unless these are read at run time
_TRAINED = ("rf_mac", "rf_depthwise", "rf_recurrent", "rf_embed", "rf_layernorm", "rf_map")


def _stage(stage: Stage, timed: Clocks) -> dict[str, Any]:
    loaded = [stage.loaded] if stage.loaded else []
    return {
        "name": stage.name,
        "module": stage.module,
        "layer": stage.layer,
        "ii": stage.timing.ii,
        "first_out": int(timed.arrivals[stage.outputs[0].name][0]),
        "last_out": int(timed.arrivals[stage.outputs[0].name][-1]),
        "lanes": [stage.inputs[0].lanes, stage.outputs[0].lanes],
        "multipliers": stage.multipliers,
        "busy": round(busy(stage, timed.ii), 4),
        "busy_at_work": round(busy(stage, stage.timing.ii), 4),
        "memory_bits": sum(memory.bits for memory in (*stage.memories, *([stage.feed.words] if stage.feed else []), *loaded)),
        "buffer_bits": stage.ram_bits,
        "ramb36": sum(
            block_rams(len(memory.words), memory.width) for memory in (*stage.memories, *loaded, *_loaded_words(stage))
        ),
        "uram288": _loaded_rams(stage),
        "dram_beats": row_beats(stage),
        "dsp48e2": stage.multipliers * _dsps(stage),
    }


def _loaded_rams(stage: Stage) -> int:
    feed = stage.feed
    return ultra_rams(len(feed.words.words), feed.words.width) if feed and not feed.repeats and feed.ultra else 0


def _loaded_words(stage: Stage) -> list[Memory]:
    return [stage.feed.words] if stage.feed and not stage.feed.repeats and not stage.feed.ultra else []


def _dsps(stage: Stage) -> int:
    x = int(stage.parameters.get("X_WIDTH", 1)) + (not stage.parameters.get("X_SIGNED", 1))
    w = int(stage.parameters.get("W_WIDTH", stage.parameters.get("FACTOR_WIDTH", x)))
    return dsps(x, w + (not stage.parameters.get("W_SIGNED", 1)))
