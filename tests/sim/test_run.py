# SPDX-License-Identifier: Apache-2.0
"""Kernels and runs of the emulated card: names, banks, registers, the chain protocol, time-outs, hanging compute units."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.sim.card.library import library_path
from tests.support.standard_error import standard_error

if TYPE_CHECKING:
    from tests.sim.conftest import WriteXclbin, Xrt

RUNS, MOST_IN_FLIGHT = 0x48, 0x80
NEVER_COMPLETES, WRITES_TOO_FAR, MEETS = 0xDEAD0001, 0xDEAD0002, 0xDEAD0003


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stub:{nope}", "No compute units matching 'stub:{nope}'"),
        ("stub:{stub_1", "No compute units matching 'stub:{stub_1'"),
        ("stub:stub_1", "No compute units matching 'stub:stub_1'"),
        ("stub:{}", "No compute units matching 'stub:{}'"),
        ("nokernel", "No such kernel 'nokernel': Invalid argument"),
        ("", "No such kernel '': Invalid argument"),
    ],
)
def test_a_kernel_that_is_not_there_is_xrts_error(
    xrt: Xrt, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    device = xrt.device(write_xclbin())
    for function in ("xrtPLKernelOpen", "xrtPLKernelOpenExclusive"):
        assert xrt.error(function, device, xrt.uuid(device), name.encode()) == "EINVAL"
    assert capfd.readouterr().err == f"[XRT] ERROR: {message}\n" * 2


def test_a_kernel_is_opened_for_the_loaded_xclbin_only(
    xrt: Xrt, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str]
) -> None:
    device = xrt.device(write_xclbin())
    other = (ctypes.c_ubyte * 16)(*range(16))
    assert xrt.error("xrtPLKernelOpen", device, other, b"stub") == "EINVAL"
    assert "asked for 00010203-0405-0607-0809-0a0b0c0d0e0f, loaded is" in capfd.readouterr().err
    assert xrt.error("xrtPLKernelOpen", device, None, b"stub") == "EINVAL"
    assert xrt.error("xrtPLKernelOpen", device, xrt.uuid(device), None) == "EINVAL"


def test_a_compute_unit_is_open_shared_or_exclusive(
    xrt: Xrt, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str]
) -> None:
    device = xrt.device(write_xclbin(compute_units=2))
    first = xrt.kernel(device, "stub:{stub_1}", exclusive=True)
    xrt.kernel(device, "stub:{stub_1}", exclusive=True)
    xrt.kernel(device, "stub:{stub_2}")
    assert xrt.error("xrtPLKernelOpen", device, xrt.uuid(device), b"stub") == "EBUSY"
    assert capfd.readouterr().err == "[XRT] ERROR: Conflicting access mode for IP(0)\n"
    xrt.close_all()
    assert xrt.error("xrtKernelClose", first) == "EINVAL"


def test_registers_answer_for_one_exclusive_compute_unit(
    xrt: Xrt, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str]
) -> None:
    device = xrt.device(write_xclbin(compute_units=2))
    value = ctypes.c_uint32()
    shared = xrt.kernel(device, "stub:{stub_2}")
    assert xrt.error("xrtKernelReadRegister", shared, 0, ctypes.byref(value)) == "EPERM"
    both = xrt.kernel(device, "stub:{stub_2,stub_1}")
    assert xrt.error("xrtKernelWriteRegister", both, 0, 1) == "EINVAL"
    xrt.close(both)
    kernel = xrt.kernel(device, "stub:{stub_1}", exclusive=True)
    assert xrt.register(kernel, 0x00) == 0x4
    assert xrt.xrtKernelWriteRegister(kernel, 0x10, 0x12345678) == 0
    assert xrt.register(kernel, 0x10) == 0x12345678
    for offset in (0x1000, 0xFFD, 0xFFFFFFFC):
        assert xrt.error("xrtKernelReadRegister", kernel, offset, ctypes.byref(value)) == "EINVAL"
    assert xrt.error("xrtKernelReadRegister", kernel, 0xF0, ctypes.byref(value)) == "EIO"
    assert xrt.error("xrtKernelReadRegister", kernel, 0, None) == "EINVAL"
    errors = capfd.readouterr().err
    for line in ("kernel with shared access", "kernel with multiple compute units", "outside kernel register space"):
        assert f"[XRT] ERROR: Cannot read or write {line}\n" in errors


def test_arguments_tell_their_bank_and_offset(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(compute_units=4))
    for unit, bank in (("stub_1", 0), ("stub_2", 1), ("stub_4", 3)):
        kernel = xrt.kernel(device, f"stub:{{{unit}}}")
        assert [xrt.xrtKernelArgGroupId(kernel, i) for i in (0, 1)] == [bank, bank]
        assert [xrt.xrtKernelArgOffset(kernel, i) for i in (0, 1, 2)] == [0x10, 0x1C, 0x28]
        for argument in (2, 3, -1, 1 << 30):
            assert xrt.error("xrtKernelArgGroupId", kernel, argument) == "EINVAL"
        for argument in (3, -1):
            assert xrt.error("xrtKernelArgOffset", kernel, argument) == "EINVAL"


def test_a_buffer_in_the_wrong_bank_or_on_another_card_is_an_error(
    xrt: Xrt, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_xclbin(compute_units=2)
    device, other = xrt.device(path, 0), xrt.device(path, 1)
    run = xrt.run(xrt.kernel(device, "stub:{stub_1}"))
    assert xrt.set(run, 0, xrt.buffer(device, 64, 1)) == -1
    assert xrt.set(run, 0, xrt.buffer(other, 64, 0)) == -1
    assert xrt.set(run, 3, 1) == -1
    assert xrt.xrtRunSetArg(run, 0, ctypes.c_void_p(None)) == -1
    message = capfd.readouterr().err.splitlines()
    assert message[0] == "[XRT] ERROR: No compute units satisfy requested connectivity"
    assert message[1] == "[XRT] ERROR: Argument 'x' is a buffer of another device"
    assert message[2:] == ["[XRT] ERROR: Bad argument index '3'", "[XRT] ERROR: No such buffer handle"]


def test_a_kernel_of_all_compute_units_runs_where_its_buffers_are(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(compute_units=2))
    kernel = xrt.kernel(device, "stub")
    x, y = xrt.buffer(device, 64, 1), xrt.buffer(device, 64, 1)
    x.fill([3.0])
    run = xrt.run(kernel, x, y, 1)
    assert xrt.set(run, 1, xrt.buffer(device, 64, 0)) == -1
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"
    np.testing.assert_array_equal(y.floats(1), [6.0])


def test_a_kernel_on_hbm_reads_and_writes_through_channels_of_its_own(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(platform="u55c", compute_units=2))
    for unit, (first, second) in enumerate([(32, 33), (34, 35)], start=1):
        kernel = xrt.kernel(device, f"stub:{{stub_{unit}}}")
        assert [xrt.xrtKernelArgGroupId(kernel, argument) for argument in (0, 1)] == [first, second]
        x, y = xrt.buffer(device, 64, first), xrt.buffer(device, 64, second)
        x.fill([float(unit)])
        run = xrt.run(kernel, x, y, 1)
        xrt.start(run)
        assert xrt.finish(run).name == "COMPLETED"
        np.testing.assert_array_equal(y.floats(1), [2.0 * unit])


def test_a_buffer_of_a_group_may_lie_across_its_channels_or_in_one_of_them(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(platform="u55c"))
    kernel = xrt.kernel(device, "stub")
    channel = 512 << 20
    before = xrt.buffer(device, channel - 4096, 32)
    assert xrt.xrtBOAddress(before.handle) == 0
    x, y = xrt.buffer(device, 8192, 32), xrt.buffer(device, 64, 7)
    assert (xrt.xrtBOAddress(x.handle), xrt.xrtBOAddress(y.handle)) == (channel - 4096, 7 * channel)
    x.fill([float(k) for k in range(2048)])
    run = xrt.run(kernel, x, xrt.buffer(device, 8192, 33), 2048)
    assert xrt.set(run, 1, xrt.buffer(device, 64, 3)) == -1
    assert xrt.set(run, 1, y) == 0
    assert xrt.set(run, 2, 16) == 0
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"
    np.testing.assert_array_equal(y.floats(16), 2.0 * np.arange(16))


def test_a_run_goes_from_new_to_completed_and_can_start_again(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    x, y = xrt.buffer(device, 64), xrt.buffer(device, 64)
    run = xrt.run(xrt.kernel(device, "stub"), x, y, 2)
    assert xrt.xrtRunState(run) == 1
    assert xrt.xrtRunWaitFor(run, 1000) == 1
    for value in (1.5, -7.25):
        x.fill([value, value])
        xrt.start(run)
        assert xrt.xrtRunWait(run) == 4
        assert xrt.xrtRunState(run) == 4
        np.testing.assert_array_equal(y.floats(2), [2 * value] * 2)


def test_runs_overlap_and_complete_in_order(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    kernel = xrt.kernel(device, "stub", exclusive=True)
    x, long = xrt.buffer(device, 800_000), xrt.buffer(device, 800_000)
    x.fill(np.arange(1000))
    first = xrt.run(kernel, x, long, 200_000)
    outputs = [xrt.buffer(device, 4096) for _ in range(32)]
    rows = [40 * (i % 3) for i in range(32)]
    runs = [xrt.run(kernel, x, y, n) for y, n in zip(outputs, rows, strict=True)]
    for run in (first, *runs):
        xrt.start(run)
    assert xrt.finish(runs[-1]).name == "COMPLETED"
    assert all(xrt.xrtRunState(run) == 4 for run in runs)
    for y, n in zip(outputs, rows, strict=True):
        np.testing.assert_array_equal(y.floats(), [2 * i if i < n else 0 for i in range(1024)])
    assert xrt.register(kernel, RUNS) == 33
    assert xrt.register(kernel, MOST_IN_FLIGHT) > 1


def test_arguments_set_after_a_start_are_the_next_runs(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    kernel = xrt.kernel(device, "stub")
    x, y, z = (xrt.buffer(device, 4 * 4096) for _ in range(3))
    x.fill(np.ones(4096))
    run = xrt.run(kernel, x, y, 4096)
    xrt.start(run)
    assert xrt.set(run, 1, z) == 0
    assert xrt.finish(run).name == "COMPLETED"
    assert y.floats().all()
    assert not z.floats().any()


def test_threads_share_a_kernel(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(compute_units=2))
    kernels = [xrt.kernel(device, f"stub:{{stub_{i + 1}}}") for i in range(2)]
    wrong: list[int] = []

    def work(number: int) -> None:
        x, y = xrt.buffer(device, 4096, number % 2), xrt.buffer(device, 4096, number % 2)
        run = xrt.run(kernels[number % 2], x, y, 100)
        for repeat in range(20):
            x.fill(np.full(100, number * 100 + repeat))
            xrt.start(run)
            if xrt.finish(run) != 4 or not (y.floats(100) == 2 * (number * 100 + repeat)).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compute_units_are_simulated_by_threads_of_their_own(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(compute_units=3))
    counter, runs, results = xrt.buffer(device, 64), [], []
    counter.fill(np.zeros(16))
    for bank in range(3):
        x, y = xrt.buffer(device, 64, bank), xrt.buffer(device, 64, bank)
        x.fill(np.array([xrt.xrtBOAddress(counter.handle)], np.uint64).view(np.float32))
        y.fill(np.array([3], np.uint32).view(np.float32))
        results.append(y)
        runs.append(xrt.run(xrt.kernel(device, f"stub:{{stub_{bank + 1}}}"), x, y, MEETS))
    for run in runs:
        xrt.start(run)
    assert [xrt.finish(run).name for run in runs] == ["COMPLETED"] * 3
    assert [int(y.floats(1).view(np.uint32)[0]) for y in results] == [3, 3, 3]


def test_a_start_of_a_run_that_works_is_an_error(xrt: Xrt, write_xclbin: WriteXclbin, tmp_path: Path) -> None:
    device = xrt.device(write_xclbin())
    x, y = xrt.buffer(device, 64), xrt.buffer(device, 64)
    run = xrt.run(xrt.kernel(device, "stub"), x, y, NEVER_COMPLETES)
    with standard_error(tmp_path) as errors:  # the run writes to it too when it has stood still
        xrt.start(run)
        assert xrt.error("xrtRunStart", run) == "EBUSY"
        assert "bad command state, can't launch" in errors()


def test_a_wait_ends_at_its_timeout_with_the_present_state(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    x, y = xrt.buffer(device, 64), xrt.buffer(device, 64)
    kernel = xrt.kernel(device, "stub")
    stuck, behind = xrt.run(kernel, x, y, NEVER_COMPLETES), xrt.run(kernel, x, y, 1)
    xrt.start(stuck)
    xrt.start(behind)
    before = time.monotonic()
    assert xrt.finish(stuck, 50).name == "RUNNING"
    assert xrt.finish(behind, 50).name in {"RUNNING", "QUEUED"}
    assert time.monotonic() - before >= 0.1


def test_a_kernel_that_stands_still_stops_costing_time(xrt: Xrt, write_xclbin: WriteXclbin, tmp_path: Path) -> None:
    device = xrt.device(write_xclbin())
    x, y = xrt.buffer(device, 64), xrt.buffer(device, 64)
    run = xrt.run(xrt.kernel(device, "stub"), x, y, NEVER_COMPLETES)
    with standard_error(tmp_path) as errors:
        xrt.start(run)
        while "has moved no data for 1000000 clocks" not in errors():
            assert xrt.finish(run, 20).name == "RUNNING"
    used = time.process_time()
    assert xrt.finish(run, 300).name == "RUNNING"
    assert time.process_time() - used < 0.2


def test_an_access_outside_every_buffer_ends_the_run_in_error(
    xrt: Xrt, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str]
) -> None:
    device = xrt.device(write_xclbin())
    kernel = xrt.kernel(device, "stub")
    x, y, bystander = xrt.buffer(device, 64), xrt.buffer(device, 16), xrt.buffer(device, 64)
    run = xrt.run(kernel, x, y, WRITES_TOO_FAR)
    xrt.start(run)
    assert xrt.finish(run).name == "ERROR"
    assert capfd.readouterr().err == "[XRT] ERROR: Compute unit stub_1: stub: write outside\n"
    assert not bystander.floats().any()
    assert xrt.set(run, 2, 4) == 0
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"


def test_the_named_run_of_the_named_compute_unit_hangs_and_no_other(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", "other_1:1,stub_1:3")
    device = xrt.device(write_xclbin(compute_units=2))
    for unit, states in ((1, ["COMPLETED", "COMPLETED", "RUNNING", "QUEUED"]), (2, ["COMPLETED"] * 4)):
        kernel = xrt.kernel(device, f"stub:{{stub_{unit}}}", exclusive=True)
        x, y = xrt.buffer(device, 64, unit - 1), xrt.buffer(device, 64, unit - 1)
        runs = [xrt.run(kernel, x, y, 1) for _ in range(4)]
        for run in runs:
            xrt.start(run)
        assert [xrt.finish(run, 300).name for run in runs] == states
        assert xrt.register(kernel, RUNS) == states.count("COMPLETED")


@pytest.mark.parametrize(
    "variable",
    ["HANG=stub_1", "HANG=stub_1:x", "MEMORY=latency", "MEMORY=outstanding=0", "MEMORY=stall=91", "MEMORY=speed=1"],
)
def test_an_option_that_makes_no_sense_is_an_error(
    xrt: Xrt, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], variable: str
) -> None:
    name, value = f"HYPERSONIC_EMU_{variable}".split("=", 1)
    monkeypatch.setenv(name, value)
    assert xrt.error("xrtDeviceLoadXclbinFile", xrt.device(), bytes(write_xclbin())) == "EINVAL"
    assert capfd.readouterr().err.startswith(f"[XRT] ERROR: {name}: '")


_LEAVES = """
import ctypes, sys, threading
xrt = ctypes.CDLL(sys.argv[1])
for name in ("xrtDeviceOpen", "xrtPLKernelOpen", "xrtBOAlloc", "xrtRunOpen"):
    getattr(xrt, name).restype = ctypes.c_void_p
