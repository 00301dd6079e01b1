# SPDX-License-Identifier: Apache-2.0
"""The card behind XRT's emulation socket. Call numbers and fields are XRT's: rpc_messages.proto."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.sim.xrt_bridge.card import MAX_BUFFER_BYTES, EmulatedCard, main, serve
from hypersonic.sim.xrt_bridge.wire import MAX_MESSAGE_BYTES, Call, Fields, WireError, decode, encode, read_call
from tests.sim.xrt_host import ask, bytes_of, number_of

if TYPE_CHECKING:
    from tests.sim.conftest import Pair, WriteXclbin


@pytest.fixture
def card(tmp_path: Path, pair: Pair, write_xclbin: WriteXclbin) -> Iterator[EmulatedCard]:
    """Two compute units, on bank 0 and bank 1 of a U250."""
    image = tmp_path / "pair.so"
    image.write_bytes(pair.images[Target.HW_EMU])
    xclbin = Xclbin.read(write_xclbin(image.read_bytes(), kernel="pair", compute_units=2))
    with EmulatedCard(xclbin, {"pair": image}) as opened:
        yield opened


@contextmanager
def served(card: EmulatedCard) -> Iterator[socket.socket]:
    """The host's end of the socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = Thread(target=serve, args=(card, theirs))
        thread.start()
        try:
            yield ours
        finally:
            ours.shutdown(socket.SHUT_WR)
            thread.join(60)
            assert not thread.is_alive()


BANK, UNIT = 0x40_0000_0000, 0x180_0000


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def unit_base(card: EmulatedCard, index: int = 0) -> int:
    return sorted(card._units)[index]


def test_a_run_goes_through_the_socket_as_xrt_sends_it(card: EmulatedCard, pair: Pair) -> None:
    """The calls of an ordinary run in XRT's order, one compute unit while the other one stands still."""
    rows = (np.random.default_rng(7).standard_normal((40, 3)) * 20).astype(np.float32)
    x, y = BANK + 0x1000, BANK + 0x8000
    base = unit_base(card)
    with served(card) as host:
        assert ask(host, 20, {3: b"\n\x07sim_dir\x12\x01/"}) == {1: 1}
        assert ask(host, 4, {1: x, 2: rows.nbytes, 3: 0}) == {1: 1, 2: b""}
        assert ask(host, 4, {1: y, 2: 8 * 40}) == {1: 1, 2: b""}
        assert ask(host, 6, {2: b"", 3: x, 4: rows.tobytes()[:100], 5: 100, 6: 0}) == {1: 100}
        assert ask(host, 6, {2: b"", 3: x, 4: rows.tobytes()[100:], 5: 380, 6: 100}) == {1: 380}
        for index, value in enumerate((x & 0xFFFFFFFF, x >> 32, 0, y & 0xFFFFFFFF, y >> 32, 0, 40)):
            assert ask(host, 9, {2: base + 0x10 + 4 * index, 3: 4, 4: word(value)}) == {1: 1}
        assert ask(host, 9, {2: base, 3: 4, 4: word(registers.AP_START)}) == {1: 1}
        while not int.from_bytes(bytes_of(ask(host, 11, {2: base, 3: 4})), "little") & registers.AP_DONE:
            pass
        assert ask(host, 9, {2: base, 3: 4, 4: word(registers.AP_CONTINUE)}) == {1: 1}
        answer = bytes_of(ask(host, 7, {2: b"", 3: b"", 4: y, 5: 320, 6: 0}))
        np.testing.assert_array_equal(np.frombuffer(answer, np.uint32), pair.expected(rows).ravel().view(np.uint32))
        assert ask(host, 7, {4: y, 5: 8, 6: 312})[2] == answer[312:]
        assert ask(host, 52, {1: base, 2: registers.RUNS, 3: 4}) == {1: 1, 2: word(1)}
        assert ask(host, 52, {1: unit_base(card, 1), 2: registers.RUNS, 3: 4}) == {1: 1, 2: word(0)}
        assert number_of(ask(host, 17, {})) > 0
        assert ask(host, 19, {}) == {}
        assert ask(host, 5, {1: x}) == {1: 1}
        assert ask(host, 1, {}) == {1: 1}


