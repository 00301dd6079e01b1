# SPDX-License-Identifier: Apache-2.0
"""Changes a description until a build accepts it, guided by the verdict that the build would give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hypersonic.hls.closeness.difference import percent
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.errors import ConversionError, Edit
from hypersonic.hls.tune.measures import bits_of, groups_of, narrowed
from hypersonic.hls.tune.verdict import Verdict

Described = dict[str, Any]

#: returns the verdict on a description for a core ("": the description's own); raises ConversionError if it does not convert
Judge = Callable[[Described, str], Verdict]

#: the fraction bits that are added to types that lose too much, and the most bits of a type
_MORE_BITS, _MOST_BITS = 4, 40

#: wider types are accepted if they reduce the loss to less than this share of it
_LESS = 7 / 8

#: the most changes that are tried one after the other: repairs of what does not convert, and wider types
_MOST_REPAIRS, _MOST_ROUNDS = 6, 8


@dataclass(frozen=True)
class Settled:
    """A description that converts.

    Attributes:
        core: "csim" if no RTL core computes it, with the reason in no_core; "" otherwise.
    """

    described: Described
    verdict: Verdict
    core: str = ""
    no_core: str = ""

    def is_better(self, other: Settled) -> bool:
        """Return whether this one is better: a build refuses only the other, or its loss is lower by more than an eighth."""
        own, others = self.verdict, other.verdict
        if bool(own.refused) != bool(others.refused):
            return not own.refused
        return own.loss < _LESS * others.loss


def settle(described: Described, judge: Judge, limit: float, progress: Callable[[str], None] = lambda _: None) -> Settled:
    """Return a description that converts, with types whose loss is within the limit, or as close to it as was found.

    Args:
        limit: of Verdict.loss.
        progress: called with a sentence for each change.

    Raises:
        ConversionError: With all that was found, for a model that no choice of IOType, Strategy and core converts.
    """
    best = _converting(described, judge, progress)
    for _ in range(_MOST_ROUNDS):
        better = _better(best, judge, limit, progress)
        if better is None:
            break
        best = better
    return best


def _better(settled: Settled, judge: Judge, limit: float, progress: Callable[[str], None]) -> Settled | None:
    """Return the description with better types; None if it is good already, or if nothing that is tried makes it better."""
    verdict = settled.verdict
    if not verdict.refused and verdict.loss <= limit:
        return None
    advised = applied(settled.described, verdict.edits)
    layers = [verdict.binding, ""] if verdict.binding else [""]
    wider = (_widened(settled.described, layer) for layer in layers)
    for changed in filter(None, [advised, *wider, applied(settled.described, verdict.table)]):
        progress(_said(settled.described, changed, verdict))
        with suppress(ConversionError):
            again = _repaired(changed, judge, settled.core, progress)
            if again.is_better(settled) or (changed is advised and again.verdict.edits != verdict.edits):
                return again
    return None


def applied(described: Described, edits: Sequence[Edit]) -> Described | None:
    """Return the description with the edits; None if they change nothing. An output's result type is changed at the output."""
    changed = copy.deepcopy(described)
    for edit in edits:
        _write(changed, _place(described, edit.place), edit.value)
    return changed if changed != described else None


def changes(before: Mapping[str, Any], after: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[Edit]:
    """Yield the edits that turn one description into another one."""
    for key in before.keys() - after.keys():
        yield Edit((*place, key), None)
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping):
            yield from changes(old if isinstance(old, Mapping) else {}, value, (*place, key))
        elif value != old:
            yield Edit((*place, key), value)


def _converting(described: Described, judge: Judge, progress: Callable[[str], None]) -> Settled:
    """Return the first choice of IOType and Strategy that converts; if none does, one that hls4ml's C++ alone computes."""
    refusals = []
    for core, choice in [*(("", choice) for choice in _choices(described)), (CoreKind.CSIM.value, described)]:
        try:
            found = _repaired(choice, judge, core, progress)
        except ConversionError as error:
            refusals.append(error)
            continue
        return replace(found, no_core=str(refusals[0]) if core else "")
    raise refusals[-1] if len(str(refusals[-1])) > len(str(refusals[0])) else refusals[0]


def _choices(described: Described) -> Iterator[Described]:
    """Yield the description, and variants with other values of IOType and Strategy."""
    seen: list[Described] = []
    for io_type in (described["hls4ml"].get("IOType"), None):
        for strategy in (described["hls4ml"]["Model"]["Strategy"], "Resource"):
            choice = copy.deepcopy(described)
            _write(choice, ("hls4ml", "IOType"), io_type)
            choice["hls4ml"]["Model"]["Strategy"] = strategy
            if choice not in seen:
                seen.append(choice)
                yield choice


def _repaired(described: Described, judge: Judge, core: str, progress: Callable[[str], None]) -> Settled:
    """Return the description with the changes that the conversion's errors suggest."""
    for _ in range(_MOST_REPAIRS):
        try:
            return Settled(described, judge(described, core), core)
        except ConversionError as error:
            changed = applied(described, error.edits)
            if changed is None:
                raise
            progress(f"changed, because {error}")
            described = changed
    return Settled(described, judge(described, core), core)


def _widened(described: Described, layer: str) -> Described | None:
    """Return it with more fraction bits in a layer's types, or in all types for ""; None if there is nothing to widen."""
    found = groups_of(described)
    groups = [group for group in found if layer in group.places[0]] or found
    bits = bits_of(described, groups)
    more = {name: max(0, min(_MORE_BITS, _MOST_BITS - width)) for name, width in bits.items()}
    changed = narrowed(described, groups, {name: -count for name, count in more.items()})
    return changed if changed != described else None


def _said(before: Described, after: Described, verdict: Verdict) -> str:
    types = ", ".join(f"{'.'.join(edit.place)}: {edit.value}" for edit in changes(before, after))
    far = f"the rms difference is {percent(verdict.loss)} of the answers' spread"
    return f"wider types, because {far if verdict.is_far or not verdict.refused else verdict.refused}: {types}"


def _place(described: Described, place: tuple[str, ...]) -> tuple[str, ...]:
    """Return the place of a type in this description: the types of inputs and outputs are under their names."""
    if place[0] == "input" and len(place) > 1 and place[1] != "precision":
        return ("inputs", place[1], "precision") if "inputs" in described else ("input", "precision")
    if place[-2:] != ("Precision", "result") or "result" in (_at(described, place[:-1]) or {}):
        return place
    for key in ("output", "outputs"):
        sides = {"": described.get(key)} if key == "output" else described.get(key, {})
        for name, side in sides.items():
            if side and "precision" in side and place[-3] in (name, side.get("name")):
                return (key, name, "precision") if name else (key, "precision")
    return place


def _at(described: Mapping[str, Any], place: Sequence[str]) -> Any:
    inner: Any = described
    for key in place:
        inner = (inner or {}).get(key)
    return inner


def _write(described: Described, place: tuple[str, ...], value: object) -> None:
    """Write a value at a place, or remove what is there if the value is None."""
    inner = described
    for key in place[:-1]:
        inner = inner.setdefault(key, {}) if value is not None else inner.get(key, {})
    if value is None:
        inner.pop(place[-1], None)
    else:
        inner[place[-1]] = value
