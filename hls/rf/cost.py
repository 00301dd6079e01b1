# SPDX-License-Identifier: Apache-2.0
"""What a stage takes of an UltraScale+ part, by its parameters alone: counted registers, adders and memories.

Checked against Yosys' mapping of stages by bench/rf_fit.py; docs/rf-core.md says how far off it is. Every multiplication
counts as DSP48E2, as report.py has them; Vivado may put small ones into LUTs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import ceil

from hypersonic.hls.core import WEIGHT_BITS
from hypersonic.hls.rf.layers import WeightsIn
from hypersonic.hls.rf.report import block_rams, dsps, ultra_rams
from hypersonic.hls.rf.stage import Feed, Pipeline, Stage
from hypersonic.hls.rf.top.weights import feed_beats


@dataclass(frozen=True)
class Amounts:
    """Of what an FPGA is made of, named as a platform's file names them; a RAMB18 is half a bram36."""

    lut: float = 0
    ff: float = 0
    dsp: float = 0
    bram36: float = 0
    uram: float = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))

    def fits(self, budget: Amounts) -> bool:
        return all(getattr(self, kind) <= getattr(budget, kind) for kind in KINDS)

    def fullest(self, budget: Amounts) -> tuple[float, str]:
        """The largest share of the budget, and of which kind; infinite for something of which there is none."""
        return max((_share(getattr(self, kind), getattr(budget, kind)), kind) for kind in KINDS)


NOTHING = Amounts()
KINDS = tuple(field.name for field in fields(Amounts))
LABELS = {"lut": "LUT", "ff": "FF", "dsp": "DSP48E2", "bram36": "RAMB36", "uram": "URAM288"}


def _share(got: float, allowed: float) -> float:
    return got / allowed if allowed else float("inf") if got else 0.0


def pipeline_cost(pipeline: Pipeline) -> Amounts:
    """All stages, weights in block RAM or LUTs."""
    return sum((stage_cost(stage) for stage in pipeline.stages), NOTHING)


def place_weights(
    pipeline: Pipeline, taken: Amounts, budget: Amounts, port_beats: int = 0
) -> tuple[Amounts, dict[str, WeightsIn]]:
    """taken: pipeline_cost and what is around the core -> what it is then, and where each layer's weights are: in block RAM,
    and where that overflows, the memories that block RAM holds worst in UltraRAM. Where that overflows too, layers stay in the
    card's memory, those first whose bits are asked for least often, as long as port_beats beats a row suffice for them."""
    working = [stage for stage in pipeline.stages if stage.module in ("rf_mac", "rf_depthwise")]
    places = {stage.layer: WeightsIn.BRAM if _rams(stage) else WeightsIn.LUT for stage in working}
    large = [stage for stage in working if stage.module == "rf_mac" and _rams(stage)]
    outside = sorted(large, key=lambda stage: (beats_a_row(stage) / stage.memories[0].bits, -stage.memories[0].bits))
    while True:
        total, found = _load_weights(large, taken, budget)
        if found is not None or not outside or beats_a_row(outside[0]) > port_beats:
            return total, places | (found or {})
        stage = outside.pop(0)
        large.remove(stage)
        port_beats -= beats_a_row(stage)
        taken += _streamed(stage)
        places[stage.layer] = WeightsIn.DRAM


def _load_weights(large: list[Stage], taken: Amounts, budget: Amounts) -> tuple[Amounts, dict[str, WeightsIn] | None]:
    """What is taken with some of the stages' weights in UltraRAM, and which; None where it has not enough for them."""
    found: dict[str, WeightsIn] = {}
    for stage in sorted(large, key=lambda stage: (_rams(stage) / _urams(stage), _rams(stage)), reverse=True):
        if taken.bram36 <= budget.bram36:
            break
        taken += _moved(stage)
        found[stage.layer] = WeightsIn.URAM
    return taken, found if taken.bram36 <= budget.bram36 and taken.uram <= budget.uram else None


def _rams(stage: Stage) -> int:
    return block_rams(len(stage.memories[0].words), stage.memories[0].width)


def _urams(stage: Stage) -> int:
    return ultra_rams(len(stage.memories[0].words), stage.memories[0].width)


def _moved(stage: Stage) -> Amounts:
    """From rf_mac's memory to rf_weights' in front of rf_mac_stream: two more registers of a word and its FIFO, and a beat that
    is passed on or gathered."""
    word = _free_running(stage.memories[0].width, 2)
    more = Amounts(lut=80, ff=3 * stage.memories[0].width + 80)
    return word + more + _skid(WEIGHT_BITS) + Amounts(bram36=-_rams(stage), uram=_urams(stage))


