# SPDX-License-Identifier: Apache-2.0
"""Registers at the AXI masters of a kernel that is on another die than its memory: an axis_skid on each of the five channels.

::

    kernel_shell --AR--> axis_skid --> m_axi_gmem0        kernel_shell --AW, W--> axis_skid --> m_axi_gmem1
                 <--R--- axis_skid <--                                 <---B----- axis_skid <--

Every signal is registered in both directions, so the boundary lies between two registers wherever v++ has one on its side. A
channel moves a beat a clock, and takes one clock longer. The channels stay independent of each other: a W beat does not wait
for its AW.

Sources: UG949 2023.2 ("SLR Utilization Example"): modules that are pipelined at their interfaces let the placer find crossings
from flip-flop to flip-flop; UG1393 2022.2 ("Assigning Kernels to SLRs"): v++ pipelines the connection to a DDR interface on
another SLR. AXI4 (IHI 0022, A3): each channel is a handshake with a payload, and W may come before its AW.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypersonic.firmware.kernel.files import PORTS
from hypersonic.firmware.verilog import instance, vector
from hypersonic.hls.resources import NOTHING
from hypersonic.hls.rf.cost import skid_cost

#: the wires between the shell and the registers are named as the kernel's ports, after this
_INNER = "shell_"


@dataclass(frozen=True)
class Channel:
    """An AXI channel of the kernel's masters.

    Attributes:
        name: the prefix of its ports, such as m_axi_gmem0_ar.
        leaves: whether the kernel is the source of its beats.
        payload: the ports besides valid and ready, with their bits.
    """

    name: str
    leaves: bool
    payload: tuple[tuple[str, int], ...]

    @property
    def width(self) -> int:
        """Bits of its payload."""
        return sum(abs(bits) for _, bits in self.payload)

    @property
    def register(self) -> str:
        """The instance name of its axis_skid."""
        return f"u_axis_skid_{self.name.removeprefix('m_axi_')}"


def _channel(name: str) -> Channel:
    ports = {port: (direction, bits) for direction, port, bits in PORTS if port.startswith(name)}
    direction, _ = ports.pop(f"{name}valid")
    del ports[f"{name}ready"]
    return Channel(name, direction == "output", tuple((port, bits) for port, (_, bits) in ports.items()))


CHANNELS = tuple(
    map(_channel, ("m_axi_gmem0_ar", "m_axi_gmem0_r", "m_axi_gmem1_aw", "m_axi_gmem1_w", "m_axi_gmem1_b"))
)  # fmt: skip

#: what the registers of a kernel take
SLICES = sum((skid_cost(channel.width) for channel in CHANNELS), NOTHING)


def with_port_registers(top: str) -> str:
    """The text of a kernel's top module (write.py) with the registers between kernel_shell and the AXI masters."""
    inside = re.sub(r"\.(m_axi_gmem[01]_\w+)\(\1\)", rf".\1({_INNER}\1)", top)
    declared = inside.replace("\n  kernel_shell", f"\n{_wires()}\n\n  kernel_shell", 1)
    registers = "\n\n".join(map(_register, CHANNELS))
    return declared.replace("\n\nendmodule\n", f"\n\n{registers}\n\nendmodule\n", 1)


def _wires() -> str:
    wires = "\n".join(f"  wire {vector(bits)}{_INNER}{port};" for _, port, bits in PORTS if port.startswith("m_axi_"))
    return f"  // The plan has a unit on another die than its memory: each AXI channel has registers here.\n{wires}"


def _register(channel: Channel) -> str:
    source, sink = (_INNER, "") if channel.leaves else ("", _INNER)
    pairs = [("clk", "ap_clk"), ("rst_n", "rst_n"), *_side("s_axis", source, channel), *_side("m_axis", sink, channel)]
    return instance("axis_skid", channel.register, {"WIDTH": str(channel.width)}, pairs)


def _side(port: str, prefix: str, channel: Channel) -> list[tuple[str, str]]:
    payload = ", ".join(f"{prefix}{name}" for name, _ in channel.payload)
    return [
        (f"{port}_tvalid", f"{prefix}{channel.name}valid"),
        (f"{port}_tready", f"{prefix}{channel.name}ready"),
        (f"{port}_tdata", f"{{{payload}}}"),
    ]