device = ctypes.c_void_p(xrt.xrtDeviceOpen(0))
assert xrt.xrtDeviceLoadXclbinFile(device, sys.argv[2].encode()) == 0
uuid = (ctypes.c_ubyte * 16)()
xrt.xrtDeviceGetXclbinUUID(device, uuid)
buffer = ctypes.c_void_p(xrt.xrtBOAlloc(device, ctypes.c_size_t(4096), ctypes.c_uint64(0), 0))
run = ctypes.c_void_p(xrt.xrtRunOpen(ctypes.c_void_p(xrt.xrtPLKernelOpen(device, uuid, b"stub"))))
for index, value in enumerate((buffer, buffer, ctypes.c_uint32(int(sys.argv[3], 0)))):
    assert xrt.xrtRunSetArg(run, index, value) == 0
assert xrt.xrtRunStart(run) == 0
assert xrt.xrtRunWaitFor(run, 50) == 3
threading.Thread(target=xrt.xrtRunWait, args=(run,), daemon=True).start()
print("leaves")
"""


@pytest.mark.parametrize("hang", ["", "stub_1:1"])
def test_a_process_leaves_while_a_run_hangs(
    write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hang: str
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", hang)
    rows = "1" if hang else str(NEVER_COMPLETES)
    argv = [sys.executable, "-c", _LEAVES, str(library_path()), str(write_xclbin()), rows]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "leaves\n"), done.stderr
