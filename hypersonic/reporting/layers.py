# SPDX-License-Identifier: Apache-2.0
"""Explains, for a user's rows, in which layer a fixed-point network begins to differ from the trained one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from numpy import float32
from numpy.typing import NDArray

from hypersonic.hls.csim.explain import describe_layers
from hypersonic.hls.csim.trace import NoTraceError, trace_layers
from hypersonic.hls.project import HlsProject


def explain_difference(model_file: Path, project: HlsProject, rows: Sequence[NDArray[float32]]) -> list[str]:
    """Return lines about the layers, for a model that is far from the trained one; one line if the layers cannot be compared.

    rows: (rows, size) for each input, in the wire's units.
    """
    try:
        return describe_layers(trace_layers(model_file, project, rows))
    except NoTraceError as error:
        return [f"the layers cannot be compared: {error}"]
