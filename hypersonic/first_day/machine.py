# SPDX-License-Identifier: Apache-2.0
"""The steps before any bitstream: the cards of the host, and AMD's own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hypersonic.firmware.platform import Platform
from hypersonic.first_day.day import Day
from hypersonic.first_day.errors import (
    NoCardError,
    NoToolError,
    NotReadyError,
    ReleaseError,
    SelfTestError,
    ShellError,
    SlowLinkError,
)
from hypersonic.host.card_facts import CardFacts
from hypersonic.host.devices import CardInfo, devices, devices_as_data, find_devices, find_xrt
from hypersonic.host.release import release_differs

#: AMD's tool, by its newer and its older name
TOOLS = ("xrt-smi", "xbutil")
#: the longest that AMD's tests may take, and the most that is kept of their output
_TIMEOUT_S, _MOST_CHARACTERS = 1800, 1 << 20

_FAILED = re.compile(r"\bFAILED\b")
_TOLD = re.compile(r"\bPASSED\b|\bFAILED\b|\bSKIPPED\b|bandwidth", re.IGNORECASE)


def show_devices(day: Day) -> None:
    """Print `hypersonic devices`, and check the card. Raises a DeviationError."""
    day.record.say(devices(day.root))
    day.record.files["devices.json"] = devices_as_data(day.root)
    if day.rehearsal:
        if not any(card.facts is None and card.index == day.card for card in find_devices(day.root)):
            raise NoCardError(f"there is no emulated card {day.card}: unset HYPERSONIC_EMU_DEVICES, or give it a larger number")
        return
    facts = check_card(day)
    xrt = find_xrt(day.root)
    if release_differs(xrt.version, xrt.driver):
        raise ReleaseError(f"XRT's library is {xrt.version}, its driver is {xrt.driver}, expected the same release")
    check_link(facts, day.platform)


def check_card(day: Day) -> CardFacts:
    """The facts of the day's card, which is ready and has the platform's shell. Raises a DeviationError."""
    cards: Sequence[CardInfo] = [card for card in find_devices(day.root) if card.facts is not None]
    found = next((card for card in cards if card.index == day.card), None)
    if found is None or found.facts is None:
        why = find_xrt(day.root).problem or f"XRT drives {len(cards)} cards"
        raise NoCardError(f"there is no card {day.card}: {why}; to rehearse without a card: hypersonic first-day --rehearse")
    facts = found.facts
    if found.status != "ready":
        raise NotReadyError(f"card {day.card} is {found.status}, expected ready")
    platform = day.platform
    if facts.platform not in (None, platform.vbnv):
        raise ShellError(f"card {day.card} has the shell {facts.platform}, expected {platform.vbnv}")
    known = platform.interface_uuid.strip("0") and facts.interface_uuids
    if known and platform.interface_uuid not in facts.interface_uuids:
        got = ", ".join(facts.interface_uuids)
        raise ShellError(f"card {day.card} has the interface {got}, expected {platform.interface_uuid} of {platform.vbnv}")
    return facts


def check_link(facts: CardFacts, platform: Platform) -> None:
    """Check the PCI Express link, if the host says what it is. Raises SlowLinkError."""
    if facts.pcie_generation and facts.pcie_lanes:
        got = f"Gen{facts.pcie_generation} x{facts.pcie_lanes}"
        if got != platform.pcie:
            raise SlowLinkError(f"the link is {got}, expected {platform.pcie}")


def validate(day: Day) -> None:
    """Run AMD's tests of the card. Raises SelfTestError."""
    if day.rehearsal:
        day.record.say("not rehearsed: AMD has no tests for an emulated card; the next step writes and reads its memory")
        day.record.skipped = True
        return
    address, tool = check_card(day).address, find_tool()
    _, day.record.files["xrt-examine.txt"] = ask(tool, "examine", "--device", address, "--report", "all")
    day.record.say(f"{tool.name} validate --device ADDRESS, which takes minutes")
    code, output = ask(tool, "validate", "--device", address)
    day.record.files["xrt-validate.txt"] = output
    day.record.say("\n".join(line.rstrip() for line in output.splitlines() if _TOLD.search(line)))
    to_card, from_card = day.platform.h2c_gb_s, day.platform.c2h_gb_s
    day.record.say(day.predicted(f"{to_card:g} GB/s to the card, {from_card:g} GB/s from it"))
    if code or _FAILED.search(output):
        raise SelfTestError(f"{tool.name} validate ended with {code}, expected 0 and no line with FAILED")


def find_tool() -> Path:
    """AMD's tool, from PATH, $XILINX_XRT or /opt/xilinx/xrt. Raises NoToolError."""
    homes = [home for home in (os.environ.get("XILINX_XRT"), "/opt/xilinx/xrt") if home]
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *(f"{home}/bin" for home in homes)])
    found = next(filter(None, (shutil.which(tool, path=path) for tool in TOOLS)), None)
    if found is None:
        raise NoToolError(f"{' and '.join(TOOLS)} are neither on PATH nor in /opt/xilinx/xrt/bin: install XRT's own package")
    return Path(found)


def ask(tool: Path, *arguments: str) -> tuple[int, str]:
    """Run AMD's tool; return its exit code and the end of its output. Raises NoToolError if it does not start,
    SelfTestError if it does not end."""
    try:
        done = subprocess.run(
            [str(tool), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SelfTestError(f"{tool.name} {arguments[0]} has not ended after {_TIMEOUT_S} s") from error
    except OSError as error:
        raise NoToolError(f"{tool.name} {arguments[0]} does not run: {error.strerror}") from error
    return done.returncode, done.stdout[-_MOST_CHARACTERS:]
