# SPDX-License-Identifier: Apache-2.0
"""Refusals of the da core, which name `--core rf` where the rf core takes the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.rf.read import read_rf_network

#: what to do about a layer that the rf core computes and the da core does not
BY_RF = "build it with --core rf (hls4ml's Strategy: Resource)"


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
