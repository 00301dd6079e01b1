# SPDX-License-Identifier: Apache-2.0
"""Several processes on one emulated card: XRT's rules of loading an xclbin and opening compute units."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hypersonic.sim.card.library import library_path
from tests.sim.xrt_process import Process

if TYPE_CHECKING:
    from tests.sim.conftest import WriteXclbin

Start = Callable[[], Process]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a process on the machine whose cards are those of one directory."""
    cards = tmp_path / "cards"
    cards.mkdir()
    monkeypatch.setenv("HYPERSONIC_EMU_CARDS", str(cards))
    started: list[Process] = []

    def begin() -> Process:
        started.append(Process(str(library_path()), tmp_path / f"errors_{len(started)}"))
        return started[-1]

    yield begin
    for process in started:
        process.end()


def text(uuid: str) -> str:
    return "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))


def test_a_second_process_loads_the_same_xclbin_and_no_other_while_kernels_are_open(
    start: Start, write_xclbin: WriteXclbin
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    one, two = start(), start()
    assert [one.ask(f"load {first}"), one.ask("open stub:{stub_1}")] == ["ok", "ok"]
    assert two.ask(f"load {second}") == "EBUSY"
    assert two.message() == f"Failed to load xclbin: another process has kernels of xclbin {text(first.stem)} open"
    assert two.ask(f"load {first}") == "ok"
    assert [one.ask("close"), two.ask(f"load {second}")] == ["ok", "ok"]


def test_a_compute_unit_that_is_open_exclusively_is_open_in_one_process(start: Start, write_xclbin: WriteXclbin) -> None:
    path = write_xclbin(compute_units=2)
    one, two = start(), start()
    assert [process.ask(f"load {path}") for process in (one, two)] == ["ok", "ok"]
    assert [one.ask("open stub:{stub_1}"), two.ask("open stub:{stub_1}")] == ["ok", "EBUSY"]
    assert two.message() == "Another process has compute unit 0 of the card open"
    assert [two.ask("share stub:{stub_1}"), two.ask("open stub:{stub_2}")] == ["EBUSY", "ok"]
    assert [one.ask("close"), two.ask("share stub:{stub_1}"), one.ask("share stub:{stub_1}")] == ["ok"] * 3
    assert one.ask("open stub:{stub_1}") == "EBUSY"


def test_a_process_whose_xclbin_was_replaced_opens_nothing_until_it_loads_again(
    start: Start, write_xclbin: WriteXclbin
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    one, two = start(), start()
    assert [one.ask(f"load {first}"), two.ask(f"load {second}")] == ["ok", "ok"]
    assert [one.ask(command) for command in ("open stub:{stub_1}", "uuid", "buffer")] == ["EBUSY"] * 3
    assert one.message() == f"Another process has loaded another xclbin than {text(first.stem)} on the card"
    assert [one.ask(f"load {second}"), one.ask("open stub:{stub_2}")] == ["ok", "ok"]
    assert [two.ask("open stub:{stub_2}"), two.ask("open stub:{stub_1}")] == ["EBUSY", "ok"]


def test_a_process_that_is_killed_leaves_nothing_open(
    start: Start, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    one, two = start(), start()
    assert [one.ask(f"load {first}"), one.ask("open stub:{stub_1}")] == ["ok", "ok"]
    one.kill()
    assert two.ask(f"load {second}") == "ok"
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "60000")
    three = start()
    three.send(f"load {first}")
    time.sleep(0.5)
    three.kill()
    assert two.ask("open stub:{stub_1}") == "ok", "the card still holds the second xclbin"


def test_a_process_waits_while_another_one_loads(
    start: Start, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    one = start()
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "1000")
    two = start()
    assert one.ask(f"load {first}") == "ok"
    two.send(f"load {second}")
    time.sleep(0.5)
    assert one.ask(f"load {second}") == "ok"
    assert two.answer() == "ok"


def test_a_reset_card_can_be_loaded_although_kernels_of_before_are_open(
    start: Start, write_xclbin: WriteXclbin, tmp_path: Path
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    one, two = start(), start()
    assert [one.ask(f"load {first}"), one.ask("open stub:{stub_1}"), two.ask("uuid")] == ["ok", "ok", "ENODEV"]
    (tmp_path / "cards" / "0.resets").write_bytes(b".")
    assert one.ask("uuid") == "ENODEV"
    assert two.ask(f"load {second}") == "ENODEV", "its handle is from before the reset"
    assert start().ask(f"load {second}") == "ok"


def test_a_directory_that_cannot_hold_the_locks_is_an_error(
    start: Start, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_CARDS", str(tmp_path / "absent"))
    process = start()
    assert process.ask(f"load {write_xclbin()}") == "EINVAL"
    assert process.message() == f"HYPERSONIC_EMU_CARDS: '{tmp_path}/absent/0.load' cannot be opened: No such file or directory"
