# SPDX-License-Identifier: Apache-2.0
"""The same cases asked of both servers: what differs, and whether that is listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.reference.differences.every import DIFFERENCES
from tests.reference.pair import Pair, Pairs, Side


class Mismatch(NamedTuple):
    """One case, two answers."""

    case: str
    triton: Any
    hypersonic: Any

    def __str__(self) -> str:
        return f"{self.case}\n  triton:     {self.triton!r}\n  hypersonic: {self.hypersonic!r}"


def mismatches(pair: Pair, cases: Mapping[str, Callable[[Side], Any]]) -> dict[str, Mismatch]:
    """Every case whose two answers are not equal."""
    answers = (Mismatch(name, *(_answer(case, side) for side in pair)) for name, case in cases.items())
    return {mismatch.case: mismatch for mismatch in answers if mismatch.triton != mismatch.hypersonic}


def _answer(case: Callable[[Side], Any], side: Side) -> Any:
    return _placeless(case(side), str(side.repository))


def _placeless(value: Any, place: str) -> Any:
    """Replace the path of the repository, which differs between the two servers."""
    if isinstance(value, str):
        return value.replace(place, "<repository>")
    if isinstance(value, dict):
        return {key: _placeless(v, place) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_placeless(v, place) for v in value)
    return value


def check(pairs: Pairs, cases: Mapping[str, Callable[[Side], Any]]) -> None:
    """Every mismatch is listed, and every listed one is there still; as two servers say that lived to the last case."""
    differing = pairs.ask(lambda pair: mismatches(pair, cases))
    patterns = [pattern for difference in DIFFERENCES for pattern in difference.cases]
    unlisted = [str(mismatch) for name, mismatch in differing.items() if not any(matches(p, name) for p in patterns)]
    assert not unlisted, "\n".join(["these differ, and tests/reference/differences does not say why:", *unlisted])
    here = [p for p in patterns if any(matches(p, name) for name in cases)]
    gone = [p for p in here if not any(matches(p, name) for name in differing)]
    assert not gone, (
        f"these no longer differ: take them out of tests/reference/differences and docs/coming-from-triton.md: {gone}"
    )


def matches(pattern: str, case: str) -> bool:
    """A pattern is the name of a case, or its beginning before a `*`."""
    return case.startswith(pattern[:-1]) if pattern.endswith("*") else case == pattern
