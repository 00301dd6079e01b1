# SPDX-License-Identifier: Apache-2.0
"""The report of `hypersonic devices` on a sysfs tree written after the source of XRT's driver, not read from a card."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hypersonic import __version__, cli
from hypersonic.firmware.target import Target
from hypersonic.host import library
from hypersonic.host.card_facts import CardFacts, UnitFacts, driver_version, read_facts
from hypersonic.host.devices import devices, devices_as_data, find_devices
from hypersonic.host.library import OVERRIDE
from tests.host.sysfs_tree import CARD, HWMON, MadeUp, fill
from tests.support.optional import needs, skip

INTERFACE, XCLBIN = "807a580e5f507d48484d26c2217aa787", "6e1f4b0cfa2d4c7ba1f50b6bb6a7b2aa"
SHELL = "xilinx_u250_gen3x16_xdma_4_1_202210_1"
#: as the driver's source prints them
LOADED = {
    "interface_uuids": INTERFACE,
    "xclbinuuid": "6e1f4b0c-fa2d-4c7b-a1f5-0b6bb6a7b2aa",
    "kds_custat_raw": "0,0,facile:facile_1,0x800000,0x4,1234567\n0,1,facile:facile_2,0x810000,0x1,8",
    "kdsstat": "xclbin:\t\t\tx\noutstanding execs:\t2\ntotal execs:\t\t7\ncontexts:\t\t2\nclient pid:\n\t\t\t4711\n\t\t\t815\n",
    "memstat_raw": "2359296 4 0\n0 0 0\n2359296 4 0\n18446744073709551594 -22 18446744073709551594\n4718592 8 0\n",
    "link_speed": "3",
    "link_width": "16",
    "dev_offline": "0",
}


def write(card: Path, **files: str) -> None:
    for name, text in {**LOADED, **files}.items():
        (card / name).write_text(f"{text}\n")


@pytest.fixture
def u250(sysfs: MadeUp) -> Path:
    """A card in use."""
    card = sysfs.card()
    write(card)
    fill(card / "hwmon" / "hwmon3", HWMON)
    fill(card / "rom.u.1", {"VBNV": SHELL})
    fill(card / "icap.u.15", {"clock_freqs": "300\n500\n0\n0"})
    fill(card / "xmc.u.7", {"max_power": "2"})
    fill(sysfs.root / "module" / "xocl", {"version": "2.13.466,f5505e402c2ca1ffe45eb6d3a9399b23a0dc8776"})
    return card


def rows(text: str) -> dict[str, dict[str, str]]:
    """The printed blocks: title -> label -> value."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return {lines[0]: {line[2:16].strip(): line[16:] for line in lines[1:]} for lines in blocks}


def test_a_card_in_use_is_shown_with_its_shell_xclbin_clocks_and_temperatures(faulty: Any, sysfs: MadeUp, u250: Path) -> None:
    shown = rows(devices(sysfs.root))
    assert shown[f"card 0  {SHELL} at {CARD}"] == {
        "status": "in use by process 815, 4711",
        "interface": INTERFACE,
        "xclbin": XCLBIN,
        "compute units": "facile_1 (1,234,567 runs), facile_2 (8 runs)",
        "clocks": "data 300 MHz, kernel 500 MHz",
        "temperatures": "pcb_top_front 38 C, fpga 71 C, dimm0 48 C",
        "power": "27.3 W of at most 225 W",
        "memory in use": "4.5 MiB in 8 buffers",
        "PCIe": "gen 3 x16",
    }
    assert shown["XRT (version not known)"]["driver"] == "xocl 2.13.466"
    assert shown["emulated cards 0 to 3  SIMULATED"]["clocks"].startswith("not known")


