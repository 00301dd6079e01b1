# SPDX-License-Identifier: Apache-2.0
"""The emulated card's PCIe link, and the time that it takes to replace an xclbin."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.sim.conftest import Buffer, WriteXclbin, Xrt

TO_CARD, FROM_CARD = 0, 1
NEVER_COMPLETES = 0xDEAD0001


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def seconds(function: Callable[[], object]) -> float:
    before = time.monotonic()
    function()
    return time.monotonic() - before


def sync(buffer: Buffer, direction: int, size_bytes: int = 0) -> None:
    assert buffer.xrt.xrtBOSync(buffer.handle, direction, size_bytes or buffer.size_bytes, 0) == 0


def test_a_link_with_a_rate_copies_at_it_and_each_direction_alone(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", "10")
    device = xrt.device(write_xclbin())
    buffers = [xrt.buffer(device, 1_000_000) for _ in range(2)]
    buffers[0].array[:] = 7
    assert seconds(lambda: sync(buffers[0], TO_CARD)) >= 0.1
    order: list[str] = []
    opposite = in_thread(lambda: (sync(buffers[1], FROM_CARD, 500_000), order.append("from the card")))
    assert seconds(lambda: sync(buffers[1], TO_CARD)) >= 0.1
    order.append("to the card")
    opposite.join()
    assert order == ["from the card", "to the card"], "half the bytes, in the other direction"
    buffers[0].array[:] = 0
    sync(buffers[0], FROM_CARD)
    assert (buffers[0].array == 7).all()


@pytest.mark.parametrize(
    ("total", "transfer", "alone_s", "together_s"), [(10, 0, 0.1, 0.2), (10, 7, 1 / 7, 0.2), (0, 10, 0.1, 0.1)]
)
def test_copies_at_the_same_time_share_the_rate_and_none_is_faster_than_a_transfer(
    xrt: Xrt,
    write_xclbin: WriteXclbin,
    monkeypatch: pytest.MonkeyPatch,
    total: int,
    transfer: int,
    alone_s: float,
    together_s: float,
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", str(total))
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_TRANSFER_MB_S", str(transfer))
    device = xrt.device(write_xclbin())
    buffers = [xrt.buffer(device, 1_000_000) for _ in range(2)]
    assert seconds(lambda: sync(buffers[0], TO_CARD)) >= alone_s

    def both() -> None:
        threads = [in_thread(lambda buffer=buffer: sync(buffer, TO_CARD)) for buffer in buffers]  # type: ignore[misc]
        for thread in threads:
            thread.join()

    assert seconds(both) >= together_s


def test_a_short_copy_beside_a_long_one_is_over_first_and_the_long_one_then_has_the_link_to_itself(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", "2")
    device = xrt.device(write_xclbin())
    buffers = [xrt.buffer(device, 1_000_000) for _ in range(2)]
    order: list[str] = []
    begin = time.monotonic()
    long = in_thread(lambda: (sync(buffers[0], TO_CARD), order.append("long")))
    sync(buffers[1], TO_CARD, 100_000)
    order.append("short")
    long.join()
    assert order == ["short", "long"]
    assert time.monotonic() - begin >= 0.5, "all bytes at the link's rate"


def test_a_copy_on_its_way_keeps_no_run_waiting(xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", "1")
    device = xrt.device(write_xclbin())
    large, x, y = (xrt.buffer(device, size) for size in (2_000_000, 64, 64))
    run = xrt.run(xrt.kernel(device, "stub"), x, y, 4)
    copies: list[bool] = []
    copy = in_thread(lambda: (sync(large, TO_CARD), copies.append(True)))
    for _ in range(3):
        xrt.start(run)
        assert xrt.finish(run).name == "COMPLETED"
        assert xrt.xrtRunState(run) == 4
    assert not copies, "the copy takes 2 s"
    copy.join()


def test_the_first_xclbin_of_a_card_is_loaded_at_once_and_another_one_takes_its_time(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "60000")
    device = xrt.device(first, 2)
    xrt.device(first, 2)
    xrt.close_all()
    device = xrt.device(first, 2)
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "200")
    assert seconds(lambda: xrt.xrtDeviceLoadXclbinFile(device, bytes(second))) >= 0.2
    xrt.close_all()
    device = xrt.device(index=2)
    assert seconds(lambda: xrt.xrtDeviceLoadXclbinFile(device, bytes(first))) >= 0.2, "the card kept the second one"


def test_while_a_card_loads_what_needs_the_xclbin_waits_and_nothing_else_does(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    device = xrt.device(first, 2)
    other = xrt.device(first, 1)
    run = xrt.run(xrt.kernel(other, "stub"), xrt.buffer(other, 64), xrt.buffer(other, 64), 1)
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "1500")
    loaded: list[int] = []
    load = in_thread(lambda: loaded.append(xrt.xrtDeviceLoadXclbinFile(device, bytes(second))))
    time.sleep(0.2)
    xrt.device(index=2)
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"
    assert not loaded
    uuid = bytes(xrt.uuid(device)).hex()
    assert uuid == second.stem, "the call waited"
    load.join()
    assert loaded == [0]


def test_a_card_that_is_reset_while_it_loads_gives_the_load_up(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_CARDS", str(tmp_path))
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    device = xrt.device(first, 2)
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "60000")
    errors: list[str] = []
    load = in_thread(lambda: errors.append(xrt.error("xrtDeviceLoadXclbinFile", device, bytes(second))))
    time.sleep(0.2)
    (tmp_path / "2.resets").write_bytes(b".")
    load.join()
    assert errors == ["ENODEV"]
    xrt.close_all()
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "0")
    assert bytes(xrt.uuid(xrt.device(second, 2))).hex() == second.stem


@pytest.mark.parametrize(
    "variable", ["PCIE_MB_S=fast", "PCIE_MB_S=1000001", "PCIE_TRANSFER_MB_S=fast", "LOAD_MS=soon", "LOAD_MS=3600001"]
)
def test_a_rate_or_time_that_makes_no_sense_is_an_error(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], variable: str
) -> None:
    device = xrt.device(write_xclbin(), 2)
    name, value = f"HYPERSONIC_EMU_{variable}".split("=", 1)
    monkeypatch.setenv(name, value)
    assert xrt.error("xrtDeviceLoadXclbinFile", device, bytes(write_xclbin(compute_units=2))) == "EINVAL"
    assert capfd.readouterr().err.startswith(f"[XRT] ERROR: {name}: '{value}'")


def test_many_threads_copy_through_one_link_and_every_byte_arrives(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    buffers = [xrt.buffer(device, 100_000) for _ in range(4)]

    def work(number: int) -> None:
        for repeat in range(20):
            buffers[number].array[:] = number * 20 + repeat
            sync(buffers[number], TO_CARD)
            buffers[number].array[:] = 0
            sync(buffers[number], FROM_CARD)
            np.testing.assert_array_equal(buffers[number].array, number * 20 + repeat)

    threads = [in_thread(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.join()
