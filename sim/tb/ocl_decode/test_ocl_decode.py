# SPDX-License-Identifier: Apache-2.0
"""ocl_decode in front of two slaves, driven like the shell's OCL, with pauses on every channel."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.firmware.f2 import registers as f2
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench
from tests.support.rtl.cocotb_run import run_bench
from tests.support.rtl.control_bus import ControlMaster

#: words of a slave, which stores what is written
_WORDS = (registers.X, registers.X + 4, registers.Y, registers.Y + 4, registers.ROWS)


async def _start(dut: Any, pause: float = 0.0, seed: int = 1) -> tuple[Bench, ControlMaster, random.Random]:
    rng = random.Random(seed)
    bench = Bench(dut, [])
    control = ControlMaster(dut, bench)
    control.pause(pause, rng)
    await bench.reset()
    return bench, control, rng


@cocotb.test()
async def each_unit_keeps_its_own_registers(dut: Any) -> None:
    for seed, pause in enumerate((0.0, 0.5)):
        _, control, rng = await _start(dut, pause, seed)
        kept = {unit * f2.UNIT_STRIDE + word: 0 for unit in range(2) for word in _WORDS}
        for offset in kept:  # the slaves keep their words during a reset
            await control.write(offset, 0)
        for _ in range(150):
            offset = rng.choice(sorted(kept))
            if rng.random() < 0.5:
                kept[offset] = rng.getrandbits(32)
                await control.write(offset, kept[offset])
            else:
                assert await control.read(offset) == kept[offset]


@cocotb.test()
async def the_identity_block_tells_what_is_on_the_card(dut: Any) -> None:
    _, control, _ = await _start(dut, 0.3)
    words = [await control.read(f2.IDENTITY + offset) for offset in range(0, 0x20, 4)]
    assert words == [f2.MAGIC_VALUE, f2.MAP_VERSION, 2, 0, 0x00112233, 0x44556677, 0x8899AABB, 0xCCDDEEFF]
    assert words[4:] == list(f2.uuid_words("00112233445566778899aabbccddeeff"))


@cocotb.test()
async def the_report_has_the_address_that_was_written_and_is_off_after_a_reset(dut: Any) -> None:
    bench, control, rng = await _start(dut, 0.3)
    for _ in range(20):
        low, high = rng.getrandbits(32), rng.getrandbits(32)
        await control.write(f2.IDENTITY + f2.REPORT + 4, high)
        await control.write(f2.IDENTITY + f2.REPORT, low)
        assert int(dut.report_address.value) == (high << 32 | low) & ~63
        assert int(dut.report_enable.value) == low & f2.REPORT_ENABLE
    await control.write(f2.IDENTITY + f2.REPORT, f2.REPORT_ENABLE)
    await bench.reset(1)
    assert int(dut.report_enable.value) == 0


@cocotb.test()
async def every_other_address_is_answered_reads_0_and_takes_nothing(dut: Any) -> None:
    _, control, rng = await _start(dut, 0.2)
    beside = [2 * f2.UNIT_STRIDE, f2.UNIT_STRIDE + 0x1000 + registers.X, 0x8000, f2.IDENTITY - 4, f2.IDENTITY + 0x1000]
    for offset in [*beside, *(rng.randrange(0x3_0000, f2.IDENTITY, 4) for _ in range(20))]:
        await control.write(offset, 0xFFFFFFFF)
        assert await control.read(offset) == 0
    for unit in range(2):
        for word in _WORDS:
            await control.write(unit * f2.UNIT_STRIDE + word, 100 * unit + word)
    for offset in beside:
        await control.write(offset, 0xFFFFFFFF)
    await control.write(f2.IDENTITY, 0)
    assert await control.read(f2.IDENTITY) == f2.MAGIC_VALUE
    for unit in range(2):
        kept = [await control.read(unit * f2.UNIT_STRIDE + word) for word in _WORDS]
        assert kept == [100 * unit + word for word in _WORDS]


@cocotb.test()
async def reset_in_mid_access_leaves_nothing_behind(dut: Any) -> None:
    bench, control, _ = await _start(dut)
    await control.write(f2.UNIT_STRIDE + registers.X, 7)
    for clocks in range(1, 8):
        dut.s_axi_control_awvalid.value = 1
        dut.s_axi_control_awaddr.value = f2.UNIT_STRIDE + registers.ROWS
        dut.s_axi_control_wvalid.value = 1
        dut.s_axi_control_wdata.value = 5
        dut.s_axi_control_arvalid.value = 1
        dut.s_axi_control_araddr.value = registers.VERSION
        await bench.step(clocks)
        for name in ("awvalid", "wvalid", "arvalid"):
            getattr(dut, f"s_axi_control_{name}").value = 0
        await bench.reset(2)
        await control.write(registers.ROWS, clocks)
        assert await control.read(registers.ROWS) == clocks
        assert await control.read(f2.UNIT_STRIDE + registers.X) == 7


def test_ocl_decode(tmp_path: Path) -> None:
    sources = [*rtl_sources("ocl_decode"), Path(__file__).with_name("ocl_decode_bench.sv")]
    run_bench(tmp_path, "ocl_decode_bench", sources, __name__)