def test_the_command_says_which_version_it_is_and_which_cards_are_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    assert cli.main(["devices"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"hypersonic {__version__}"
    assert "emulated card 0  SIMULATED" in rest
    assert cli.main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hypersonic"] == __version__


def test_programs_get_the_same_as_json(faulty: Any, sysfs: MadeUp, u250: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    data = json.loads(json.dumps(devices_as_data(sysfs.root)))
    card, emulated = data["cards"]
    assert {key: card[key] for key in ("index", "address", "platform", "simulated", "process_ids")} == {
        "index": 0, "address": CARD, "platform": SHELL, "simulated": False, "process_ids": [815, 4711],
    }  # fmt: skip
    assert (card["clocks_mhz"], card["xclbin_uuids"]) == ({"data": 300, "kernel": 500}, [XCLBIN])
    assert (card["temperatures_c"]["fpga"], card["power_w"], card["memory_used_bytes"]) == (71.0, 27.345678, 4718592)
    assert card["compute_units"][1] == {"kernel": "facile", "name": "facile_2", "runs": 8}
    assert emulated == {"index": 0, "simulated": True, "targets": ["sw_emu", "hw_emu"], "status": "ready"}
    assert data["xrt"]["driver"] == "2.13.466"


def test_a_card_that_tells_nothing_is_shown_with_nothing_known(faulty: Any, sysfs: MadeUp) -> None:
    sysfs.card()
    shown = rows(devices(sysfs.root))[f"card 0  unknown shell at {CARD}"]
    assert shown["status"] == "ready"
    assert (shown["xclbin"], shown["compute units"]) == ("none loaded", "none")
    labels = ("interface", "clocks", "temperatures", "power", "memory in use", "PCIe")
    assert [shown[label] for label in labels] == ["not known"] * len(labels)


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({"kdsstat": "contexts:\t\t0\nclient pid:\n"}, "ready"),
        ({"dev_offline": "1"}, "offline: it is being reset"),
        ({"ready": "0x0"}, "not ready: its shell is not loaded"),
        ({}, "in use by process 815, 4711"),
    ],
)
def test_the_status_says_what_has_to_be_mended_first(
    faulty: Any, sysfs: MadeUp, u250: Path, files: dict[str, str], status: str
) -> None:
    write(u250, **files)
    assert find_devices(sysfs.root)[0].status.startswith(status)


def test_a_card_that_left_the_bus_while_its_driver_holds_on_is_gone(faulty: Any, sysfs: MadeUp) -> None:
    (sysfs.root / "bus/pci/drivers/xocl" / CARD).mkdir()
    assert find_devices(sysfs.root)[0].status.startswith("gone")
    assert "gone" in devices(sysfs.root)


def test_cards_stand_in_xrts_order_those_that_are_ready_first(faulty: Any, sysfs: MadeUp) -> None:
    for address, ready in (("0000:3b:00.1", "0"), ("0000:5e:00.1", "1"), ("0000:af:00.1", "0x1")):
        sysfs.card(address, ready)
    cards = find_devices(sysfs.root)
    assert [card.facts.address for card in cards if card.facts] == ["0000:5e:00.1", "0000:af:00.1", "0000:3b:00.1"]
    assert [card.index for card in cards] == [0, 1, 2, 0, 1, 2, 3]


def test_a_container_without_the_device_node_of_a_card_is_told_so(faulty: Any, sysfs: MadeUp) -> None:
    sysfs.card()
    sysfs.render_node(128, given=False)
    shown = next(block for title, block in rows(devices(sysfs.root)).items() if title.startswith("XRT"))
    assert shown["cards"].startswith(
        "none: the host has 1, but this process has the device node /dev/dri/renderD* of none; ask for a card"
    )
    assert all(Target.HW not in card.targets for card in find_devices(sysfs.root))


def test_a_driver_of_another_release_than_the_library_is_pointed_out(
    faulty: Any, sysfs: MadeUp, u250: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = tmp_path / "libxrt_coreutil.so.2.18.0"
    released.write_bytes(Path(os.environ[OVERRIDE]).read_bytes())
    monkeypatch.setenv(OVERRIDE, str(released))
    shown = rows(devices(sysfs.root))["XRT 2.18.0"]
    assert shown["library"] == str(released)
    assert shown["driver"] == "xocl 2.13.466, of another release than the library (2.18.0): install both from one package"


def test_without_xrt_that_is_said_and_what_to_install(sysfs: MadeUp, u250: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OVERRIDE, raising=False)
    monkeypatch.setattr(library, "_installed_path", lambda: "/nowhere/libxrt_coreutil.so.2")
    shown = rows(devices(sysfs.root))
    assert "install XRT (Debian: libxrt1)" in shown["XRT is not installed"]["why"]
    assert not [title for title in shown if title.startswith("card")]
    assert all(Target.HW not in card.targets for card in find_devices(sysfs.root))
    assert "libxrt_coreutil" in devices_as_data(sysfs.root)["xrt"]["problem"]


def test_xrt_without_a_card_is_told_apart_from_no_xrt_and_the_next_step_is_named(faulty: Any, tmp_path: Path) -> None:
    shown = devices(tmp_path)
    assert "no card is bound to its driver xocl" in shown
    assert "docs/manual.md" in shown
    assert "xocl is not loaded" in shown


def test_without_the_simulator_there_is_no_emulated_card(faulty: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "EMULATION", "hypersonic.sim.nowhere")
    assert find_devices(tmp_path) == ()
    assert "no emulated cards" in devices(tmp_path)


@pytest.mark.parametrize("text", ["", "x", "-1", "0" * 5000, "\x00\xff", "1,2,3", "9" * 40, "a:b,0x,0x,1", "[{", "../../etc"])
def test_whatever_a_driver_prints_is_a_fact_or_absent(sysfs: MadeUp, text: str) -> None:
    card = sysfs.card()
    write(card, **dict.fromkeys(LOADED, text))
    fill(card / "icap.u.1", {"clock_freqs": text})
    fill(card / "rom.u.1", {"VBNV": f"{text} {text}"})
    facts = read_facts(CARD, sysfs.root)
    assert (facts.platform, facts.compute_units, facts.xclbin_uuids, dict(facts.clocks_mhz)) == (None, (), (), {})
    assert not facts.process_ids


def test_units_are_read_as_older_drivers_print_them_too(sysfs: MadeUp) -> None:
    write(sysfs.card(), kds_custat_raw="0,facile:facile_1,0x1800000,0x4,12\n1,facile:facile_2,0x1810000,0x4,0\0")
    expected = (UnitFacts("facile", "facile_1", 12), UnitFacts("facile", "facile_2", 0))
    assert read_facts(CARD, sysfs.root).compute_units == expected


def test_no_xclbin_is_loaded_where_the_driver_prints_zeros(sysfs: MadeUp) -> None:
    write(sysfs.card(), xclbinuuid="00000000-0000-0000-0000-000000000000")
    assert read_facts(CARD, sysfs.root).xclbin_uuids == ()


def test_an_address_that_is_none_is_a_card_that_is_gone(sysfs: MadeUp) -> None:
    assert read_facts("../../etc", sysfs.root) == CardFacts("../../etc", present=False)
    assert driver_version(sysfs.root) is None


def test_real_xrt_is_shown_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = next((path for path in Path("/usr/lib").glob("*-linux-gnu/libxrt_coreutil.so.2")), None)
    if real is None:
        skip(needs("libxrt1"))
    monkeypatch.setenv(OVERRIDE, str(real))
    (title,) = [title for title in rows(devices(tmp_path)) if title.startswith("XRT")]
    assert re.fullmatch(r"XRT 2\.\d+\.\d+", title)
