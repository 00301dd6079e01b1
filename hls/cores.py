# SPDX-License-Identifier: Apache-2.0
"""Writes the RTL core of one kind from hls4ml's ModelGraph. Where the da core refuses a layer that the rf core can compute,
the error says so.

The compiler of a core is imported when a core of its kind is written, so that the key of a cached conversion can leave out the
other (hls/build.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.row import Row

#: what to do about a layer that the rf core computes and the da core does not
BY_RF = "build it with --core rf (hls4ml's Strategy: Resource)"

_Where = tuple[str, Row, Row, Path]


def write_core_of(
    graph: Any, kind: CoreKind, name: str, inputs: Row, outputs: Row, directory: Path, *, card: dict[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Core, dict[str, Any]]:  # fmt: skip
    """Write the core into `directory`; return the core and its report.

    Raises UnsupportedLayerError.

    Args:
        kind: DA or RF.
        card: the card to fill with an rf core, as rf/fit/exchange.py has it; None keeps the graph's reuse factors. The report
            has the core's figures as "core", and with a card the search for its reuse factors as "fit".
        progress: called with one line per step.
    """
    where = name, inputs, outputs, directory
    if kind is CoreKind.DA:
        return _write_da(graph, where, progress)
    return _write_rf(graph, where, card, progress)


def _write_da(graph: Any, where: _Where, progress: Callable[[str], None]) -> tuple[Core, dict[str, Any]]:
    from hypersonic.hls.da.lower import read_da_network
    from hypersonic.hls.da.write import write_core

    progress("factoring the weights into adders")
    with naming_rf(graph):
        core, figures = write_core(read_da_network(graph), *where, progress)
    return core, {"core": figures}


def _write_rf(
    graph: Any, where: _Where, card: dict[str, Any] | None, progress: Callable[[str], None]
) -> tuple[Core, dict[str, Any]]:
    from hypersonic.hls.rf.fit.exchange import card_from_json, fit_to_json
    from hypersonic.hls.rf.fit.search import fit, with_design
    from hypersonic.hls.rf.read import read_rf_network
    from hypersonic.hls.rf.write import write_rf_core

    network, report, cuts = read_rf_network(graph), dict[str, Any](), tuple[str, ...]()
    if card:
        _, inputs, outputs, _ = where
        progress("searching the reuse factors that fill the card")
        room = replace(card_from_json(card), x_bytes=inputs.row_bytes, y_bytes=outputs.row_bytes)
        best = fit(network, room)
        network, report["fit"] = with_design(network, best.chosen.design), fit_to_json(best)
        cuts = best.chosen.design.dies.cuts if best.chosen.design.dies else ()
    progress("planning the layers' multipliers and memories")
    core, report["core"] = write_rf_core(network, *where, cuts=cuts)
    return core, report


@contextmanager
def naming_rf(graph: Any) -> Iterator[None]:
    """Add BY_RF to an UnsupportedLayerError raised inside the context, if the rf core can compute the whole graph."""
    try:
        yield
    except UnsupportedLayerError as error:
        if not _rf_takes(graph):
            raise
        raise UnsupportedLayerError(f"{error}; or {BY_RF}") from error


def _rf_takes(graph: Any) -> bool:
    """Return whether the rf core can compute every layer of the graph."""
    from hypersonic.hls.rf.read import read_rf_network

    try:
        read_rf_network(graph)
    except Exception:  # noqa: BLE001 - the user sees the da core's refusal either way; this only asks for an alternative
        return False
    return True
