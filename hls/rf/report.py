# SPDX-License-Identifier: Apache-2.0
"""What a planned core costs and how fast it is, layer by layer."""

from __future__ import annotations

from math import ceil
from typing import Any

from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.rf.timing import Clocks, busy
from hypersonic.hls.rf.top.weights import row_beats


def figures(pipeline: Pipeline, timed: Clocks) -> dict[str, Any]:
    """Plain values for the project's report; clocks are predictions."""
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
        "bottleneck": slowest.layer if slowest else "",
        "stages": stages,
        "notes": list(pipeline.notes),
    }


def _stage(stage: Stage, timed: Clocks) -> dict[str, Any]:
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
        "memory_bits": sum(memory.bits for memory in (*stage.memories, *([stage.feed.words] if stage.feed else []))),
        "buffer_bits": stage.ram_bits,
        "ramb36": sum(block_rams(len(memory.words), memory.width) for memory in stage.memories),
        "uram288": _loaded_rams(stage),
        "dram_beats": row_beats(stage),
        "dsp48e2": stage.multipliers * _dsps(stage),
    }


def _loaded_rams(stage: Stage) -> int:
    feed = stage.feed
    return ultra_rams(len(feed.words.words), feed.words.width) if feed and not feed.repeats else 0


#: (words, bits) a RAMB36E2 can be, simple dual port (UG573)
_RAMB36 = ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1))
#: words of a memory that is made of look-up tables instead
_LUT_WORDS = 64


def block_rams(words: int, width: int) -> int:
    """RAMB36E2 of a memory, in their best shape; none for one so small that look-up tables hold it. An estimate."""
    if words <= _LUT_WORDS:
        return 0
    return min(ceil(words / depth) * ceil(width / bits) for depth, bits in _RAMB36)


def ultra_rams(words: int, width: int) -> int:
    """URAM288 of a memory: 4096 words of 72 bits each (UG573)."""
    return ceil(words / 4096) * ceil(width / 72)


def _dsps(stage: Stage) -> int:
    x = int(stage.parameters.get("X_WIDTH", 1)) + (not stage.parameters.get("X_SIGNED", 1))
    return dsps(x, int(stage.parameters.get("W_WIDTH", stage.parameters.get("FACTOR_WIDTH", x))))


def dsps(x: int, w: int) -> int:
    """DSP48E2 of a multiplier of two's complement numbers of so many bits: 27 x 18, wider ones in pieces of 26 and 17 bits
    (UG579). An estimate."""
    return min(_pieces(a, 27) * _pieces(b, 18) for a, b in ((x, w), (w, x)))


def _pieces(width: int, port: int) -> int:
    return 1 if width <= port else ceil((width - 1) / (port - 1))
