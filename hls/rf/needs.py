# SPDX-License-Identifier: Apache-2.0
"""Arrays that give, for each output beat, the index of the input beat it waits for: read-only, cached, shared by stages."""

from __future__ import annotations

from functools import cache, lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Beats = NDArray[np.int64]

#: number of cached arrays; the one of a large image has a few megabytes
KEPT = 96


def shared(beats: Beats) -> Beats:
    """Make the array read-only and return it."""
    beats.setflags(write=False)
    return beats


@lru_cache(KEPT)
def each(beats: int) -> Beats:
    """Return the needs of a stage whose output beat j waits for input beat j."""
    return shared(np.arange(beats, dtype=np.int64))


@lru_cache(KEPT)
def parts(beats: int, count: int) -> Beats:
    """Return the needs of `beats` output beats, `count` of which come from one input beat."""
    return shared(np.repeat(np.arange(-(-beats // count), dtype=np.int64), count)[:beats])


@lru_cache(KEPT)
def groups(beats: int, count: int) -> Beats:
    """Return the needs of `beats` output beats, each of which takes `count` input beats."""
    return shared(np.arange(count - 1, (beats + 1) * count - 1, count, dtype=np.int64))


@lru_cache(KEPT)
def vectors(count: int, beats: int, results: int) -> Beats:
    """Return the needs of `count` vectors: `results` output beats wait for all `beats` input beats of their vector."""
    return shared(np.repeat(groups(count, beats), results))


def in_turn(one: Beats, images: int, beats: int) -> Beats:
    """Return the needs of a row of several images of `beats` input beats.

    Args:
        one: those of an image.
    """
    return shared((np.arange(images, dtype=np.int64)[:, None] * beats + one[None]).reshape(-1))


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Return the divisors of n in ascending order."""
    low = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*low, *(n // d for d in low)}))