def test_memory_and_registers_are_written_and_read_by_their_other_calls_too(card: EmulatedCard) -> None:
    base = unit_base(card, 1)
    with served(card) as host:
        ask(host, 4, {1: BANK, 2: 5000})
        assert ask(host, 8, {2: BANK + 10, 3: 4, 4: b"abcd"}) == {1: 1}
        assert ask(host, 10, {2: BANK + 9, 3: 6}) == {1: 1, 2: b"\0abcd\0"}
        assert ask(host, 51, {1: base, 2: registers.X, 3: word(64) + word(1)}) == {1: 1}
        assert ask(host, 11, {2: base + registers.X, 3: 8}) == {1: 1, 2: word(64) + word(1)}


REFUSED: list[tuple[int, Fields, str]] = [
    (4, {1: 0, 2: 64}, "not in a memory bank"),
    (4, {1: BANK + (16 << 30) - 4096, 2: 4097}, "not in a memory bank"),
    (4, {1: BANK, 2: (1 << 64) - 1}, "not in a memory bank"),
    (4, {1: BANK + 0x1000, 2: 8}, "overlap the buffer at 0x4000000000"),
    (4, {1: BANK, 2: 8}, "overlap the buffer"),
    (4, {1: b"address", 2: 8}, "field 1 is bytes, expected a number"),
    (5, {1: BANK + 1}, "there is no buffer at 0x4000000001"),
    (6, {3: BANK, 4: bytes(8193)}, "no buffer of that size is there"),
    (6, {3: BANK, 4: b"abc", 6: 8190}, "no buffer of that size is there"),
    (6, {3: BANK, 4: 5}, "field 4 is a number, expected bytes"),
    (7, {4: BANK, 5: 8193}, "no buffer of that size is there"),
    (7, {4: BANK, 5: MAX_BUFFER_BYTES + 1}, "bytes at once, expected at most"),
    (7, {4: (1 << 64) - 1, 5: 1}, "no buffer of that size is there"),
    (10, {2: BANK - 1, 3: 1}, "no buffer of that size is there"),
    (9, {2: UNIT - 0x10000, 4: word(1)}, "not registers of a compute unit"),
    (9, {2: UNIT + 0xFFC, 4: bytes(8)}, "not registers of a compute unit"),
    (9, {2: UNIT + 2, 4: word(1)}, "not registers of a compute unit"),
    (11, {2: UNIT, 3: 3}, "not registers of a compute unit"),
    (52, {1: UNIT, 2: 0, 3: 1 << 40}, "not registers of a compute unit"),
    (2, {}, "this card knows the calls 1, 4, 5"),
    ((1 << 32) - 1, {}, "this card knows the calls"),
]


@pytest.mark.parametrize(("number", "fields", "why"), REFUSED)
def test_what_a_card_cannot_do_is_answered_with_no_and_said_in_the_hosts_output(
    card: EmulatedCard, number: int, fields: Fields, why: str
) -> None:
    assert unit_base(card) == UNIT
    assert card.answer(Call(4, {1: BANK, 2: 8192})) == {1: 1, 2: b""}
    answer = card.answer(Call(number, fields))
    assert not answer.get(1)
    assert not answer.get(2)
    told = card.answer(Call(19, {}))[1]
    assert isinstance(told, bytes)
    assert f"call {number} is refused" in told.decode()
    assert why in told.decode()
    assert card.answer(Call(19, {})) == {}
    assert card.answer(Call(7, {4: BANK, 5: 8192})) == {1: 8192, 2: bytes(8192)}


def start(card: EmulatedCard, x: int, y: int, rows: int) -> None:
    values = (x & 0xFFFFFFFF, x >> 32, 0, y & 0xFFFFFFFF, y >> 32, 0, rows)
    card.answer(Call(9, {2: UNIT + registers.X, 4: b"".join(map(word, values))}))
    card.answer(Call(9, {2: UNIT, 4: word(registers.AP_START)}))


