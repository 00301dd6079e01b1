# SPDX-License-Identifier: Apache-2.0
"""The simulated shell sees every broken rule of PCIM, one by one, and none where there is none (sim/emu/pcim_shell.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.sim.card.library import EMU

SOURCE = Path(__file__).with_name("pcim_probe.cpp")
ALL = (1 << 64) - 1


class Probe:
    """PCIM by hand: a call is a clock."""

    def __init__(self, library: ctypes.CDLL, stall: int = 0, seed: int = 1) -> None:
        self._library, self._probe = library, ctypes.c_void_p(library.probe_new(stall, seed))

    @property
    def said(self) -> str:
        return ctypes.string_at(self._library.probe_said(self._probe)).decode()

    def read(self, *, ask: tuple[int, int, int] | None = None, size: int = 6, rready: int = 1) -> tuple[bool, int | None, bool]:
        """ask: (address, beats, ID). Returns whether an address is taken next, the ID of the beat shown, whether it is last."""
        address, beats, identifier = ask or (0, 1, 0)
        word = self._library.probe_read(self._probe, ask is not None, ctypes.c_uint64(address), beats, size, identifier, rready)
        return bool(word & 1), word >> 8 if word & 2 else None, bool(word & 4)

    def write(
        self, *, ask: tuple[int, int, int] | None = None, beat: tuple[int, int] | None = None, bready: int = 1
    ) -> tuple[bool, bool, int | None]:  # fmt: skip
        """ask: (address, beats, ID); beat: (strobes, last). Returns awready, wready and the ID of the response shown."""
        (address, beats, identifier), (strobes, last) = ask or (0, 1, 0), beat or (0, 0)
        word = self._library.probe_write(
            self._probe, ask is not None, ctypes.c_uint64(address), beats, identifier, beat is not None,
            ctypes.c_uint64(strobes), last, bready,
        )  # fmt: skip
        return bool(word & 1), bool(word & 2), word >> 8 if word & 4 else None

    def byte(self, address: int) -> int:
        return int(self._library.probe_byte(self._probe, ctypes.c_uint64(address)))

    def irq(self, request: int) -> int:
        return int(self._library.probe_irq(self._probe, request))

    def close(self) -> None:
        self._library.probe_delete(self._probe)


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{EMU}"]

    def build(directory: Path) -> None:
        verilator.run(["g++", *flags, SOURCE, "-o", "probe.so"], directory)

    sources = [EMU / name for name in ("pcim_shell.h", "axi_memory.h", "device_model.h")]
    loaded = ctypes.CDLL(str(cached("test_pcim_probe", [SOURCE, *sources], build) / "probe.so"))
    loaded.probe_new.restype = loaded.probe_said.restype = ctypes.c_void_p
    return loaded


@pytest.fixture
def probe(library: ctypes.CDLL) -> Iterator[Probe]:
    opened = Probe(library)
    opened.read()
    opened.write()
    yield opened
    opened.close()


def _read_all(probe: Probe, bursts: int, beats: int) -> list[int]:
    """The IDs of the beats, in the order they came; each burst has an ID of its own."""
    seen: list[int] = []
    ready, asked = False, 0
    for _ in range(1000):
        ask = (4096 * asked, beats, asked) if ready and asked < bursts else None
        asked += ask is not None
        ready, shown, _ = probe.read(ask=ask)
        seen += [] if shown is None else [shown]
        if len(seen) == bursts * beats:
            break
    return seen


def test_reads_that_keep_the_rules_are_answered_in_order(probe: Probe) -> None:
    assert _read_all(probe, 10, 3) == [identifier for identifier in range(10) for _ in range(3)]
    assert probe.said == ""


def test_answers_come_in_any_order_and_mixed_where_asked_to(library: ctypes.CDLL) -> None:
    probe = Probe(library, stall=10, seed=3)
    seen = _read_all(probe, 8, 8)
    assert probe.said == ""
    probe.close()
    assert sorted(seen) == sorted(8 * list(range(8)))
    firsts, lasts = [seen.index(identifier) for identifier in range(8)], [63 - seen[::-1].index(n) for n in range(8)]
    assert firsts != sorted(firsts)  # a later burst is answered before an earlier one
    assert any(firsts[n] < firsts[m] < lasts[n] for n in range(8) for m in range(8))  # and between its beats


READ_FAULTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "two of one ID": ([{"ask": (0, 8, 5)}, {"ask": (4096, 8, 5)}], "its ID is that of a read on its way"),
    "RREADY low": ([{"ask": (0, 1, 0)}, *[{"rready": 0}] * 12], "RREADY is low while data wait"),
    "across 4 KiB": ([{"ask": (4096 - 64, 2, 0)}], "the burst crosses a 4 KiB border"),
    "a narrow beat": ([{"ask": (0, 1, 0), "size": 5}], "expected a 64-byte aligned INCR burst of 64-byte beats"),
    "nobody's memory": ([{"ask": (1 << 20, 1, 0)}], "no buffer object is allocated there"),
}


@pytest.mark.parametrize("name", READ_FAULTS)
def test_a_broken_rule_of_reads_is_seen(probe: Probe, name: str) -> None:
    clocks, message = READ_FAULTS[name]
    for clock in clocks:
        assert probe.said == ""
        probe.read(**clock)
        if probe.said:
            break
    assert message in probe.said


def _burst(probe: Probe, beats: int, *, strobes: int = ALL, bready: int = 1) -> list[int]:
    """An address and its beats right behind it; the responses shown."""
    shown = [probe.write(ask=(0, beats, 1), bready=bready)[2]]
    for beat in range(beats):
        last = beat == beats - 1
        shown.append(probe.write(beat=(strobes if last else ALL, int(last)), bready=bready)[2])
    shown += [probe.write(bready=bready)[2] for _ in range(10)]
    return [identifier for identifier in shown if identifier is not None]


def test_writes_that_keep_the_rules_are_answered_without_a_word(probe: Probe) -> None:
    for strobes in (ALL, 1, 0xFFFF):
        assert set(_burst(probe, 4, strobes=strobes)) == {1}
    assert probe.said == ""


def test_writes_reach_memory_in_order_long_after_their_response(probe: Probe) -> None:
    probe.write(ask=(0, 2, 1))
    for last in (0, 1):
        probe.write(beat=(ALL, last))
    probe.write(ask=(4096, 1, 2))
    probe.write(beat=(0b11, 1))
    shown = {probe.write()[2] for _ in range(20)}
    assert {1, 2} <= shown  # answered
    seen = []
    for _ in range(1000):
        seen.append((probe.byte(0), probe.byte(65), probe.byte(4096), probe.byte(4098)))
        probe.write()
    assert list(dict.fromkeys(seen)) == [(0, 0, 0, 0), (1, 2, 0, 0), (1, 2, 1, 0)]
    assert probe.said == ""


def test_data_may_be_offered_with_their_address(probe: Probe) -> None:
    _, taken, _ = probe.write(ask=(0, 1, 1), beat=(ALL, 1))
    while not taken:
        _, taken, _ = probe.write(beat=(ALL, 1))
    shown = [probe.write(beat=(ALL, 1))[2], *(probe.write()[2] for _ in range(10))]
    assert 1 in shown
    assert probe.said == ""


WRITE_FAULTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "data first": ([{"beat": (ALL, 1)}], "data before their address"),
    "a late beginning": ([{"ask": (0, 2, 0)}, *[{}] * 3], "a pause between an address and the end of its data"),
    "a pause": ([{"ask": (0, 2, 0)}, {"beat": (ALL, 0)}, {}], "a pause between an address and the end of its data"),
    "a hole": ([{"ask": (0, 1, 0)}, {"beat": (0b101, 1)}], "strobes with a hole"),
    "no strobe": ([{"ask": (0, 1, 0)}, {"beat": (0, 1)}], "strobes with a hole, or none"),
    "half a beat within": ([{"ask": (0, 2, 0)}, {"beat": (0xFF, 0)}], "partial strobes before the burst's last beat"),
    "WLAST too soon": ([{"ask": (0, 2, 0)}, {"beat": (ALL, 1)}], "WLAST is not on the burst's last beat"),
    "BREADY low": ([{"ask": (0, 1, 0)}, {"beat": (ALL, 1)}, *[{"bready": 0}] * 2010], "a response was not taken within 8 us"),
}


@pytest.mark.parametrize("name", WRITE_FAULTS)
def test_a_broken_rule_of_writes_is_seen(probe: Probe, name: str) -> None:
    clocks, message = WRITE_FAULTS[name]
    for clock in clocks:
        assert probe.said == ""
        probe.write(**clock)
        if probe.said:
            break
    assert message in probe.said


def test_an_interrupt_before_the_last_ones_acknowledge_is_seen(probe: Probe) -> None:
    assert probe.irq(1) & 1
    assert not probe.irq(1) & 1
    while not probe.irq(0) & 2:
        pass
    assert probe.irq(1) & 1