def _streamed(stage: Stage) -> Amounts:
    """From rf_mac's memory to a reader of the card's memory, with a FIFO of 512 beats, and rf_lanes."""
    reader = Amounts(lut=900, ff=1_200) + _fifo(WEIGHT_BITS, 512)
    return reader + _skid(max(WEIGHT_BITS, stage.memories[0].width)) + Amounts(bram36=-_rams(stage))


def beats_a_row(stage: Stage) -> int:
    """Beats of the card's memory that a row takes of an rf_mac whose weights stay there."""
    memory = stage.memories[0]
    return stage.timing.ii // len(memory.words) * feed_beats(Feed(memory, repeats=True))


# ---------------------------------------------------------------- pieces
_Numbers = Mapping[str, int]

#: (words, bits) of a RAMB18E2, simple dual port (UG573); a RAMB36E2 is two of them
_RAMB18 = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
#: LUTs that Yosys spends before it takes a RAMB18E2
_LUTS_A_RAM = 64


def _memory(words: int, width: int) -> Amounts:
    """A memory that is read into a register: LUT RAM (RAM32M16, RAM64M8) as long as it is small."""
    halves = min(ceil(words / depth) * ceil(width / bits) for depth, bits in _RAMB18)
    banks = ceil(words / 64)
    luts = 8 * (ceil(width / 14) if words <= 32 else banks * ceil(width / 7)) + width * (banks > 1)
    return Amounts(lut=luts, ff=width) if luts <= _LUTS_A_RAM * halves else Amounts(bram36=halves / 2)


def _rom(words: int, width: int) -> Amounts:
    """The same for constants, as estimate/module_tree.py has them: in whole RAMB36E2, or LUTs, or no memory for one word."""
    if rams := block_rams(words, width):
        return Amounts(bram36=rams)
    return Amounts(lut=width, ff=width) if words > 1 else NOTHING


def _fifo(width: int, depth: int) -> Amounts:
    address = (depth - 1).bit_length()
    return _memory(depth, width) + Amounts(lut=6 + address, ff=2 * address + 3)


def _free_running(width: int, latency: int) -> Amounts:
    return _fifo(width + 1, 1 << (latency + 2).bit_length()) + Amounts(lut=10, ff=12)


def _skid(width: int) -> Amounts:
    return Amounts(lut=width + 3, ff=2 * width + 2)


def _cast(width: int, numbers: _Numbers) -> Amounts:
    """rf_cast of a number of so many bits. Rounding is a carry chain without LUTs; zeros that come in are no bits."""
    y, shift = numbers["Y_WIDTH"], numbers.get("RESULT_SHIFT", 8)
    whole, zeros = max(width + 1 - shift, 1), max(-shift, 0)
    if not numbers.get("OVERFLOW", 0) or whole <= y:
        return Amounts(ff=2 * max(min(whole, y) - zeros, 0))
    return Amounts(lut=y + 2 + (whole - y) / 3, ff=whole + y - zeros)


def _times(amounts: Amounts, count: float) -> Amounts:
    return Amounts(*(getattr(amounts, kind) * count for kind in KINDS))