def test_a_kernel_that_leaves_its_buffers_is_told_to_the_host(card: EmulatedCard) -> None:
    card.answer(Call(4, {1: BANK, 2: 4096}))
    card.answer(Call(4, {1: BANK + 4096, 2: 4096}))
    start(card, BANK, BANK + 4096, 1000)
    for _ in range(200):
        card.answer(Call(11, {2: UNIT, 3: 4}))
    told = card.answer(Call(19, {}))[1]
    assert isinstance(told, bytes)
    assert "no buffer object is allocated there" in told.decode()


def test_memory_freed_under_a_running_kernel_stays_until_it_is_idle(card: EmulatedCard) -> None:
    """Bursts under way hold its address: the process must not write into memory that is somebody else's by then."""
    card.answer(Call(4, {1: BANK, 2: 1 << 20}))
    card.answer(Call(4, {1: BANK + (1 << 20), 2: 1 << 20}))
    start(card, BANK, BANK + (1 << 20), 16000)
    card.answer(Call(11, {2: UNIT, 3: 4}))
    for address in (BANK, BANK + (1 << 20)):
        assert card.answer(Call(5, {1: address})) == {1: 1}
    assert len(card._freed) == 2
    for _ in range(1000):
        card.answer(Call(11, {2: UNIT, 3: 4}))
    card.answer(Call(9, {2: UNIT, 4: word(registers.AP_CONTINUE)}))
    card.answer(Call(4, {1: BANK, 2: 1}))
    card.answer(Call(5, {1: BANK}))
    assert card._freed == []


def test_freed_memory_can_be_allocated_again_and_is_zero(card: EmulatedCard) -> None:
    for _ in range(3):
        assert card.answer(Call(4, {1: BANK + 4096, 2: 4097})) == {1: 1, 2: b""}
        assert card.answer(Call(7, {4: BANK + 4096, 5: 8192})) == {1: 8192, 2: bytes(8192)}
        card.answer(Call(6, {3: BANK + 4096, 4: b"\xff" * 8192}))
        assert card.answer(Call(5, {1: BANK + 4096})) == {1: 1}


HEAD = struct.Struct("<BQBI")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (HEAD.pack(0x09, MAX_MESSAGE_BYTES + 1, 0x15, 6), "expected at most"),
        (HEAD.pack(0x09, (1 << 64) - 1, 0x15, 6), "expected at most"),
        (HEAD.pack(0x0A, 0, 0x15, 6), "expected the tags 09 and 15"),
        (HEAD.pack(0x09, 0, 0x15, 6)[:5], "closed after 5 of 14 bytes"),
        (HEAD.pack(0x09, 9, 0x15, 6), "closed within call 6"),
        (HEAD.pack(0x09, 9, 0x15, 6) + b"abc", "closed after 3 of 9 bytes"),
        (HEAD.pack(0x09, 2, 0x15, 6) + b"\x0a\x05", "field 1 has 5 bytes, 0 are left"),
        (HEAD.pack(0x09, 2, 0x15, 6) + b"\x09\x05", "field 1 has 8 bytes, 1 are left"),
        (HEAD.pack(0x09, 1, 0x15, 6) + b"\x08", "does not end"),
        (HEAD.pack(0x09, 11, 0x15, 6) + b"\x08" + b"\xff" * 10, "does not end, or has more than 64 bits"),
        (HEAD.pack(0x09, 1, 0x15, 6) + b"\x0b", "wire type 3"),
    ],
)
def test_what_is_no_message_ends_the_process(data: bytes, why: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(WireError, match=why):
            read_call(theirs)


def test_a_host_that_is_gone_ends_the_process_quietly() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        assert read_call(theirs) is None


@given(st.dictionaries(st.integers(1, 100), st.integers(0, (1 << 64) - 1) | st.binary(max_size=300), max_size=8))
def test_a_message_comes_back_as_it_was(fields: dict[int, Any]) -> None:
    assert decode(encode(fields)) == fields


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        fields = decode(data)
    except WireError:
        return
    assert all(isinstance(value, bytes) or 0 <= value < 1 << 64 for value in fields.values())


def test_the_device_process_says_why_it_cannot_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main([str(tmp_path / "nothing.xclbin")]) == 1
    assert "No such file" in caplog.text
    (tmp_path / "foreign.xclbin").write_bytes(b"xclbin2")
    assert main([str(tmp_path / "foreign.xclbin")]) == 1
    assert "foreign.xclbin" in caplog.text
