# SPDX-License-Identifier: Apache-2.0
"""Master for a kernel's control port in cocotb benches: cocotbext-axi's AXI4-Lite master and XRT's ap_ctrl_chain sequence."""

from __future__ import annotations

import itertools
import random
from typing import Any

import cocotb
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from hypersonic.firmware.kernel import registers
from tests.support.rtl.bus import Bench


class ControlMaster:
    """Reads and writes registers through the ports s_axi_control_*, stepping the bench's clock until each access is over.

    Every access raises TimeoutError if the design has not answered within 1000 clocks.
    """

    def __init__(self, dut: Any, bench: Bench, clk: str = "clk", rst_n: str = "rst_n") -> None:
        bus = AxiLiteBus.from_prefix(dut, "s_axi_control")
        self._master = AxiLiteMaster(bus, getattr(dut, clk), getattr(dut, rst_n), reset_active_level=False)
        self._bench = bench

    def pause(self, probability: float, rng: random.Random) -> None:
        """Pause every channel in each clock with this probability."""
        write, read = self._master.write_if, self._master.read_if
        for channel in (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel):
            channel.set_pause_generator(rng.random() < probability for _ in itertools.count())

    async def _finish(self, transaction: Any) -> Any:
        running = cocotb.start_soon(transaction)
        await self._bench.until(running.done, 1000)
        return running.result()

    async def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register at a byte offset."""
        await self._finish(self._master.write_dword(offset, value))

    async def write_bytes(self, offset: int, data: bytes) -> None:
        """Write bytes at a byte offset; partial words are written with partial strobes."""
        await self._finish(self._master.write(offset, data))

    async def read(self, offset: int) -> int:
        """Read a 32-bit register at a byte offset."""
        return int(await self._finish(self._master.read_dword(offset)))

    async def write_arguments(self, x: int, y: int, rows: int, w: int | None = None) -> None:
        """Write a run's arguments as XRT does, with the reserved words: seven words, or ten for a kernel with an argument w.

        x, y and w are 64-bit byte addresses.
        """
        words = [x & 0xFFFFFFFF, x >> 32, 0, y & 0xFFFFFFFF, y >> 32, 0, rows]
        words += [] if w is None else [0, w & 0xFFFFFFFF, w >> 32]
        for i, word in enumerate(words):
            await self.write(registers.X + 4 * i, word)

    async def start(self, x: int, y: int, rows: int) -> None:
        """Wait until the last start has been accepted, then write the arguments and ap_start."""
        while await self.read(registers.CONTROL) & registers.AP_START:
            pass
        await self.write_arguments(x, y, rows)
        await self.write(registers.CONTROL, registers.AP_START)

    async def finish(self, limit: int = 10_000) -> None:
        """Wait for ap_done of the oldest run and acknowledge it. Raises TimeoutError after `limit` reads."""
        for _ in range(limit):
            if await self.read(registers.CONTROL) & registers.AP_DONE:
                await self.write(registers.CONTROL, registers.AP_CONTINUE)
                return
        raise TimeoutError(f"no ap_done in {limit} reads")
