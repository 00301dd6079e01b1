# SPDX-License-Identifier: Apache-2.0
"""The plan of a core that is larger than one die: its stages, in their order, are divided among the dies.

The kernel's shell, with the ports of the core, is on die 0, the first stages follow it there, and every further die takes the
stages after those of the die before it. Of all divisions in which every die holds its stages and the registers of its crossings
(crossings.py), the one with the fewest wires over the boundaries is taken. All streams that pass a boundary count: those of
the chain, of branches around it, of results on their way back, and of weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.resources import KINDS, LABELS, NOTHING, Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.crossings import chained
from hypersonic.hls.rf.stage import Pipeline
from hypersonic.hls.weight_stream import WEIGHT_BITS

#: the position of the kernel's shell, before all stages
SHELL = -1

#: wires of a stream in addition to its data: tvalid, tready, and tlast where there is one
_HANDSHAKE, _LAST = 2, 1

_BRAM, _URAM = KINDS.index("bram36"), KINDS.index("uram")

#: amounts are sums of fractions
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Link:
    """A stream between two places.

    Attributes:
        first, last: the indices of the stages at its ends, in their order; SHELL for the kernel's shell.
        bits: of its data.
        wires: in all.
    """

    first: int
    last: int
    bits: int
    wires: int


class NoDivisionError(ValueError):
    """No division fits the dies.

    Attributes:
        die, stage: the index of the first stage that has no place, and of the die behind whose limits it is.
        short: what is short there, and how much of it there is.
    """

    def __init__(self, die: int, stage: int, short: str) -> None:
        super().__init__(f"die {die} has no room for stage {stage}: {short}")
        self.die, self.stage, self.short = die, stage, short


def links(pipeline: Pipeline, loading: Collection[str] = (), streaming: Mapping[str, int] | None = None) -> list[Link]:
    """Return the streams of a pipeline; stages behind those of the chain (crossings.py) are in the shell's place.

    Args:
        loading: layers whose stages are loaded at run time, one after another.
        streaming: layer -> bits a clock, for weights that are read for every vector.
    """
    count = chained(pipeline.stages)
    at = {stage.name: k if k < count else SHELL for k, stage in enumerate(pipeline.stages)}
    source = {stream.name: at[stage.name] for stage in pipeline.stages for stream in stage.outputs}
    sink = {stream.name: at[stage.name] for stage in pipeline.stages for stream in stage.inputs}
    sink |= {stream.name: SHELL for stream in pipeline.outputs}
    streams = {stream.name: stream for stream in pipeline.inputs}
    streams |= {stream.name: stream for stage in pipeline.stages for stream in stage.outputs}
    found = []
    for name, stream in streams.items():
        if name in sink:
            first, last = sorted((source.get(name, SHELL), sink[name]))
            found.append(Link(first, last, stream.width + _LAST, stream.width + _LAST + _HANDSHAKE))
    weights = {stage.layer: at[stage.name] for stage in pipeline.stages if stage.module.startswith("rf_mac")}
    loaded = [weights[layer] for layer in loading if layer in weights]
    found += [Link(SHELL, max(loaded), WEIGHT_BITS, WEIGHT_BITS + _HANDSHAKE)] if loaded else []
    return found + [Link(SHELL, weights[layer], bits, bits + _HANDSHAKE) for layer, bits in (streaming or {}).items()]


def joined(pipeline: Pipeline) -> frozenset[int]:
    """Return the cuts, as numbers of stages before them, that would part a join from the FIFOs in front of it (fifos.py)."""
    made = {stage.outputs[0].name: k for k, stage in enumerate(pipeline.stages) if stage.module == "axis_fifo"}
    parted = set[int]()
    for k, stage in enumerate(pipeline.stages):
        if len(stage.inputs) > 1:
            parted.update(*(range(made[stream.name] + 1, k + 1) for stream in stage.inputs if stream.name in made))
    return frozenset(parted)


@dataclass(frozen=True)
class Parts:
    """The stages to divide, and the streams between them.

    Attributes:
        stages: resources of each stage of the chain, with its weights in block RAM or in the card's memory.
        moves: index of a stage whose weights can go to UltraRAM -> the change of resources.
        streams: between stages, and from and to the shell.
        shell: resources of the kernel's shell, on die 0.
        never: numbers of stages that are not before a boundary.
    """

    stages: Sequence[Amounts]
    moves: Mapping[int, Amounts] = field(default_factory=dict)
    streams: Sequence[Link] = ()
    shell: Amounts = NOTHING
    never: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Division:
    """Stages of dies.

    Attributes:
        cuts: for each boundary, the number of stages before it.
        amounts: resources on each die.
        moved: indices of the stages whose weights are in UltraRAM.
        wires: over each boundary.
    """

    cuts: tuple[int, ...]
    amounts: tuple[Amounts, ...]
    moved: frozenset[int]
    wires: tuple[int, ...]


def divide(parts: Parts, dies: Sequence[Amounts], most_wires: int = 0) -> Division:
    """Return the division with the fewest wires over all boundaries.

    Args:
        dies: what each die has.
        most_wires: over one boundary; 0: any number.

    Raises:
        NoDivisionError: If there is none.
    """
    need = _Needs(parts, dies)
    count = len(need.wires)
    allowed = np.array([cut not in parts.never for cut in range(count)])
    if most_wires:
        allowed &= need.wires <= most_wires
    cost = np.full((len(dies), count), np.inf)  # of dies 0 to d with the first j stages
    came = np.zeros((len(dies), count), dtype=np.int64)
    for die in range(len(dies)):
        before = np.where(np.arange(count) == 0, 0.0, np.inf) if die == 0 else cost[die - 1]
        after = np.zeros(count) if die == len(dies) - 1 else np.where(allowed, need.wires, np.inf)
        total = np.where(need.fits(die), before[:, None], np.inf)
        came[die], cost[die] = total.argmin(axis=0), total.min(axis=0) + after
    if np.isinf(cost[-1, -1]):
        raise _misfit(need, cost, most_wires)
    bounds = [count - 1]
    for die in range(len(dies) - 1, -1, -1):
        bounds.insert(0, int(came[die, bounds[0]]))
    return need.division(bounds)


class _Needs:
    """The resources that stages i to j - 1 take of a die, for all i and j at once.

    Of the ways to place the weights of these stages, the one with the least UltraRAM is taken that the die's block RAM allows.
    LUTs and flip-flops are counted as if all weights that can go to UltraRAM did.
    """

    def __init__(self, parts: Parts, dies: Sequence[Amounts]) -> None:
        self._parts, self.dies = parts, [_row(die) for die in dies]
        count = len(parts.stages) + 1
        self.wires = np.zeros(count)
        self._registers = np.zeros((count, len(KINDS)))  # on each side of a boundary behind so many stages
        for link in parts.streams:
            self.wires[link.first + 1 : link.last + 1] += link.wires
            self._registers[link.first + 1 : link.last + 1] += _row(skid_cost(link.bits))
        most = [stage + parts.moves[k] if k in parts.moves else stage for k, stage in enumerate(parts.stages)]
        sums = np.concatenate([np.zeros((1, len(KINDS))), np.cumsum([_row(stage) for stage in most], axis=0)])
        order = np.arange(count)
        self._order = order[:, None] <= order[None]
        self._taken = [sums[None] - sums[:, None] + self._ends(die, order[:, None], order[None]) for die in range(len(dies))]
        for die, ultra in enumerate(self._ultra()):
            self._taken[die][:, :, _URAM] = ultra

    def _ends(self, die: int, first: Any, last: Any) -> Any:
        """Return what a die has in addition to the stages `first` to `last` - 1: registers, and the shell."""
        front = self._registers[first] if die else _row(self._parts.shell)
        return front + self._registers[last] if die < len(self.dies) - 1 else front

    def _blocks(self, die: int) -> int:
        """Return the halves of RAMB36 that a die has for stages."""
        return int(2 * (self.dies[die][_BRAM] - (0 if die else self._parts.shell.bram36)))

    def _ultra(self) -> list[NDArray[np.float64]]:
        """Return, for each die, (first, last): the least UltraRAM of these stages; infinite if its block RAM is too small."""
        count, most = len(self.wires), max(0, *map(self._blocks, range(len(self.dies))))
        least = np.full((count, most + 1), np.inf)  # first stage, halves of RAMB36 -> URAM288
        found = [np.full((count, count), np.inf) for _ in self.dies]
        for last in range(count):
            least[last, 0] = 0.0
            for die, ultra in enumerate(found):
                ultra[: last + 1, last] = least[: last + 1, : max(self._blocks(die) + 1, 0)].min(axis=1, initial=np.inf)
            if last < count - 1:
                least[: last + 1] = self._placed(least[: last + 1], last)
        return found

    def _placed(self, least: NDArray[np.float64], stage: int) -> NDArray[np.float64]:
        """Return `least` (firsts, halves of RAMB36) with one more stage."""
        kept = _with(least, self._parts.stages[stage])
        if stage not in self._parts.moves:
            return kept
        return np.minimum(kept, _with(least, self._parts.stages[stage] + self._parts.moves[stage]))

    def _moved(self, die: int, first: int, last: int) -> set[int]:
        """Return the stages whose weights are in UltraRAM on a die with stages `first` to `last` - 1."""
        start = np.full(self._blocks(die) + 1, np.inf)
        start[0] = 0.0
        steps = [start]
        for stage in range(first, last):
            steps.append(self._placed(steps[-1], stage))
        blocks, moved = int(steps[-1].argmin()), set[int]()
        for stage in range(last - 1, first - 1, -1):
            kept, step = self._parts.stages[stage], steps[stage - first]
            if stage in self._parts.moves and _with(step, kept)[blocks] > steps[stage - first + 1][blocks]:
                moved.add(stage)
                kept += self._parts.moves[stage]
            blocks -= _halves(kept)
        return moved

    def fits(self, die: int) -> NDArray[np.bool_]:
        """Return (first, last): whether these stages fit the die."""
        held: NDArray[np.bool_] = (self._taken[die] <= self.dies[die] + _TOLERANCE).all(axis=2) & self._order
        return held

    def short(self, die: int, first: int, last: int) -> str:
        """Return the kinds of which the die has too little for these stages, with the amounts."""
        return "; ".join(
            f"{LABELS[kind]}{' beside full block RAM' * (kind == 'uram')}: got {got:,.0f}, expected at most {free:,.0f}"
            for kind, got, free in zip(KINDS, self._taken[die][first, last], self.dies[die], strict=True)
            if free + _TOLERANCE < got < np.inf  # infinite UltraRAM: too little block RAM, which is named too
        )

    def division(self, bounds: Sequence[int]) -> Division:
        """Return the division of dies that begin and end with these numbers of stages."""
        amounts, moved = list[Amounts](), set[int]()
        for die, (first, last) in enumerate(pairwise(bounds)):
            moved |= (here := self._moved(die, first, last))
            stages = sum(self._parts.stages[first:last], NOTHING) + sum((self._parts.moves[k] for k in here), NOTHING)
            row = _row(stages) + self._ends(die, first, last)
            amounts.append(Amounts(*(round(float(value), 3) for value in row)))
        cuts = tuple(bounds[1:-1])
        return Division(cuts, tuple(amounts), frozenset(moved), tuple(int(self.wires[cut]) for cut in cuts))


def _halves(stage: Amounts) -> int:
    return ceil(2 * stage.bram36)


def _with(least: NDArray[np.float64], stage: Amounts) -> NDArray[np.float64]:
    """Return the least UltraRAM (..., halves of RAMB36) with the memories of one more stage."""
    more = np.full_like(least, np.inf)
    blocks = _halves(stage)
    if blocks < least.shape[-1]:
        more[..., blocks:] = least[..., : least.shape[-1] - blocks] + stage.uram
    return more


def _row(amounts: Amounts) -> NDArray[np.float64]:
    return np.array([getattr(amounts, kind) for kind in KINDS], dtype=np.float64)


def _misfit(need: _Needs, cost: NDArray[np.float64], most_wires: int) -> NoDivisionError:
    """Return the error about the first die that cannot take the stage after those of the dies before it."""
    reached = [int(np.flatnonzero(np.isfinite(row)).max(initial=-1)) for row in cost[:-1]]  # -1: none, not even the shell
    die = next((die for die, stage in enumerate(reached) if stage <= max([0, *reached[:die]])), len(reached))
    first = reached[die - 1] if die else 0
    held = first + np.flatnonzero(need.fits(die)[first, first:])
    if die < len(reached) and len(held) and 0 < most_wires < (least := need.wires[held].min()):
        return NoDivisionError(die, first, f"wires to the next die: got {least:,.0f}, expected at most {most_wires:,}")
    end = next((j for j in range(first + 1, len(need.wires)) if j not in held), len(need.wires) - 1)
    return NoDivisionError(die, max(end - 1, 0), need.short(die, first, end) or "no place for a boundary")
