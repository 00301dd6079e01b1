# SPDX-License-Identifier: Apache-2.0
"""Runs in PYNQ's own environment, by its own pytest: the real pynq on the emulated card. test_pynq.py starts it.

$PYNQ_CASES holds hw_emu.xclbin and two_banks.xclbin (FACILE, two compute units each), one_bank.xclbin (one), sw_emu all but
the first; rows.npy and golden.npy, what FACILE's own C++ answers; several.xclbin, several_rows.npy and several_golden.npy,
the same of a kernel with several inputs and outputs; models/bench_weights/1, weights_rows.npy and weights_golden.npy, those of
one that loads weights.
"""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# pynq's own imports warn on every new Python; what our code does must not
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pynq

import hypersonic.host.pynq
from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.kernel.registers import MAP_VERSION
from hypersonic.host.errors import BufferObjectError, ComputeUnitTimeoutError, DeviceClosedError, WeightsError

PLACE = Path(os.environ["PYNQ_CASES"])
ROWS = np.load(PLACE / "rows.npy")
GOLDEN = np.load(PLACE / "golden.npy")
COUNT = len(ROWS)


@pytest.fixture(autouse=True)
def _card_without_xclbin() -> Any:
    yield
    pynq.Device.active_device.close()


def load(name: str) -> Any:
    return pynq.Overlay(str(PLACE / name))


def pair(bank: Any = None, times: int = 1) -> tuple[Any, Any]:
    """Buffers of the rows, and of their answers. times: how often the rows are repeated."""
    rows, answers = np.concatenate([ROWS] * times), np.concatenate([GOLDEN] * times)
    x, y = pynq.allocate(rows.shape, "f4", target=bank), pynq.allocate(answers.shape, "f4", target=bank)
    x[:], y[:] = rows, 0
    x.sync_to_device()
    return x, y


def same_bits(y: Any, golden: Any = GOLDEN) -> bool:
    return np.asarray(y).tobytes() == np.asarray(golden).tobytes()


def test_several_tensors_are_the_fields_of_a_row() -> None:
    rows, golden = np.load(PLACE / "several_rows.npy"), np.load(PLACE / "several_golden.npy")
    overlay = load("several.xclbin")
    x, y = pynq.allocate(rows.shape, rows.dtype), pynq.allocate(golden.shape, golden.dtype)
    x["tracks"], x["flags"] = rows["tracks"], rows["flags"]
    x.sync_to_device()
    overlay.several_1.call(x, y, len(rows))
    y.sync_from_device()
    assert all(same_bits(np.ascontiguousarray(y[name]), np.ascontiguousarray(golden[name])) for name in golden.dtype.names)


def version_copy(directory: Path, *names: str) -> Path:
    for name in names:
        shutil.copy(PLACE / "models" / "bench_weights" / "1" / name, directory / name)
    return directory / "model.xclbin"


def weighted_pair(part: slice) -> tuple[Any, Any]:
    rows = np.load(PLACE / "weights_rows.npy")[part]
    x, y = pynq.allocate(rows.shape, rows.dtype), pynq.allocate(rows.shape, rows.dtype)
    x[:] = rows
    x.sync_to_device()
    return x, y


@pytest.mark.parametrize("names", [("model.xclbin", "weights.bin", "manifest.json"), ("model.xclbin", "weights.bin")])
def test_weights_beside_the_xclbin_are_loaded_by_the_first_call(tmp_path: Path, names: tuple[str, ...]) -> None:
    unit = pynq.Overlay(str(version_copy(tmp_path, *names))).bench_weights_1
    assert str(unit.signature) == "(x: 'void*', y: 'void*', rows: 'uint', w: 'void*' = None)"
    golden = np.load(PLACE / "weights_golden.npy")
    for part in (slice(0, 60), slice(60, 100)):
        x, y = weighted_pair(part)
        unit.call(x, y, len(x))
        y.sync_from_device()
        assert same_bits(y, golden[part])


