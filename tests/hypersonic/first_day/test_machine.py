# SPDX-License-Identifier: Apache-2.0
"""The steps before any bitstream, on a made-up sysfs and with stand-ins for AMD's tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.platform import find_platform
from hypersonic.first_day import machine
from hypersonic.first_day.day import Day
from hypersonic.first_day.errors import (
    NoCardError,
    NoToolError,
    NotReadyError,
    ReleaseError,
    ShellError,
    SlowLinkError,
)
from hypersonic.first_day.run import chosen, run_steps
from hypersonic.host.devices import Xrt
from hypersonic.host.library import OVERRIDE
from hypersonic.sim.card.library import library_path
from tests.host.sysfs_tree import CARD, MadeUp, fill
from tests.hypersonic.first_day.own_day import make_day

U250 = find_platform("u250")
FACTS = {"interface_uuids": U250.interface_uuid, "link_speed": "3", "link_width": "16", "dev_offline": "0"}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """A sysfs without a card, and a library in place of XRT's."""
    monkeypatch.setenv(OVERRIDE, str(library_path()))
    return MadeUp(tmp_path / "sys")


def with_card(tree: MadeUp, ready: str = "1", shell: str = U250.vbnv, **facts: str) -> Path:
    card = tree.card(ready=ready)
    for name, text in {**FACTS, **facts}.items():
        (card / name).write_text(f"{text}\n")
    fill(card / "rom.u.1", {"VBNV": shell})
    return card


@pytest.fixture
def day(tree: MadeUp, tmp_path: Path) -> Day:
    return make_day(tmp_path, rehearsal=False, root=tree.root)


def test_a_card_with_the_platforms_shell_and_its_full_link_is_as_expected(tree: MadeUp, day: Day) -> None:
    with_card(tree)
    assert run_steps(day, chosen("", "devices")) == 0
    (card,) = [card for card in day.record.files["devices.json"]["cards"] if not card["simulated"]]
    assert card["platform"] == U250.vbnv


def test_a_host_without_a_card_is_told_of_the_rehearsal(day: Day) -> None:
    with pytest.raises(NoCardError, match=r"there is no card 0: .*hypersonic first-day --rehearse"):
        machine.show_devices(day)


@pytest.mark.parametrize(
    ("facts", "error", "text"),
    [
        ({"ready": "0"}, NotReadyError, "card 0 is not ready"),
        ({"dev_offline": "1"}, NotReadyError, "card 0 is offline"),
        ({"kdsstat": "client pid:\n\t815"}, NotReadyError, "in use by process 815, expected ready"),
        ({"shell": "xilinx_u250_gen3x16_base_3"}, ShellError, "has the shell xilinx_u250_gen3x16_base_3, expected xilinx_u250"),
        ({"interface_uuids": "12" * 16}, ShellError, "has the interface 1212"),
        ({"link_speed": "1"}, SlowLinkError, "the link is Gen1 x16, expected Gen3 x16"),
        ({"link_width": "8"}, SlowLinkError, "the link is Gen3 x8, expected Gen3 x16"),
    ],
)
def test_a_card_that_is_not_as_the_platform_says_is_a_deviation(
    facts: dict[str, str], error: type[Exception], text: str, tree: MadeUp, day: Day
) -> None:
    with_card(tree, **facts)
    with pytest.raises(error, match=text):
        machine.show_devices(day)
    assert run_steps(day, chosen("", "devices")) == 2, "the machine has to be corrected first"


def test_library_and_driver_of_two_releases_are_a_deviation(tree: MadeUp, day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    with_card(tree)
    monkeypatch.setattr(machine, "find_xrt", lambda _root: Xrt("libxrt", version="2.13.466", driver="2.16.204"))
    with pytest.raises(ReleaseError, match=r"XRT's library is 2.13.466, its driver is 2.16.204, expected the same release"):
        machine.show_devices(day)


def stand_in(directory: Path, name: str, text: str, code: int = 0) -> None:
    """A program that prints its arguments and a text."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\necho \"$@\"\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    (directory / name).chmod(0o755)


PASSED = "Test 1 : dma\n  Host -> PCIe -> FPGA write bandwidth = 9120.1 MB/s\n  Test Status : [PASSED]"


@pytest.mark.parametrize("tool", machine.TOOLS)
def test_amds_tests_that_pass_are_as_expected_and_their_output_is_kept(
    tool: str, tree: MadeUp, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(tree)
    stand_in(tmp_path / "bin", tool, PASSED)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert run_steps(day, chosen("", "validate")) == 0
    said = day.record.results[0].lines
    assert "  Host -> PCIe -> FPGA write bandwidth = 9120.1 MB/s" in said
    assert any(line.startswith("predicted: 9.3 GB/s to the card") for line in said)
    assert day.record.files["xrt-validate.txt"] == f"validate --device {CARD}\n{PASSED}\n"
    assert day.record.files["xrt-examine.txt"].startswith(f"examine --device {CARD} --report all\n")


@pytest.mark.parametrize(("text", "code"), [(PASSED.replace("PASSED", "FAILED"), 0), (PASSED, 1), ("", 1)])
def test_a_test_of_amds_that_fails_is_found_by_validate(
    text: str, code: int, tree: MadeUp, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(tree)
    stand_in(tmp_path / "bin", "xrt-smi", text, code)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert run_steps(day, chosen("", "validate")) == 1
    assert f"DEVIATION, a test failed: xrt-smi validate ended with {code}" in "\n".join(day.record.results[0].lines)
    assert "xrt-validate.txt" in day.record.files


def test_a_host_without_amds_tool_says_what_to_install(
    tree: MadeUp, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(tree)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XILINX_XRT", str(tmp_path))
    monkeypatch.setattr(machine, "TOOLS", ("xrt-smi-not-there",))
    with pytest.raises(NoToolError, match="install XRT's own package"):
        machine.validate(day)
    assert run_steps(day, chosen("", "validate")) == 2
    assert "DEVIATION, no tool of AMD's: " in "\n".join(day.record.results[0].lines)
