# SPDX-License-Identifier: Apache-2.0
"""The design around the kernel: LiteEth's UDP with Etherbone, a bus, and block RAM as the kernel's AXI memory.

::

    RGMII PHY -> MAC, IP, UDP, Etherbone -> 32-bit bus -+-> CONTROL  the kernel's registers (AXI-Lite)
                                                        +-> MEMORY   block RAM in beats of 512 bits <- the kernel's AXI ports

LiteX and LiteEth write its Verilog, in the environment of requirements.txt: `python soc.py KERNEL OUTPUT [--no-phy]` writes
OUTPUT/top.v and, for the board, OUTPUT/top.lpf with its pins. KERNEL is the name of the kernel's top module.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from liteeth.phy.ecp5rgmii import LiteEthPHYRGMII
from liteeth.phy.model import LiteEthPHYModel
from litex.build.generic_platform import IOStandard, Misc, Pins, Subsignal
from litex.build.lattice import LatticeECP5Platform
from litex.gen import LiteXModule
from litex.soc.cores.clock import ECP5PLL
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import axi, wishbone
from migen import ClockDomain, ClockSignal, Instance, ResetSignal, Signal

HERE = Path(__file__).parent
#: addresses on the bus, the clock, and the board's address in the network, which talk.py knows too
MAP = json.loads((HERE / "map.json").read_text())
BEAT_BITS = 512

#: the pins of the ECPIX-5, as its maker and litex-boards list them
_PINS = [
    ("clk100", 0, Pins("K23"), IOStandard("LVCMOS33")),
    ("rst_n", 0, Pins("N5"), IOStandard("LVCMOS33")),
    ("eth_clocks", 0, Subsignal("tx", Pins("A12")), Subsignal("rx", Pins("E11")), IOStandard("LVCMOS33")),
    (
        "eth", 0,
        Subsignal("rst_n", Pins("C13")), Subsignal("mdio", Pins("A13")), Subsignal("mdc", Pins("C11")),
        # a PHY that comes out of reset with these high offers all speeds
        Subsignal("rx_ctl", Pins("A11")), Subsignal("rx_data", Pins("B11 A10 B10 A9"), Misc("PULLMODE=UP")),
        Subsignal("tx_ctl", Pins("C9")), Subsignal("tx_data", Pins("D8 C8 B8 A8")),
        IOStandard("LVCMOS33"),
    ),
]  # fmt: skip
#: the bytes of a frame below the PHY, a byte a clock: without a PHY they are ports of the design
_FRAMES = (
    "frames", 0, Subsignal("sink_valid", Pins(1)), Subsignal("sink_data", Pins(8)),
    Subsignal("source_valid", Pins(1)), Subsignal("source_data", Pins(8)),
)  # fmt: skip


class Clocks(LiteXModule):  # type: ignore[misc]  # LiteX has no types
    """The clock of everything but the PHY: from the board's 100 MHz, or a port of the design."""

    def __init__(self, platform: Any, phy: bool) -> None:
        self.cd_sys = ClockDomain()
        clk, rst_n = platform.request("clk100"), platform.request("rst_n")
        if not phy:
            self.comb += [self.cd_sys.clk.eq(clk), self.cd_sys.rst.eq(~rst_n)]
            return
        self.pll = ECP5PLL()
        self.comb += self.pll.reset.eq(~rst_n)
        platform.add_period_constraint(clk, 10.0)
        self.pll.register_clkin(clk, 100e6)
        self.pll.create_clkout(self.cd_sys, MAP["clock_hz"])


class Design(SoCMini):  # type: ignore[misc]  # LiteX has no types
    """The whole design; `phy` is False for a simulation, which drives the frames below the PHY."""

    def __init__(self, kernel: str, phy: bool) -> None:
        platform = LatticeECP5Platform("LFE5UM5G-85F-8BG554I", [*_PINS, _FRAMES], toolchain="trellis")
        super().__init__(platform, MAP["clock_hz"])
        self.crg = Clocks(platform, phy)
        self.ethphy = (
            LiteEthPHYRGMII(platform.request("eth_clocks"), platform.request("eth"), rx_delay=0e-9)
            if phy
            else LiteEthPHYModel(platform.request("frames"))
        )
        self.add_etherbone(phy=self.ethphy, data_width=32, ip_address=MAP["address"], udp_port=MAP["port"], buffer_depth=255)
        self.add_kernel(kernel)

    def add_kernel(self, name: str) -> None:
        """Put the kernel and its memory on the bus."""
        control = axi.AXILiteInterface(data_width=32, address_width=32)
        self.bus.add_slave("control", control, SoCRegion(origin=MAP["control"], size=0x1000, cached=False))
        gmem = axi.AXIInterface(data_width=BEAT_BITS, address_width=32, id_width=1)
        beats = [wishbone.Interface(data_width=BEAT_BITS, address_width=32, addressing="word") for _ in range(3)]
        window = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.bus.add_slave("memory", window, SoCRegion(origin=MAP["memory"], size=MAP["memory_bytes"], cached=False))
        self.window = wishbone.Converter(window, beats[0])
        self.bridge = axi.AXI2Wishbone(gmem, beats[1])
        self.arbiter = wishbone.Arbiter(beats[:2], beats[2])
        self.ram = wishbone.SRAM(MAP["memory_bytes"], bus=beats[2], name="memory")
        self.specials += Instance(name, **_ports(control, gmem))


def _ports(control: Any, gmem: Any) -> dict[str, Any]:
    """The kernel's ports (firmware/kernel/files.py, PORTS), named as Migen wants them: i_ and o_ before the name."""
    ports = {"i_ap_clk": ClockSignal(), "i_ap_rst_n": ~ResetSignal(), "o_interrupt": Signal()}
    ports |= _channels("s_axi_control", control, inward=("aw", "w", "ar"), outward=("b", "r"))
    ports |= _channels("m_axi_gmem0", gmem, inward=("r",), outward=("ar",))
    return ports | _channels("m_axi_gmem1", gmem, inward=("b",), outward=("aw", "w"))


_SIGNALS = {
    "aw": "addr id len size burst cache prot", "ar": "addr id len size burst cache prot", "w": "data strb last",
    "b": "id resp", "r": "data id resp last",
}  # fmt: skip
#: what the kernel's AXI-Lite port has of these
_LITE = {"aw": "addr", "ar": "addr", "w": "data strb", "b": "resp", "r": "data resp"}


def _channels(prefix: str, bus: Any, inward: tuple[str, ...], outward: tuple[str, ...]) -> dict[str, Any]:
    """The ports of some channels; `inward` ones carry their data into the kernel."""
    found = dict[str, Any]()
    lite = isinstance(bus, axi.AXILiteInterface)
    for channel in (*inward, *outward):
        ours, theirs = ("i", "o") if channel in inward else ("o", "i")
        ends = getattr(bus, channel)
        found |= {f"{ours}_{prefix}_{channel}valid": ends.valid, f"{theirs}_{prefix}_{channel}ready": ends.ready}
        for signal in (_LITE if lite else _SIGNALS)[channel].split():
            found[f"{ours}_{prefix}_{channel}{signal}"] = getattr(ends, signal)
    return found


def main() -> None:
    """Write the Verilog, and the pins and clocks for the board."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kernel", help="the kernel's top module")
    parser.add_argument("output", type=Path)
    parser.add_argument("--no-phy", dest="phy", action="store_false", help="frames are ports of the design, for a simulation")
    arguments = parser.parse_args()
    design = Design(arguments.kernel, arguments.phy)
    design.platform.build(design, build_dir=str(arguments.output), build_name="top", run=False)


if __name__ == "__main__":
    main()