def test_weights_may_be_a_buffer_of_ones_own(tmp_path: Path) -> None:
    overlay = pynq.Overlay(str(version_copy(tmp_path, "model.xclbin")))
    image = np.fromfile(PLACE / "models" / "bench_weights" / "1" / "weights.bin", np.uint8)
    w = pynq.allocate(image.shape, "u1")
    w[:] = image
    w.sync_to_device()
    x, y = weighted_pair(slice(0, 100))
    overlay.bench_weights_1.call(x, y, 100, w)
    y.sync_from_device()
    assert same_bits(y, np.load(PLACE / "weights_golden.npy"))
    small = pynq.allocate(image.size - 64, "u1")
    with pytest.raises(
        BufferObjectError, match=f"w of bench_weights_1 is {image.size - 64} bytes, expected {image.size} of weig"
    ):
        overlay.bench_weights_1.call(x, y, 100, w=small)


def test_weights_that_are_not_there_or_others_are_refused(tmp_path: Path) -> None:
    overlay = pynq.Overlay(str(version_copy(tmp_path, "model.xclbin", "manifest.json")))
    x, y = weighted_pair(slice(0, 100))
    with pytest.raises(WeightsError, match=r"weights\.bin cannot be read \(No such file"):
        overlay.bench_weights_1.call(x, y, 100)
    version_copy(tmp_path, "weights.bin")
    damaged = bytearray((tmp_path / "weights.bin").read_bytes())
    damaged[0] ^= 1
    (tmp_path / "weights.bin").write_bytes(damaged)
    with pytest.raises(WeightsError, match=r"weights\.bin has sha256 \w+, expected \w+ as in the manifest of 'bench_weights'"):
        overlay.bench_weights_1.call(x, y, 100)
    version_copy(tmp_path, "weights.bin")
    overlay.bench_weights_1.call(x, y, 100)


def test_an_import_is_all_that_pynq_needs_to_find_the_card() -> None:
    assert isinstance(pynq.Device.active_device, hypersonic.host.pynq.Card)
    assert [device.tag for device in pynq.Device.devices] == ["card0"]
    assert np.__version__.startswith("1.26")
    assert pynq.__version__ == "4.0.0"


@pytest.mark.parametrize("name", ["hw_emu.xclbin", "two_banks.xclbin"])
def test_every_compute_unit_answers_bit_by_bit_what_the_models_cpp_answers(name: str) -> None:
    overlay = load(name)
    for unit, bank in ((overlay.facile_1, overlay.bank0), (overlay.facile_2, overlay.bank1)):
        x, y = pair(bank)
        unit.call(x, y, COUNT)
        assert not np.asarray(y).any(), "sync_from_device was not called yet"
        y.sync_from_device()
        assert same_bits(y)
        del x, y


def test_an_overlay_is_found_by_a_relative_path_and_one_bank_needs_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLACE)
    overlay = pynq.Overlay("one_bank.xclbin")
    x, y = pair()
    overlay.facile_1.call(x, y, rows=COUNT)
    y.sync_from_device()
    assert same_bits(y)
    assert x.memory == overlay.bank0


def test_runs_of_both_compute_units_are_in_flight_at_once() -> None:
    overlay = load("two_banks.xclbin")
    pairs = [pair(bank) for bank in (overlay.bank0, overlay.bank1, overlay.bank0)]
    units = (overlay.facile_1, overlay.facile_2, overlay.facile_1)
    handles = [unit.start(x, y, COUNT) for unit, (x, y) in zip(units, pairs, strict=True)]
    for handle in handles:
        handle.wait()
        handle.wait()
        assert handle.done
    for _, y in pairs:
        y.sync_from_device()
        assert same_bits(y)


def test_a_kernel_tells_its_arguments_and_refuses_others() -> None:
    overlay = load("two_banks.xclbin")
    unit = overlay.facile_2
    assert str(unit.signature) == "(x: 'void*', y: 'void*', rows: 'uint')"
    assert [(a.name, a.index, a.mem) for a in unit.args.values()] == [("x", 1, "bank1"), ("y", 2, "bank1"), ("rows", 3, None)]
    x, y = pair(overlay.bank1)
    with pytest.raises(TypeError, match="missing a required argument: 'rows'"):
        unit.call(x, y)
    with pytest.raises(TypeError, match=r"argument x of facile_2 is a list, expected a buffer of pynq.allocate"):
        unit.call([1.0], y, 1)
    for rows in (-1, 1 << 32, 1.5):
        with pytest.raises(ValueError, match=f"argument rows of facile_2 is {rows}, expected a uint of 4 bytes"):
            unit.call(x, y, rows)
    unit.call(x, y, np.int64(COUNT))
    y.sync_from_device()
    assert same_bits(y)


