# SPDX-License-Identifier: Apache-2.0
"""The identifiers in a core's top: what stands in every one, and what each stream and each stage brings."""

from __future__ import annotations

from hypersonic.hls.names import Namespace

_WIRES = ("tvalid", "tready", "tdata", "tlast")

#: made of a stream's name (rf/top/ports.py, rf/write.py)
_STREAM = (*(f"{{}}_{wire}" for wire in (*_WIRES, "turn")), "unused_{}")

#: made of a stage's name (rf/write.py, rf/top/weights.py); "{}" alone begins the names of its memory files
_STAGE = (
    "{}", "u_{}", "u_{}_weights", "u_{}_beats", "unused_{}_beat",
    *(f"{{}}_{feed}_{wire}" for feed in ("w", "beat") for wire in _WIRES),
)  # fmt: skip

_FIXED = (
    "clk", "rst_n", "row_ends", "beat_q", "unused", "unused_load", "u_packets", "u_entrance",
    *(f"{stream}_{wire}" for stream in ("s_axis_x", "m_axis_y", "s_axis_w", "row", "packet_s", "packet_m") for wire in _WIRES),
)  # fmt: skip


class Scope:
    """Names for the streams and the stages of one core's top. layers: at most so many stages load weights."""

    def __init__(self, layers: int) -> None:
        loads = (f"load_{k}_{wire}" for k in range(layers + 1) for wire in _WIRES)
        self._names = Namespace((*_FIXED, *loads))

    def stream(self, name: str) -> str:
        """An identifier from which all of a stream's wires are named."""
        return self._names.identifier(name, _STREAM)

    def stage(self, name: str) -> str:
        """An identifier from which a stage's instance, wires and files are named."""
        return self._names.identifier(name, _STAGE)
