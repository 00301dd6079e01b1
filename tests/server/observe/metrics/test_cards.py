# SPDX-License-Identifier: Apache-2.0
"""A card's own readings: in /metrics where it does, absent (not zero) where it does not."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.host.device import Device
from hypersonic.host.errors import DeviceNotFoundError
from hypersonic.server.backends.fpga.backend import FpgaBackend
from hypersonic.server.backends.fpga.cards import CardRegister
from hypersonic.server.core.config.read import read_config
from hypersonic.server.core.inference.card import CardReadings, CardStatus
from tests.host.conftest import Build
from tests.host.sysfs_tree import HWMON, XMC, MadeUp, fill
from tests.server.conftest import Running, Script, Serve, write_model

GIB = 1 << 30
TELLING = ("nv_gpu_memory_", "nv_gpu_power_", "nv_energy_", "fpga_card_")


def told(running: Running) -> dict[str, float]:
    """The series of a card as such."""
    with urllib.request.urlopen(running.metrics, timeout=20) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith(TELLING)]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_what_a_card_tells_is_there_once_however_many_units_and_models_use_it(serve: Serve, tmp_path: Path) -> None:
    readings = CardReadings({"fpga": 71.5, "dimm0": 48.0}, 54.25, 225.0, 3)
    card = CardStatus("FPGA-1", "u250", 64 * GIB, 1000, lambda _max_age_s: readings)
    for name in ("a", "b"):
        write_model(tmp_path / "models", name=name)
    with serve(Script(instances=2, card=card), repository=tmp_path / "models") as running:
        assert told(running) == {
            'nv_gpu_memory_total_bytes{gpu_uuid="FPGA-1"}': 64 * GIB,
            'nv_gpu_memory_used_bytes{gpu_uuid="FPGA-1"}': 1000,
            'nv_gpu_power_usage{gpu_uuid="FPGA-1"}': 54.25,
            'nv_gpu_power_limit{gpu_uuid="FPGA-1"}': 225,
            'fpga_card_power_watts{gpu_uuid="FPGA-1"}': 54.25,
            'fpga_card_temperature_celsius{gpu_uuid="FPGA-1",sensor="fpga"}': 71.5,
            'fpga_card_temperature_celsius{gpu_uuid="FPGA-1",sensor="dimm0"}': 48,
            'fpga_card_xclbin_reloads_total{gpu_uuid="FPGA-1"}': 3,
        }


def test_what_a_card_does_not_tell_is_absent_and_not_zero(serve: Serve) -> None:
    with serve() as running:
        assert told(running) == {}


def test_a_reading_is_at_most_one_metrics_interval_old(serve: Serve) -> None:
    asked: list[float] = []

    def read(max_age_s: float) -> CardReadings:
        asked.append(max_age_s)
        return CardReadings()

    with serve(Script(card=CardStatus("FPGA-1", "u250", read=read)), metrics_interval_ms=7000) as running:
        told(running)
    assert asked[-1] == 7.0


def loaded(backend: FpgaBackend, model: Path) -> CardStatus:
    """A card of a model that is loaded and closed again."""
    opened = backend.load(model / "1", read_config(model / "config.pbtxt", "facile"))
    card = opened.card(opened.instances[0])
    assert card is not None
    for instance in opened.instances:
        instance.close()
    opened.close()
    return card


def test_the_emulated_card_tells_its_memory_and_its_xclbins_and_has_no_sensor(build: Build, tmp_path: Path) -> None:
    xclbin, manifest = build
    text = config_pbtxt(manifest, preferred_batch_size=64, parameters={"slot_rows": "100", "slots": "2"})
    publish(tmp_path, xclbin.read_bytes(), manifest, text)
    backend = FpgaBackend()
    card = loaded(backend, tmp_path / "facile")
    units, slots, columns = 2, 2, 18 + 1
    assert (card.memory_bytes, card.held_bytes) == (64 * GIB, units * slots * 100 * columns * 4)
    nothing = CardReadings(
        {}, None, None, xclbin_reloads=0, bytes_to_card=0, bytes_from_card=0, held_bytes={"bank0": 0, "bank1": 0}
    )
    assert card.read(0) == nothing
    again = loaded(backend, tmp_path / "facile")
    assert again.gpu_uuid == card.gpu_uuid
    assert again.read(0) == card.read(0) == nothing._replace(xclbin_reloads=1)


def test_a_card_that_is_no_emulation_is_read_from_sysfs(device: Device, sysfs: MadeUp) -> None:
    """The tree is made up: no card has been read by this."""
    place = sysfs.card()
    fill(place / "hwmon" / "hwmon3", HWMON)
    fill(place / "xmc.u.1", XMC)
    device.target = Target.HW
    register = CardRegister(sysfs.root)
    card, none = (register.identify(device, index) for index in (0, 1))
    register.loaded(device, card)
    read = register.card(device, card, 0).read(0)
    assert (read.temperatures_c["fpga"], read.power_w, read.power_limit_w) == (71.0, 27.345678, 225.0)
    register.loaded(device, none)
    assert register.card(device, none, 0).read(0).temperatures_c == {}


def label(device: Device, sysfs: MadeUp, index: int = 0) -> str:
    """The gpu_uuid that a server which has just been started gives a card."""
    return CardRegister(sysfs.root).identify(device, index).gpu_uuid


def test_an_emulated_card_has_the_same_name_after_a_restart(device: Device, sysfs: MadeUp) -> None:
    assert label(device, sysfs) == label(device, sysfs) != label(device, sysfs, 1)
    assert device.memory_bytes == 64 * GIB


def test_a_card_with_a_serial_number_has_the_same_name_in_every_pod_slot_and_host(
    device: Device, sysfs: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.target = Target.HW
    fill(sysfs.card() / "xmc.u.1", {"serial_num": "2130048BS01B"})
    first = label(device, sysfs)
    monkeypatch.setattr("platform.node", lambda: "hypersonic-u250-7d9f-x2x4z")
    assert label(device, sysfs) == first
    moved = MadeUp(tmp_path / "other" / "sys")
    fill(moved.card("0000:5e:00.1") / "xmc.u.1", {"serial_num": "2130048BS01B"})
    assert label(device, moved) == first
    moved.card("0000:af:00.1")
    assert label(device, moved, 1) != first


def test_a_card_without_a_serial_number_is_named_by_its_node_and_its_address_and_not_by_its_pod(
    device: Device, sysfs: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.target = Target.HW
    sysfs.card("0000:5e:00.1")
    monkeypatch.setenv("NODE_NAME", "node-1")
    first = label(device, sysfs)
    monkeypatch.setattr("platform.node", lambda: "hypersonic-u250-7d9f-x2x4z")
    assert label(device, sysfs) == first
    sysfs.card("0000:3b:00.1")  # one more, before it in XRT's order
    assert label(device, sysfs, 1) == first != label(device, sysfs, 0)
    monkeypatch.setenv("NODE_NAME", "node-2")
    assert label(device, sysfs, 1) != first


def test_pods_of_one_host_name_their_own_cards(
    device: Device, sysfs: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod sees the sysfs of both cards and has the device node of one, which XRT calls card 0 in both of them."""
    device.target = Target.HW
    monkeypatch.setenv("NODE_NAME", "node-1")
    nodes = {"0000:3b:00.1": 128, "0000:5e:00.1": 129}
    pods = {given: MadeUp(tmp_path / given / "sys") for given in nodes}
    for given, pod in pods.items():
        for address, number in nodes.items():
            fill(pod.card(address) / "hwmon" / "hwmon3", {**HWMON, "temp4_input": f"{number}000"})
            pod.render_node(number, address, given=address == given)
    for given, pod in pods.items():
        register = CardRegister(pod.root)
        card = register.identify(device, 0)
        register.loaded(device, card)
        assert card.address == given
        assert register.index(card) == 0
        assert register.card(device, card, 0).read(0).temperatures_c["fpga"] == nodes[given]
    first, second = (label(device, pod) for pod in pods.values())
    assert first != second


def test_a_card_is_found_again_by_its_place_when_others_were_taken_out(device: Device, sysfs: MadeUp) -> None:
    places = [sysfs.card(address) for address in ("0000:3b:00.1", "0000:5e:00.1")]
    device.target = Target.HW
    register = CardRegister(sysfs.root)
    card = register.identify(device, 1)
    assert card.address == "0000:5e:00.1"
    assert register.index(card) == 1
    (sysfs.root / "bus/pci/drivers/xocl" / places[0].name).unlink()
    assert register.index(card) == 0
    assert register.identify(device, 0).gpu_uuid == card.gpu_uuid
    (sysfs.root / "bus/pci/drivers/xocl" / places[1].name).unlink()
    with pytest.raises(DeviceNotFoundError, match=r"no card is at 0000:5e:00\.1 any more"):
        register.index(card)
