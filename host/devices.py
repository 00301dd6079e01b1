# SPDX-License-Identifier: Apache-2.0
"""The report of `hypersonic devices`: XRT, the cards that it drives with their contents, the F2 cards and the emulated cards.

No card is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hypersonic.firmware.target import Target
from hypersonic.host import library
from hypersonic.host.card_facts import CardFacts, driver_version, read_facts
from hypersonic.host.errors import DeviceError
from hypersonic.host.f2.facts import F2Facts, read_f2_cards
from hypersonic.host.release import release_differs
from hypersonic.host.sysfs import DRIVER, SYSFS, bound_addresses, card_addresses
from hypersonic.host.telemetry import NOTHING, Telemetry, read_telemetry
from hypersonic.host.version import text

_EMULATED = (Target.SW_EMU, Target.HW_EMU)
_EMULATED_CARDS = "HYPERSONIC_EMU_DEVICES"
_UNKNOWN = "not known"
_LABEL_WIDTH, _INDENT = 14, "  "


@dataclass(frozen=True)
class Xrt:
    """The XRT library that drives cards.

    Attributes:
        problem: why it cannot be used; empty when it can.
        file, version, driver: None where they are not known.
    """

    path: str
    file: Path | None = None
    version: str | None = None
    driver: str | None = None
    problem: str = ""


@dataclass(frozen=True)
class CardInfo:
    """One card.

    Attributes:
        index: the argument of open_device.
        facts: None for a simulated card.
    """

    index: int
    targets: tuple[Target, ...]
    facts: CardFacts | None = None
    telemetry: Telemetry = NOTHING

    @property
    def status(self) -> str:
        """The state of the card in words. If it has several problems, the one to correct first."""
        facts = self.facts
        if facts is None:
            return "ready"
        if not facts.present:
            return "gone: it is no longer on the bus"
        if facts.offline:
            return "offline: it is being reset, or is given another shell"
        if not facts.ready:
            return "not ready: its shell is not loaded, or its management function does not respond (`xbmgmt examine`)"
        return f"in use by process {', '.join(map(str, facts.process_ids))}" if facts.process_ids else "ready"


def find_devices(root: Path = SYSFS) -> tuple[CardInfo, ...]:
    """All cards that XRT drives, then the emulated cards. Never raises."""
    addresses = [] if find_xrt(root).problem else card_addresses(root)
    real = (
        CardInfo(index, (Target.HW,), read_facts(address, root), read_telemetry(address, root))
        for index, address in enumerate(addresses)
    )
    return (*real, *(CardInfo(index, _EMULATED) for index in range(_emulated_cards())))


def find_xrt(root: Path = SYSFS) -> Xrt:
    """The XRT library on this machine. Never raises."""
    path = library.library_path(Target.HW)
    try:
        loaded = library.load_library(Target.HW)
    except DeviceError as error:
        return Xrt(path, driver=driver_version(root), problem=str(error))
    return Xrt(path, loaded.file, text(loaded.version) if loaded.version else None, driver_version(root))


def devices(root: Path = SYSFS) -> str:
    """The report as text, without a trailing newline."""
    xrt, cards = find_xrt(root), find_devices(root)
    real = [card.facts for card in cards if card.facts is not None]
    f2 = read_f2_cards(root)
    blocks = [_xrt_lines(xrt, some=bool(real), f2=bool(f2), bound=len(bound_addresses(root)))]
    blocks += [list(_card_lines(card, card.facts)) for card in cards if card.facts is not None]
    blocks += [_f2_lines(card) for card in f2]
    blocks.append(_emulated_lines(len(cards) - len(real)))
    return "\n\n".join("\n".join(block) for block in blocks)


def devices_as_data(root: Path = SYSFS) -> dict[str, Any]:
    """The report as a JSON object. A value that is not known is null, or absent from its object."""
    xrt = find_xrt(root)
    known = {"library": xrt.path, "file": str(xrt.file) if xrt.file else None, "version": xrt.version, "driver": xrt.driver}
    cards = [_as_data(card) for card in find_devices(root)]
    f2 = [card.to_json() for card in read_f2_cards(root)]
    return {"xrt": {**known, "problem": xrt.problem or None}, "cards": cards, "f2_cards": f2}


def _as_data(card: CardInfo) -> dict[str, Any]:
    facts, read = card.facts, card.telemetry
    common = {"index": card.index, "simulated": facts is None, "targets": list(map(str, card.targets)), "status": card.status}
    if facts is None:
        return common
    return {
        **common,
        "address": facts.address,
        "platform": facts.platform,
        "interface_uuids": list(facts.interface_uuids),
        "xclbin_uuids": list(facts.xclbin_uuids),
        "compute_units": [{"kernel": unit.kernel, "name": unit.name, "runs": unit.runs} for unit in facts.compute_units],
        "clocks_mhz": dict(facts.clocks_mhz),
        "temperatures_c": dict(read.temperatures_c),
        "power_w": read.power_w,
        "power_limit_w": read.power_limit_w,
        "memory_used_bytes": facts.memory_used_bytes,
        "buffers": facts.buffers,
        "pcie_generation": facts.pcie_generation,
        "pcie_lanes": facts.pcie_lanes,
        "process_ids": list(facts.process_ids),
    }


def _row(label: str, *parts: str) -> str:
    return f"{_INDENT}{label:<{_LABEL_WIDTH}}{', '.join(filter(None, parts)) or _UNKNOWN}"


def _xrt_lines(xrt: Xrt, *, some: bool, f2: bool, bound: int) -> list[str]:
    if xrt.problem:
        cards = "F2 cards do not need it; others cannot be used without it" if f2 else "none can be used without it"
        return ["XRT is not installed", _row("why", xrt.problem), _row("cards", cards)]
    lines = [f"XRT {xrt.version or '(version not known)'}", _row("library", str(xrt.file or xrt.path))]
    lines.append(_row("driver", f"{DRIVER} {xrt.driver}" if xrt.driver else f"{DRIVER} is not loaded", _mismatch(xrt)))
    if not some and not f2:
        lines.append(_row("cards", _no_cards(bound)))
    return lines


def _no_cards(bound: int) -> str:
    """The reason why this process has no card.

    Args:
        bound: the number of cards of the host.
    """
    if bound:
        return (
            f"none: the host has {bound}, but this process has the device node /dev/dri/renderD* of none; ask for a card, in "
            "Kubernetes by the card's resource (docs/kubernetes.md)"
        )
    step = 'set one up as docs/manual.md says under "The card", or use the emulated ones'
    return f"none: no card is bound to its driver {DRIVER}; {step}"


def _mismatch(xrt: Xrt) -> str:
    """A note when library and driver have different releases."""
    if not release_differs(xrt.version, xrt.driver):
        return ""
    return f"of another release than the library ({xrt.version}): install both from one package"


def _card_lines(card: CardInfo, facts: CardFacts) -> Iterator[str]:
    read = card.telemetry
    yield f"card {card.index}  {facts.platform or 'unknown shell'} at {facts.address}"
    yield _row("status", card.status)
    if not facts.present:
        return
    yield _row("interface", *facts.interface_uuids)
    yield _row("xclbin", *facts.xclbin_uuids or ("none loaded",))
    units = [f"{unit.name} ({unit.runs:,} runs)" for unit in facts.compute_units]
    yield _row("compute units", *units or ("none",))
    yield _row("clocks", *(f"{name} {mhz} MHz" for name, mhz in facts.clocks_mhz.items()))
    yield _row("temperatures", *(f"{sensor} {celsius:g} C" for sensor, celsius in read.temperatures_c.items()))
    yield _row("power", _power(read))
    yield _row("memory in use", _memory(facts))
    yield _row("PCIe", f"gen {facts.pcie_generation} x{facts.pcie_lanes}" if facts.pcie_generation and facts.pcie_lanes else "")


def _f2_lines(card: F2Facts) -> list[str]:
    return [f"F2 card {card.index}  at {card.address}", *(_row(label, value) for label, value in card.rows().items())]


def _power(read: Telemetry) -> str:
    if read.power_w is None:
        return ""
    return f"{read.power_w:.1f} W" + (f" of at most {read.power_limit_w:g} W" if read.power_limit_w else "")


def _memory(facts: CardFacts) -> str:
    used = facts.memory_used_bytes
    return "" if used is None else f"{used / 2**20:,.1f} MiB in {facts.buffers} buffers"


def _emulated_lines(cards: int) -> list[str]:
    if not cards:
        return ["no emulated cards", _row("why", f"{library.EMULATION} is not installed, or {_EMULATED_CARDS} is 0")]
    return [
        f"{'emulated card 0' if cards == 1 else f'emulated cards 0 to {cards - 1}'}  SIMULATED",
        _row("status", "ready: this machine computes the answers; no card and no XRT are needed"),
        _row("targets", *_EMULATED),
        _row("platform", "that of the loaded xclbin; each process has its own"),
        _row("clocks", f"{_UNKNOWN}: the clocks of a run are counted, but have no frequency"),
    ]


def _emulated_cards() -> int:
    try:
        if find_spec(library.EMULATION) is None:
            return 0
    except ImportError:
        return 0
    cards = os.environ.get(_EMULATED_CARDS) or "4"
    return min(int(cards), 256) if cards.isascii() and cards.isdecimal() else 0


def none_left(busy: Sequence[DeviceError], *, emulated: bool) -> str:
    """The message that no card is free for another xclbin, with what to do.

    Args:
        busy: the error of each card, at least one.
    """
    kind = "emulated card" if emulated else "card"
    who = f"each of the {len(busy)} {kind}s" if len(busy) > 1 else f"the one {kind}"
    text = f"{who} holds another model's xclbin or is out of service"
    if not emulated:
        return f"{text}; the first says: {busy[0]}"
    return f"{text}: unload another model, or start the server with one more: hypersonic serve --emulated-cards {len(busy) + 1}"
