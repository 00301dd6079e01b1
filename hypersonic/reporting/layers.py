# SPDX-License-Identifier: Apache-2.0
"""Says where a fixed-point network differs from the trained one, layer by layer, and which numbers its types do not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy import float32
from numpy.typing import NDArray

from hypersonic.hls.csim.explain import describe_layers
from hypersonic.hls.csim.overflow.figures import aligned
from hypersonic.hls.csim.trace import NoTraceError, trace_layers
from hypersonic.hls.project import HlsProject


def explain_difference(model_file: Path, project: HlsProject, rows: Sequence[NDArray[float32]]) -> list[str]:
    """Return lines about the layers, for a model that is far from the trained one; one line if the layers cannot be compared.

    Args:
        rows: (rows, size) for each input, in the wire's units.
    """
    try:
        return describe_layers(trace_layers(model_file, project, rows))
    except NoTraceError as error:
        return [f"the layers cannot be compared: {error}"]


def _number(value: float | None, sign: str) -> str:
    return f"{sign}infinity" if value is None else f"{value:.4g}"


_HEAD = ("layer", "variable", "type", "rows that wrap", "rows that saturate", "numbers", "type to write")


def overflow_lines(report: Mapping[str, Any]) -> list[str]:
    """Return a table of the variables whose numbers wrapped or saturated on the gate's rows; one line if there are none.

    No lines if nothing was counted (docs/overflows.md).

    Args:
        report: of a project.
    """
    counted, gate = report.get("overflows"), report.get("gate") or {}
    if counted is None or not gate or gate.get("source") == "random":
        return []
    if not counted:
        return ["overflows: no number wraps or saturates"]
    cells = [
        (
            each["layer"], each["variable"], each["type"], f"{each['wrong_rows']:,} of {each['rows']:,}",
            f"{each['saturated_rows']:,}", f"{_number(each['least'], '-')} to {_number(each['greatest'], '')}",
            each["needed"] if each["needed"] != each["type"] else "",
        )
        for each in counted
    ]  # fmt: skip
    return ["overflows:", *(f"  {line}" for line in aligned([_HEAD, *cells], left=len(_HEAD)))]
