# SPDX-License-Identifier: Apache-2.0
"""The identifiers in a core's top module: the fixed ones, and those that each stream and each stage adds."""

from __future__ import annotations

from hypersonic.hls.names import Namespace
from hypersonic.hls.rf.top.crossing import MOST_DIES, REGISTERS

_WIRES = ("tvalid", "tready", "tdata", "tlast")

#: identifiers derived from a stream's name (rf/top/ports.py, rf/write.py)
_STREAM = (*(f"{{}}_{wire}" for wire in (*_WIRES, "turn")), "unused_{}")

#: the ends and the registers of a stream of weights that passes from die to die
_FAR = ("far", *(f"far_{k}" for k in range(REGISTERS * MOST_DIES)))

#: identifiers derived from a stage's name (rf/write.py, rf/top/weights.py); "{}" itself is the prefix of its memory files
_STAGE = (
    "{}", "u_{}", "u_{}_weights", "u_{}_beats", "unused_{}_beat",
    *(f"{{}}_{feed}_{wire}" for feed in ("w", "beat", "near", *_FAR) for wire in _WIRES),
    *(f"u_{{}}_{far}" for far in _FAR),
)  # fmt: skip

_FIXED = (
    "clk", "rst_n", "row_ends", "beat_q", "unused", "unused_load", "u_packets", "u_entrance",
    *(f"{stream}_{wire}" for stream in ("s_axis_x", "m_axis_y", "s_axis_w", "row", "packet_s", "packet_m") for wire in _WIRES),
)  # fmt: skip


class Scope:
    """A namespace for the streams and stages of one core's top module.

    Args:
        layers: the most stages that can load weights.
    """

    def __init__(self, layers: int) -> None:
        loads = (f"load_{k}_{wire}" for k in range(layers + 1) for wire in _WIRES)
        far = (f"load_{k}_{far}" for k in range(layers + 1) for far in _FAR)
        self._names = Namespace((*_FIXED, *loads, *(name for one in far for name in (f"u_{one}", *_wires(one)))))

    def stream(self, name: str) -> str:
        """Return an identifier for a stream that is unique, also in the names of the stream's wires."""
        return self._names.identifier(name, _STREAM)

    def stage(self, name: str) -> str:
        """Return an identifier for a stage that is unique, also in the names of its instance, wires and files."""
        return self._names.identifier(name, _STAGE)


def _wires(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_{wire}" for wire in _WIRES)