def _tree(numbers: _Numbers, inputs: int, *, every_level: bool) -> Amounts:
    """From products to their sum, of one output: cut, added in pairs. Registers of levels as in rf_mac."""
    product, shift, levels = numbers["X_WIDTH"] + numbers["W_WIDTH"], numbers.get("PRODUCT_SHIFT", 0), (inputs - 1).bit_length()
    cut = product - min(max(shift, 0), product - 1)
    most = min(cut + levels, max(numbers["ACC_WIDTH"] - max(-shift, 0), 1))
    step = 2 if most <= 24 and not every_level else 1
    adders, registers, nodes = 0, 0, inputs
    for level in range(levels + 1):
        width = min(cut + level, most)
        adders += nodes // 2 * width if level else 0
        nodes = -(-nodes // 2) if level else nodes
        registers += nodes * width * ((levels - level) % step == 0 or not level)
    return Amounts(lut=adders, ff=registers)


# ---------------------------------------------------------------- stages
def stage_cost(stage: Stage) -> Amounts:
    """Weights in block RAM, or LUTs where they are few."""
    numbers = {key: int(value) for key, value in stage.parameters.items() if not isinstance(value, str)}
    return _COSTS[stage.module](stage, numbers)


def _mac(stage: Stage, numbers: _Numbers) -> Amounts:
    p, q, x, w = (numbers[key] for key in ("P", "Q", "X_WIDTH", "W_WIDTH"))
    blocks, groups, accumulator = numbers["N_IN"] // p, numbers["N_OUT"] // q, numbers["ACC_WIDTH"]
    dsp = dsps(x + (not numbers.get("X_SIGNED", 1)), w)
    output = _tree(numbers, p, every_level=False) + Amounts(lut=accumulator, ff=accumulator) + _cast(accumulator, numbers)
    # products too: Yosys leaves their registers outside the DSP48E2
    operands = Amounts(ff=p * q * (x + 2 * w) + p * x * (2 if groups == 1 else 1), dsp=p * q * dsp)
    vectors = _memory(2 << (blocks - 1).bit_length(), p * x) if groups > 1 else NOTHING
    ends = _free_running(q * numbers["Y_WIDTH"], 7 + (p - 1).bit_length())
    return _times(output, q) + operands + vectors + ends + _memories(stage) + Amounts(lut=30, ff=30)


def _memories(stage: Stage) -> Amounts:
    return sum((_rom(len(memory.words), memory.width) for memory in stage.memories), NOTHING)


def _depthwise(stage: Stage, numbers: _Numbers) -> Amounts:
    lanes, rows, x, w = (numbers[key] for key in ("LANES", "K_H", "X_WIDTH", "W_WIDTH"))
    accumulator = numbers["ACC_WIDTH"]
    dsp = dsps(x + (not numbers.get("X_SIGNED", 1)), w)
    lane = _tree(numbers, rows, every_level=True) + Amounts(accumulator, accumulator + rows * (2 * x + w), rows * dsp)
    ends = _free_running(lanes * numbers["Y_WIDTH"], 7 + rows.bit_length())
    return _times(lane + _cast(accumulator, numbers), lanes) + ends + _memories(stage) + Amounts(lut=30, ff=30)


def _window(_stage: Stage, numbers: _Numbers) -> Amounts:
    beat, rows, lines = numbers["LANES"] * numbers["WIDTH"], numbers["K_H"], numbers["LINES"]
    kept = _times(_memory(numbers["W"] * numbers["C"] // numbers["LANES"], beat), lines)
    picked = Amounts(lut=rows * (beat * max(1, lines / 4) + lines), ff=rows * beat)
    return kept + picked + _free_running(rows * beat, 2) + Amounts(lut=120, ff=65)


def _map(stage: Stage, numbers: _Numbers) -> Amounts:
    lanes, x, mode, a = numbers["LANES"], numbers["X_WIDTH"] + 1, numbers["MODE"], numbers.get("A_WIDTH", 8)
    b = numbers.get("B_WIDTH", 8)
    lane = Amounts(ff=x)
    width = x
    if mode == 1:
        width = max(x + a + numbers["PRODUCT_LEFT"], b + numbers["OFFSET_LEFT"]) + 1
        lane += Amounts(lut=width, ff=x + a + 2 * b + width, dsp=dsps(x, a))
    elif mode == 2:
        factor = max(a, numbers["A_FRACTION"] + 2)
        width = x + factor
        lane += Amounts(lut=factor, ff=x + factor, dsp=dsps(x, factor))
    elif mode:
        lane += Amounts(lut=2 * x, ff=x)
    clamped = bool(numbers.get("CLAMP_LOW", 0) or numbers.get("CLAMP_HIGH", 0))
    # a clamp at zero is the registers' own reset
    compared = bool(numbers.get("LOW", 0) or numbers.get("CLAMP_HIGH", 0))
    lane += Amounts(lut=1.5 * width * compared, ff=width * clamped) + _cast(width, numbers)
    latency = 3 + (0, 3, 2, 1, 1)[mode] + clamped
    index = Amounts(lut=10, ff=8) if mode else NOTHING
    return _times(lane, lanes) + _free_running(lanes * numbers["Y_WIDTH"], latency) + _memories(stage) + index


def _table(stage: Stage, numbers: _Numbers) -> Amounts:
    lanes, x, y = numbers["LANES"], numbers["X_WIDTH"] + 1, numbers["Y_WIDTH"]
    lane = Amounts(lut=1.2 * x, ff=3 * x + 2 * y + 12) + _memories(stage)
    if numbers.get("POSITIVE_PASS"):
        gain = numbers["GAIN"].bit_length() + 1
        lane += Amounts(lut=y, ff=x + gain + 2 * y, dsp=dsps(x, gain) if gain > 2 else 0) + _cast(x + gain, numbers)
    return _times(lane, lanes) + _free_running(lanes * y, 7)


def _divide(width: int, count: int) -> Amounts:
    """rf_divide by a constant."""
    if count & (count - 1) == 0:
        return Amounts(lut=4.5 * width, ff=width)
    point = width + (count - 1).bit_length()
    return Amounts(lut=4.5 * width + 10, ff=3 * width + 16, dsp=dsps(width + 1, point + 2))


def _pool(stage: Stage, numbers: _Numbers) -> Amounts:
    lanes, rows, average = numbers["LANES"], numbers.get("K_H", 1), numbers["OP"] == 1
    value = numbers["ACC_WIDTH"] if average else numbers["X_WIDTH"]
    lane = Amounts(lut=value * (rows if average else 1.5 * rows - 1 + 0.5), ff=2 * rows * value) + _cast(value, numbers)
    if average:
        lane += _divide(value, numbers.get("PIXELS", rows * numbers.get("K_W", 1)))
    kept = NOTHING
    if stage.module == "rf_global_pool" and numbers["CHANNEL_BEATS"] > 1:
        kept = _memory(numbers["CHANNEL_BEATS"], lanes * value)
    return _times(lane, lanes) + kept + _free_running(lanes * numbers["Y_WIDTH"], 8) + Amounts(lut=15, ff=10)


def _softmax(_stage: Stage, numbers: _Numbers) -> Amounts:
    lanes, n, x, y = numbers["LANES"], numbers["N"], numbers["X_WIDTH"], numbers["Y_WIDTH"]
    beats = n // lanes
    held = _fifo(lanes * x + 1, 1 << max(1, (2 * beats + 4).bit_length())) + Amounts(lut=lanes * x + 25, ff=lanes * 2 * x + 60)
    if "EXP_SIZE" not in numbers:
        return held + _skid(lanes * y + 1) + Amounts(lut=8 * lanes)
    exp, inverse = (_rom(numbers[f"{table}_SIZE"], numbers[f"{kind}_WIDTH"]) for table, kind in _TABLES)
    accumulator, factor = numbers["ACC_WIDTH"], numbers["FACTOR_WIDTH"]
    lane = exp + Amounts(lut=x, ff=3 * x + 5 * accumulator, dsp=dsps(accumulator + 1, factor + 1))
    lane += _cast(accumulator + factor, numbers)
    again = _fifo(lanes * accumulator + 1, 1 << max(4, (2 * beats + 16).bit_length()))
    flows = _free_running(lanes * accumulator, 5) + _free_running(lanes * y, 4)
    return held + again + flows + inverse + _times(lane, lanes) + Amounts(lut=2 * accumulator + 20, ff=6 * accumulator + 60)


_TABLES = (("EXP", "ACC"), ("INVERSE", "FACTOR"))


def _add(_stage: Stage, numbers: _Numbers) -> Amounts:
    a, b = (numbers[f"{side}_WIDTH"] + 1 + numbers.get(f"{side}_LEFT", 0) for side in "AB")
    product = numbers["OP"] == 2
    width = a + b if product else max(a, b) + 1
    lane = Amounts(lut=0 if product else width, ff=a + b + width, dsp=dsps(a, b) if product else 0) + _cast(width, numbers)
    return _times(lane, numbers["LANES"]) + _free_running(numbers["LANES"] * numbers["Y_WIDTH"], 4)


def _lanes(stage: Stage, _numbers: _Numbers) -> Amounts:
    x, y = stage.inputs[0], stage.outputs[0]
    if x.lanes > y.lanes:
        return _skid(x.width + 1) + Amounts(lut=x.width + 12, ff=x.width + 8)
    return Amounts(lut=8, ff=2 * y.width - x.width + 8)


def _embed(stage: Stage, numbers: _Numbers) -> Amounts:
    return _memories(stage) + _free_running(stage.outputs[0].width, 4) + Amounts(lut=40, ff=2 * numbers["X_WIDTH"] + 20)


def _upsample(_stage: Stage, numbers: _Numbers) -> Amounts:
    return (
        _times(_memory(numbers["W"] * numbers["BEATS"], numbers["WIDTH"]), 2)
        + _free_running(numbers["WIDTH"], 2)
        + Amounts(lut=22 + numbers["WIDTH"])
    )


def _flow(stage: Stage, _numbers: _Numbers) -> Amounts:
    """rf_concat, rf_pad: a skid buffer and counters."""
    return _skid(stage.outputs[0].width + 1) + Amounts(lut=24 + stage.outputs[0].width, ff=15)


def _queue(_stage: Stage, numbers: _Numbers) -> Amounts:
    return _fifo(numbers["WIDTH"], numbers["DEPTH"])


def _fork(stage: Stage, _numbers: _Numbers) -> Amounts:
    return _skid(stage.inputs[0].width + 1) + Amounts(lut=4 * len(stage.outputs), ff=2 * len(stage.outputs))


_COSTS: dict[str, Callable[[Stage, _Numbers], Amounts]] = {
    "rf_mac": _mac,
    "rf_depthwise": _depthwise,
    "rf_window": _window,
    "rf_map": _map,
    "rf_table": _table,
    "rf_pool": _pool,
    "rf_global_pool": _pool,
    "rf_softmax": _softmax,
    "rf_add": _add,
    "rf_lanes": _lanes,
    "rf_embed": _embed,
    "rf_upsample": _upsample,
    "rf_concat": _flow,
    "rf_pad": _flow,
    "rf_fork": _fork,
    "axis_fifo": _queue,
}