def test_the_register_map_reads_what_the_hardware_says() -> None:
    overlay = load("hw_emu.xclbin")
    x, y = pair(overlay.bank0)
    registers = overlay.facile_1.register_map
    runs, busy = int(registers.RUNS), int(registers.BUSY_CYCLES)
    overlay.facile_1.call(x, y, COUNT)
    assert (int(registers.ROW_IN_BYTES), int(registers.ROW_OUT_BYTES)) == (72, 4)
    assert (int(registers.VERSION), int(registers.AXI_ERROR), int(registers.rows)) == (MAP_VERSION, 0, COUNT)
    assert int(registers.RUNS) == runs + 1
    assert int(registers.BUSY_CYCLES) >= busy + COUNT
    assert (int(registers.x), int(registers.y)) == (x.device_address, y.device_address)
    assert registers.CTRL.AP_IDLE == 1
    assert overlay.facile_1.read(0x58) == 72
    with pytest.raises(AttributeError):
        registers.RUNS = 0


def test_registers_are_written_through_the_card() -> None:
    unit = load("hw_emu.xclbin").facile_1
    unit.write(0x28, 17)
    assert unit.register_map.rows[:] == 17
    unit.register_map.rows = 18
    assert unit.read(0x28) == 18


def test_pynqs_dictionaries_are_filled() -> None:
    overlay = load("two_banks.xclbin")
    unit = overlay.ip_dict["facile_2"]
    assert (unit["type"], unit["cu_name"], unit["cu_index"]) == ("hypersonic:kernel:facile:1.0", "facile:facile_2", 1)
    assert unit["registers"]["x"]["memory"] == "bank1"
    assert {tag for tag, memory in overlay.mem_dict.items() if memory["used"]} == {"bank0", "bank1"}
    assert overlay.clock_dict["clock0"] == {"name": "DATA_CLK", "frequency": 300, "type": "DATA"}
    assert "facile_1" in dir(overlay)
    assert repr(overlay.bank1) == "Bank(bank1, 16384 MiB)"
    assert pynq.Device.active_device.name.startswith("xilinx_u250")


def test_a_program_keeps_its_own_driver() -> None:
    class Facile(hypersonic.host.pynq.Kernel):
        bindto = ("hypersonic:kernel:facile:1.0",)

        def energies(self, bank: Any) -> Any:
            x, y = pair(bank)
            self.call(x, y, COUNT)
            y.sync_from_device()
            return np.array(y)

    try:
        overlay = load("one_bank.xclbin")
        assert same_bits(overlay.facile_1.energies(overlay.bank0))
    finally:
        Facile.unregister()
    assert type(load("one_bank.xclbin").facile_1).__name__ == "Kernel"


def test_a_file_that_is_none_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no-such\.xclbin does not exist"):
        load("no-such.xclbin")
    broken = tmp_path / "broken.xclbin"
    broken.write_bytes((PLACE / "one_bank.xclbin").read_bytes()[:1000])
    with pytest.raises(XclbinError, match=r"broken\.xclbin: the file is 1000 bytes, its header says .*truncated"):
        pynq.Overlay(str(broken))


@pytest.mark.parametrize("name", ["two_banks.xclbin", "hw_emu.xclbin"])
def test_a_buffer_on_the_wrong_bank_is_refused_and_the_right_one_is_named(name: str) -> None:
    overlay = load(name)
    x, y = pair(overlay.bank0)
    expected = r"argument x of facile_2 must be in bank1, the buffer is in bank0: allocate\(\.\.\., target=overlay\.bank1\)"
    with pytest.raises(BufferObjectError, match=expected):
        overlay.facile_2.call(x, y, COUNT)
    overlay.facile_1.call(x, y, COUNT)


@pytest.mark.parametrize("name", ["two_banks.xclbin", "hw_emu.xclbin"])
def test_more_rows_than_a_buffer_has_room_for_are_refused(name: str) -> None:
    overlay = load(name)
    x, y = pair(overlay.bank0)
    small = overlay.bank0.allocate(COUNT - 1, "f4")
    with pytest.raises(
        BufferObjectError, match=f"argument x of facile_1 has room for {COUNT} rows of 72 bytes, the run is {COUNT + 1}"
    ):
        overlay.facile_1.call(x, y, COUNT + 1)
    with pytest.raises(BufferObjectError, match=f"argument y of facile_1 has room for {COUNT - 1} rows of 4 bytes"):
        overlay.facile_1.call(x, small, COUNT)


