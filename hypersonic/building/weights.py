# SPDX-License-Identifier: Apache-2.0
"""The line that a build prints about weights that the kernel reads at run time, and about models that can share its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypersonic.hls.core import Core


def describe_weights(report: Mapping[str, Any], core: Core | None) -> str:
    """Return a line about the weights of a core that reads them at run time; empty for another core.

    Args:
        report: of the project.
    """
    figures = report.get("core")
    if core is None or not core.takes_weights or not figures:
        return ""
    most = "at most " if any(stream.repeats for stream in core.weight_streams) else ""
    fixed = ", ".join(map(repr, figures["fixed_layers"]))
    equal = f"; constants of {fixed} are part of the kernel, so models that share it must have equal ones" if fixed else ""
    return (
        f"weights: {core.weight_beats * 64:,} bytes in weights.bin; a run after one with other weights takes {most}"
        f"{figures['swap_clocks']:,} clocks longer (predicted){equal}"
    )
