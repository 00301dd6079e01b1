# SPDX-License-Identifier: Apache-2.0
"""Temperature and power out of a sysfs tree that is made up after the sources of XRT's driver: no card has been read yet."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersonic.host.sysfs import card_addresses
from hypersonic.host.telemetry import NOTHING, CardSensors, Telemetry, read_telemetry, serial_number
from tests.host.sysfs_tree import CARD, HWMON, XMC, MadeUp, fill


def test_hwmon_gives_degrees_by_sensor_and_watts(sysfs: MadeUp) -> None:
    fill(sysfs.card() / "hwmon" / "hwmon3", HWMON)
    assert sysfs.read() == Telemetry({"pcb_top_front": 38.0, "fpga": 71.0, "dimm0": 48.0}, 27.345678, None)


def test_without_hwmon_the_drivers_own_attributes_tell(sysfs: MadeUp) -> None:
    fill(sysfs.card() / "xmc.u.19922944", XMC)
    assert sysfs.read() == Telemetry({"fpga": 70.0, "dimm0": 47.0}, 26.0, 225.0)


def test_where_both_are_hwmon_counts_and_the_power_level_is_the_attributes(sysfs: MadeUp) -> None:
    card = sysfs.card()
    fill(card / "hwmon" / "hwmon3", HWMON)
    fill(card / "xmc.u.19922944", XMC)
    telemetry = sysfs.read()
    assert (telemetry.temperatures_c["fpga"], telemetry.power_w, telemetry.power_limit_w) == (71.0, 27.345678, 225.0)


@pytest.mark.parametrize(
    "text", ["", "0", "N/A", "nan", "1e3", "999999999", "-300000", "0x1000", "9" * 100, "71000 72000", "\x00\xff"]
)
def test_what_is_no_plausible_number_is_absent(sysfs: MadeUp, text: str) -> None:
    card = sysfs.card()
    fill(card / "hwmon" / "hwmon0", {"temp4_input": text, "temp4_label": "FPGA TEMP"})
    fill(card / "xmc.u.1", {"xmc_fpga_temp": text, "max_power": text.replace("0", "7") or "x"})
    assert sysfs.read() == NOTHING


def test_a_power_that_no_card_takes_is_absent(sysfs: MadeUp) -> None:
    fill(sysfs.card() / "hwmon" / "hwmon0", {"power1_input": "9000000000000"})
    assert sysfs.read() == NOTHING


def test_a_label_becomes_a_short_plain_name(sysfs: MadeUp) -> None:
    labels = {"temp1_label": 'x"} 1\nfpga', "temp2_label": "y" * 500, "temp3_label": "\u202e"}
    fill(sysfs.card() / "hwmon" / "hwmon0", {**labels, **{f"temp{n}_input": "50000" for n in (1, 2, 3)}})
    assert sysfs.read().temperatures_c == {"x_1_fpga": 50.0, "y" * 32: 50.0}


def test_a_card_without_sensors_or_one_that_is_gone_tells_nothing(sysfs: MadeUp) -> None:
    sysfs.card()
    assert sysfs.read() == NOTHING
    assert sysfs.read("0000:ff:00.0") == NOTHING
    assert read_telemetry(CARD, sysfs.root / "nowhere") == NOTHING


@pytest.mark.parametrize("address", ["../../../etc", "", "0000:3b:00.1/..", "0000:3b:00.9", ".", "0000:3b:00.1\n"])
def test_only_an_address_is_looked_up(sysfs: MadeUp, address: str) -> None:
    fill(sysfs.card() / "hwmon" / "hwmon3", HWMON)
    assert sysfs.read(address) == NOTHING


def test_nothing_is_read_outside_of_the_card(sysfs: MadeUp, tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", HWMON)
    card = sysfs.card()
    fill(card / "hwmon" / "hwmon0", {"temp4_label": "FPGA TEMP"})
    (card / "hwmon" / "hwmon0" / "temp4_input").symlink_to(tmp_path / "elsewhere" / "temp4_input")
    (card / "hwmon" / "hwmon1").symlink_to(tmp_path / "elsewhere")
    (card / "xmc.u.1").symlink_to(card / "xmc.u.1")
    assert sysfs.read() == NOTHING
    (sysfs.root / "bus/pci/devices/0000:3c:00.1").symlink_to(tmp_path)
    assert sysfs.read("0000:3c:00.1") == NOTHING


def test_a_pipe_or_a_directory_in_place_of_a_file_blocks_nobody(sysfs: MadeUp) -> None:
    monitor = sysfs.card() / "hwmon" / "hwmon0"
    fill(monitor, {"power1_input": "1000000"})
    os.mkfifo(monitor / "temp1_input")
    (monitor / "temp2_input").mkdir()
    assert sysfs.read() == Telemetry({}, 1.0, None)


def test_a_file_without_an_end_is_not_read_to_it(sysfs: MadeUp) -> None:
    monitor = sysfs.card() / "hwmon" / "hwmon0"
    fill(monitor, {"temp1_input": "5" * (1 << 20)})
    with (monitor / "temp2_input").open("wb") as file:
        file.truncate(1 << 40)
    assert sysfs.read() == NOTHING


def test_cards_are_counted_as_xrt_does_those_that_are_ready_first(sysfs: MadeUp) -> None:
    sysfs.card("0000:3b:00.1", ready="0")
    sysfs.card("0000:5e:00.1")
    sysfs.card("0000:af:00.1")
    (sysfs.root / "bus/pci/drivers/xocl/bind").write_text("")
    assert card_addresses(sysfs.root) == ["0000:5e:00.1", "0000:af:00.1", "0000:3b:00.1"]
    assert card_addresses(sysfs.root / "nowhere") == []


def test_a_container_has_the_cards_whose_device_nodes_it_was_given(sysfs: MadeUp) -> None:
    """It sees the sysfs of all cards of its host."""
    for number, address in enumerate(("0000:3b:00.1", "0000:5e:00.1", "0000:af:00.1")):
        sysfs.card(address)
        sysfs.render_node(128 + number, address, given=number == 1)
    assert card_addresses(sysfs.root) == ["0000:5e:00.1"]


def test_a_card_without_a_render_node_now_stays_in_the_list(sysfs: MadeUp) -> None:
    """Its driver removes the node while the card is reset."""
    sysfs.card("0000:3b:00.1", ready="0")
    sysfs.card("0000:5e:00.1")
    sysfs.render_node(129, "0000:5e:00.1")
    assert card_addresses(sysfs.root) == ["0000:5e:00.1", "0000:3b:00.1"]


@pytest.mark.parametrize("folder", ["xmc.u.1", "hwmon_sdm.u.1"])
def test_a_card_has_the_serial_number_that_its_board_reports(sysfs: MadeUp, folder: str) -> None:
    fill(sysfs.card() / folder, {"serial_num": "2130048BS01B"})
    assert serial_number(CARD, sysfs.root) == "2130048BS01B"


@pytest.mark.parametrize("reported", ["", "000000000000", "unknown!", "..", "2130048BS01B" * 10, "\xff\xfe"])
def test_what_is_no_serial_number_is_none(sysfs: MadeUp, reported: str) -> None:
    fill(sysfs.card() / "xmc.u.1", {"serial_num": reported})
    assert serial_number(CARD, sysfs.root) is None
    assert serial_number("0000:ff:00.1", sysfs.root) is None
    assert serial_number("../../etc", sysfs.root) is None


def test_a_reading_is_used_again_until_it_is_too_old() -> None:
    readings = iter([Telemetry(power_w=1.0), Telemetry(power_w=2.0)])
    sensors = CardSensors(lambda: next(readings), patience_s=30)
    assert [sensors.latest(60).power_w for _ in range(3)] == [1.0, 1.0, 1.0]
    assert sensors.latest(0).power_w == 2.0


def test_a_driver_that_hangs_delays_nobody_and_is_asked_once() -> None:
    hang, asked = threading.Event(), threading.Semaphore(0)

    def read() -> Telemetry:
        asked.release()
        hang.wait(60)
        return Telemetry(power_w=1.0)

    sensors = CardSensors(read, patience_s=0.001)
    assert [sensors.latest(0) for _ in range(3)] == [NOTHING] * 3
    assert asked.acquire(timeout=30)
    assert not asked.acquire(blocking=False)
    patient = CardSensors(read, patience_s=30)
    hang.set()
    assert patient.latest(1).power_w == 1.0


def test_while_a_driver_hangs_its_last_reading_has_to_do() -> None:
    hang = threading.Event()

    def read() -> Iterator[Telemetry]:
        yield Telemetry(power_w=1.0)
        hang.wait(60)
        yield Telemetry(power_w=2.0)

    readings = read()
    sensors = CardSensors(lambda: next(readings), patience_s=30)
    assert sensors.latest(0).power_w == 1.0
    sensors._patience_s = 0.001
    assert sensors.latest(0).power_w == 1.0
    hang.set()