def test_memory_without_a_bank_is_refused_where_there_are_several() -> None:
    load("two_banks.xclbin")
    with pytest.raises(BufferObjectError, match="the kernels use the banks bank0, bank1: say which"):
        pynq.allocate(4)


def test_a_bank_that_is_full_is_an_error_and_not_a_crash() -> None:
    overlay = load("one_bank.xclbin")
    with pytest.raises(BufferObjectError, match="cannot be allocated"):
        overlay.bank0.allocate(1 << 44, "u1")
    with pytest.raises(ValueError, match=r"shape is \(3, 0\), expected 1 or more in every dimension"):
        overlay.bank0.allocate((3, 0))


def test_a_freed_buffer_is_not_used_again() -> None:
    overlay = load("one_bank.xclbin")
    x, y = pair()
    with x:
        overlay.facile_1.call(x, y, COUNT)
    for use in (x.sync_to_device, x[3:].sync_from_device, lambda: overlay.facile_1.call(x, y, COUNT)):
        with pytest.raises(BufferObjectError, match="the buffer was freed"):
            use()
    assert same_bits(x, ROWS), "the memory under an array that is still referred to stays"


def test_a_view_syncs_its_own_rows_only() -> None:
    load("one_bank.xclbin")
    buffer = pynq.allocate((4, 8), "u4")
    buffer[:] = 1
    buffer.sync_to_device()
    buffer[:] = 2
    buffer[1:3].sync_from_device()
    assert np.asarray(buffer).tolist() == [[2] * 8, [1] * 8, [1] * 8, [2] * 8]
    with pytest.raises(BufferObjectError, match="is not one range"):
        buffer[:, 1].sync_from_device()


def test_a_copy_of_a_buffer_is_no_buffer() -> None:
    overlay = load("one_bank.xclbin")
    x, y = pair()
    for array in (x.copy(), x + 1, np.empty_like(x), (x * 2)[3:]):
        with pytest.raises(BufferObjectError, match="in the host's memory only"):
            array.sync_to_device()
    with pytest.raises(BufferObjectError, match=r"argument x of facile_1 is a view from byte 72: pass a buffer's start"):
        overlay.facile_1.call(x[1:], y, 1)


def test_a_run_keeps_its_buffers_on_the_card_until_it_has_ended() -> None:
    overlay, times = load("hw_emu.xclbin"), 20
    x, y = pair(overlay.bank0, times)
    handle = overlay.facile_1.start(x, y, times * COUNT)
    with pytest.raises(BufferObjectError, match="used by 1 runs in flight: wait"):
        x.freebuffer()
    with pytest.raises(ComputeUnitTimeoutError, match="a run of facile_1 did not complete within 1 ms: wait"):
        handle.wait(timeout_ms=1)
    del x
    handle.wait()
    y.sync_from_device()
    assert same_bits(y, np.concatenate([GOLDEN] * times))


def test_another_xclbin_waits_for_the_buffers_of_the_present_one() -> None:
    overlay = load("two_banks.xclbin")
    x, y = pair(overlay.bank0)
    view = y[5:]
    with pytest.raises(BufferObjectError, match="card 0 has 2 buffers that are still referred to, 0 runs are in flight"):
        load("one_bank.xclbin")
    again = load("two_banks.xclbin")
    again.facile_1.call(x, y, COUNT)
    del x, y
    with pytest.raises(BufferObjectError, match="card 0 has 1 buffers"):
        load("one_bank.xclbin")
    del view
    load("one_bank.xclbin")
    with pytest.raises(RuntimeError, match="not currently loaded"):
        _ = overlay.facile_1
    with pytest.raises(DeviceClosedError, match="compute unit facile_1 is closed"):
        again.__dict__["_ip_map"].facile_1.call(pynq.allocate(1), pynq.allocate(1), 0)


def test_a_card_without_an_xclbin_says_how_to_load_one() -> None:
    with pytest.raises(DeviceClosedError, match=r"card 0 has no xclbin: pynq.Overlay\('model.xclbin'\) loads one"):
        pynq.allocate(4)
    overlay = pynq.Overlay(str(PLACE / "one_bank.xclbin"), download=False)
    with pytest.raises(DeviceClosedError, match="card 0 has no xclbin"):
        _ = overlay.facile_1
    overlay.download()
    assert overlay.facile_1.read(0) == 4
