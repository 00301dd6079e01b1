# SPDX-License-Identifier: Apache-2.0
"""The memory behind hw_emu's AXI4 ports: data, strobes, latency, and what a card would not forgive."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.sim.card.library import EMU

OKAY, SLVERR, DECERR = 0, 2, 3
LARGE, SMALL = 0x1000, 0x10000
ALL = (1 << 64) - 1


class Timing(ctypes.Structure):
    """hypersonic_timing of device_model.h."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("read_latency", "write_latency", "outstanding", "stall_percent", "seed")]


IDEAL = Timing(0, 0, 256, 0, 1)


class Probe:
    """axi_probe.cpp."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.buffer_object.restype = ctypes.c_void_p
        self.library.read_burst.argtypes = [
            ctypes.c_void_p,
            ctypes.c_uint64,
            *[ctypes.c_uint] * 3,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        self.library.write_burst.argtypes = [
            ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint, ctypes.c_uint64, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p,
        ]  # fmt: skip

    def memory(self, which: int, size: int) -> NDArray[np.uint8]:
        return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(self.library.buffer_object(which)))

    def faults(self) -> tuple[int, str]:
        text = ctypes.create_string_buffer(256)
        return self.library.take_faults(text), text.value.decode()

    def read(
        self, address: int, beats: int, size: int = 6, burst: int = 1, timing: Timing = IDEAL
    ) -> tuple[int, int, NDArray[np.uint8]]:
        data, response = np.zeros(64 * beats, np.uint8), ctypes.c_uint()
        clocks = self.library.read_burst(
            ctypes.byref(timing), address, beats, size, burst, data.ctypes.data, ctypes.byref(response)
        )
        return clocks, response.value, data

    def write(
        self, address: int, data: NDArray[np.uint8], strobes: int = ALL, last_beat: int | None = None, timing: Timing = IDEAL
    ) -> tuple[int, int]:
        beats, response = data.size // 64, ctypes.c_uint()
        last = beats - 1 if last_beat is None else last_beat
        clocks = self.library.write_burst(
            ctypes.byref(timing), address, beats, strobes, last, data.ctypes.data, ctypes.byref(response)
        )
        return clocks, response.value


@pytest.fixture
def probe() -> Probe:
    source = Path(__file__).with_name("axi_probe.cpp")
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{EMU}"]

    def build(directory: Path) -> None:
        verilator.run(["g++", *flags, source, "-o", "probe.so"], directory)

    probe = Probe(cached("test_axi", [source, EMU / "axi_memory.h", EMU / "device_model.h"], build) / "probe.so")
    probe.memory(0, 8192)[:] = np.arange(8192) % 251
    probe.memory(1, 4096)[:] = np.arange(4096) % 241
    probe.faults()
    return probe


@pytest.mark.parametrize("beats", [1, 2, 63, 64])
def test_a_burst_reads_what_is_there(probe: Probe, beats: int) -> None:
    clocks, response, data = probe.read(LARGE, beats)
    assert (clocks, response, probe.faults()[0]) == (beats, OKAY, 0)
    np.testing.assert_array_equal(data, probe.memory(0, 64 * beats))


def test_latency_comes_before_the_first_beat(probe: Probe) -> None:
    assert probe.read(LARGE, 16, timing=Timing(60, 0, 256, 0, 1))[0] == 76
    assert probe.write(LARGE, np.zeros(64, np.uint8), timing=Timing(0, 60, 256, 0, 1))[0] == 61


def test_stalls_cost_time_and_change_nothing(probe: Probe) -> None:
    clocks, response, data = probe.read(LARGE, 64, timing=Timing(0, 0, 256, 50, 7))
    assert clocks > 90
    assert response == OKAY
    np.testing.assert_array_equal(data, probe.memory(0, 4096))
    again = probe.read(LARGE, 64, timing=Timing(0, 0, 256, 50, 7))
    assert again[0] == clocks


def test_the_last_page_of_a_buffer_reads_to_its_end(probe: Probe) -> None:
    _, response, data = probe.read(SMALL, 64)
    assert (response, probe.faults()[0]) == (OKAY, 0)
    np.testing.assert_array_equal(data, probe.memory(1, 4096))


def test_writes_honour_their_strobes(probe: Probe) -> None:
    data = np.full(128, 0xEE, np.uint8)
    strobes = 0x8000_0000_0000_00F1
    expected = probe.memory(0, 8192).copy()
    for byte in range(128):
        if strobes >> byte % 64 & 1:
            expected[64 + byte] = 0xEE
    assert probe.write(LARGE + 64, data, strobes) == (1, OKAY)
    np.testing.assert_array_equal(probe.memory(0, 8192), expected)


def test_a_write_past_the_end_keeps_what_is_inside(probe: Probe) -> None:
    before = probe.memory(1, 4096).copy()
    data = np.full(128, 0xEE, np.uint8)
    assert probe.write(SMALL, data) == (1, SLVERR)
    assert probe.faults() == (1, "m_axi_gmem1: write of 1 bytes at 0x10040: past the end of the buffer object")
    np.testing.assert_array_equal(probe.memory(1, 4096)[:64], data[:64])
    np.testing.assert_array_equal(probe.memory(1, 4096)[64:], before[64:])


def test_a_write_up_to_the_last_byte_is_no_error(probe: Probe) -> None:
    assert probe.write(LARGE + 7936, np.full(64, 1, np.uint8)) == (1, OKAY)
    assert probe.write(LARGE + 7936, np.full(128, 1, np.uint8), strobes=0) == (1, OKAY)
    assert probe.faults()[0] == 0


@pytest.mark.parametrize("address", [0, 0xFC0, 0x3000, 0x20000, (1 << 64) - 64])
def test_an_address_without_a_buffer_decodes_to_nothing(probe: Probe, address: int) -> None:
    _, response, data = probe.read(address, 1)
    assert response == DECERR
    assert not data.any()
    assert probe.faults() == (1, f"m_axi_gmem0: read of 64 bytes at {address:#x}: no buffer object is allocated there")
    assert probe.write(address, np.zeros(64, np.uint8)) == (1, DECERR)
    assert probe.faults()[0] == 1


@pytest.mark.parametrize(("address", "beats", "size", "burst", "why"), [
    (LARGE + 0xFC0, 2, 6, 1, "the burst crosses a 4 KiB border"),
    (LARGE, 65, 6, 1, "the burst crosses a 4 KiB border"),
    (LARGE + 4, 1, 6, 1, "expected a 64-byte aligned INCR burst of 64-byte beats"),
    (LARGE, 1, 5, 1, "expected a 64-byte aligned INCR burst of 64-byte beats"),
    (LARGE, 1, 6, 0, "expected a 64-byte aligned INCR burst of 64-byte beats"),
    (LARGE, 2, 6, 2, "expected a 64-byte aligned INCR burst of 64-byte beats"),
])  # fmt: skip
def test_a_burst_no_kernel_may_send_is_refused(
    probe: Probe, *, address: int, beats: int, size: int, burst: int, why: str
) -> None:
    _, response, _ = probe.read(address, beats, size, burst)
    assert response == SLVERR
    assert probe.faults()[1].endswith(why)


@pytest.mark.parametrize("last_beat", [1, 2])
def test_wlast_stands_on_the_last_beat(probe: Probe, last_beat: int) -> None:
    _, response = probe.write(LARGE, np.zeros(256, np.uint8), last_beat=last_beat)
    assert response == SLVERR
    assert probe.faults()[1].endswith("WLAST is not on the burst's last beat")
