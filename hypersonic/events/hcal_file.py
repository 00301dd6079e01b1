# SPDX-License-Identifier: Apache-2.0
"""Files of generated HCAL events, with the columns of HcalNanoAOD's DigiHB table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.columns import Chunk, Column, OutputError, open_sink
from hypersonic.client.columns.opening import SUFFIXES, sink_kind
from hypersonic.client.columns.whole import whole_file
from hypersonic.hls.zoo.facile.events import FIRST_CHARGE, SAMPLE_OF_INTEREST, SLICES, physics_events
from hypersonic.hls.zoo.facile.geometry import CHANNELS, HB_DEPTHS, geometry

COLLECTION, TREE = "DigiHB", "Events"

#: the columns that HcalNanoAOD does not have: the gain (GeV/fC) and the true energy in BX 0 (GeV)
GAIN, ENERGY = f"{COLLECTION}_hypersonic_gain", f"{COLLECTION}_hypersonic_energy"

_BARREL = 1  # subdet of DataFormats/HcalDetId
_EVENTS_PER_CHUNK = 20
_SEEDS = 1_000_000  # the generator's seeds of one file, a seed per chunk
#: one event in _EMPTY has no channels; the others have at least the share _LEAST of the channels
_EMPTY, _LEAST = 10, 0.05


def write_events(
    path: Path, *, events: int, seed: int, kind: str = "", progress: Callable[[int], None] = lambda _n: None
) -> int:
    """Write a file of generated events; return its number of rows.

    Raises OutputError.

    Args:
        kind: a key of SUFFIXES; "": by the suffix, and a TTree for .root.
        progress: called with the events written so far.
    """
    by_suffix = sink_kind(path, "")
    if kind and SUFFIXES[kind] != SUFFIXES[by_suffix]:
        raise OutputError(f"the output {path} is to be of the kind {kind}, whose suffix is {SUFFIXES[kind]}")
    metadata = {"generator": "hypersonic events facile", "events": events, "seed": seed}
    rows = 0
    with whole_file(path) as part:
        sink = open_sink(kind or by_suffix, part, metadata, TREE, COLLECTION)
        try:
            for chunk in generate_events(events, seed):
                sink.write(chunk)
                rows += len(chunk.columns[GAIN].values)
                progress(chunk.first + chunk.events)
            sink.close()
        except BaseException:
            sink.abort()
            raise
    return rows


def generate_events(events: int, seed: int) -> Iterator[Chunk]:
    """Yield events as a trigger selects them, with a varying part of the barrel's channels; one event in ten has none.

    CMS reads all channels in all events; here their number varies, to show what happens to events of different lengths.
    """
    place = geometry()
    depths = np.array([HB_DEPTHS.get(abs(ieta), (1, 0)) for ieta in place.ieta])
    barrel = np.flatnonzero((depths[:, 0] <= place.depth) & (place.depth <= depths[:, 1]))
    for first in range(0, events, _EVENTS_PER_CHUNK):
        number = min(_EVENTS_PER_CHUNK, events - first)
        sample = physics_events(number, seed * _SEEDS + first)
        chosen = [_channels(barrel, seed, event) for event in range(first, first + number)]
        counts = np.array([len(each) for each in chosen], np.int64)
        at = np.concatenate([CHANNELS * event + each for event, each in enumerate(chosen)])
        channel, rows = at % CHANNELS, sample.rows[at]
        jagged = {
            "ieta": place.ieta[channel].astype(np.int32),
            "iphi": place.iphi[channel].astype(np.int32),
            "depth": place.depth[channel].astype(np.int32),
            "subdet": np.full(len(at), _BARREL, np.int32),
            "soi": np.full(len(at), SAMPLE_OF_INTEREST, np.int32),
            "valid": np.ones(len(at), np.bool_),
            **{f"fc{i}": np.ascontiguousarray(rows[:, FIRST_CHARGE + i]) for i in range(SLICES)},
        }
        columns = {f"{COLLECTION}_{name}": Column(values, counts) for name, values in jagged.items()}
        columns[GAIN] = Column(np.ascontiguousarray(rows[:, FIRST_CHARGE - 1]), counts)
        columns[ENERGY] = Column(sample.energy[at], counts)
        flat = {"run": np.uint32(1), "luminosityBlock": np.uint32(1)}
        head = {name: Column(np.full(number, value)) for name, value in flat.items()}
        head["event"] = Column(np.arange(first, first + number, dtype=np.uint64) + np.uint64(1))
        yield Chunk(first, number, {**head, **columns})


def _channels(barrel: NDArray[np.intp], seed: int, event: int) -> NDArray[np.intp]:
    rng = np.random.default_rng([2, seed, event])
    if event % _EMPTY == 1:
        return barrel[:0]
    return np.sort(rng.choice(barrel, int(len(barrel) * rng.uniform(_LEAST, 1.0)), replace=False))
