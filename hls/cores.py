# SPDX-License-Identifier: Apache-2.0
"""hls4ml's ModelGraph -> the RTL core of a kind, on disk. What the da core refuses names the rf core where that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.da.read import read_network
from hypersonic.hls.da.write import write_core
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.rf.fit.exchange import card_from_json, fit_to_json
from hypersonic.hls.rf.fit.search import fit, with_design
from hypersonic.hls.rf.read import read_rf_network
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row

#: what to do about a layer that the rf core computes and the da core does not
BY_RF = "build it with --core rf (hls4ml's Strategy: Resource)"


def write_core_of(
    graph: Any, kind: CoreKind, name: str, inputs: Row, outputs: Row, directory: Path, *, card: dict[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Core, dict[str, Any]]:  # fmt: skip
    """Write the core into `directory`; return it and a report: its figures as "core", and as "fit" how its reuse factors were
    found where a card was to be filled.

    kind: DA or RF. card: rf/fit/exchange.py's, of an rf core. Raises UnsupportedLayerError.
    """
    where = name, inputs, outputs, directory
    if kind is CoreKind.DA:
        progress("factoring the weights into adders")
        with naming_rf(graph):
            core, figures = write_core(read_network(graph), *where, progress)
        return core, {"core": figures}
    network, report = read_rf_network(graph), {}
    if card:
        progress("searching the reuse factors that fill the card")
        room = replace(card_from_json(card), x_bytes=inputs.row_bytes, y_bytes=outputs.row_bytes)
        best = fit(network, room)
        network, report["fit"] = with_design(network, best.chosen.design), fit_to_json(best)
    progress("planning the layers' multipliers and memories")
    core, report["core"] = write_rf_core(network, *where)
    return core, report


@contextmanager
def naming_rf(graph: Any) -> Iterator[None]:
    """Whatever the da core refuses of a ModelGraph inside. Raises UnsupportedLayerError, with BY_RF if the rf core takes it."""
    try:
        yield
    except UnsupportedLayerError as error:
        if not _rf_takes(graph):
            raise
        raise UnsupportedLayerError(f"{error}; or {BY_RF}") from error


def _rf_takes(graph: Any) -> bool:
    """Whether the rf core reads every layer of it."""
    try:
        read_rf_network(graph)
    except Exception:  # noqa: BLE001 - the refusal is told either way; this only asks what else there is
        return False
    return True
