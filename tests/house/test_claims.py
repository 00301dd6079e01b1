# SPDX-License-Identifier: Apache-2.0
"""Sentences of README, CONTRIBUTING and the pages that the code can check: who imports what, one number for one thing."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.firmware.estimate.rates import NETWORK_GBPS, card_rate
from hypersonic.firmware.platform import find_platform
from hypersonic.server.arguments import add_arguments
from hypersonic.sim import lint

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
README = (ROOT / "README.md").read_text()
TUTORIAL, MANUAL = ((ROOT / "docs" / f"{page}.md").read_text() for page in ("tutorial", "manual"))
ZOO = (ROOT / "docs" / "zoo.md").read_text()


def importing(room: str, package: str) -> set[str]:
    """The room's files that import a package, by their paths."""
    pattern = re.compile(rf"^\s*(?:import|from) {package}\b", re.MULTILINE)
    return {str(file.relative_to(ROOT)) for file in (ROOT / room).rglob("*.py") if pattern.search(file.read_text())}


def test_grpc_is_imported_where_contributing_says() -> None:
    (text,) = re.findall(r"gRPC in (.*?`)\.\n", CONTRIBUTING, re.DOTALL)
    assert set(re.findall(r"`([\w/.]+\.py)`", text)) == importing("server", "grpc")


def test_hls4ml_is_imported_where_contributing_says() -> None:
    (text,) = re.findall(r"hls4ml in the three loaders (.*?), Keras in", CONTRIBUTING, re.DOTALL)
    assert set(re.findall(r"`([\w/.]+\.py)`", text)) == importing("hls", "hls4ml")


def modules() -> dict[str, str]:
    """The text of each RTL module, by name."""
    return {file.stem: file.read_text() for file in lint.modules()}


def test_every_module_is_driven_by_a_bench_of_its_own_or_of_one_around_it() -> None:
    benches = {place.name for place in (ROOT / "sim" / "tb").iterdir() if place.is_dir()}
    known = modules()

    def driven(name: str, seen: frozenset[str] = frozenset()) -> bool:
        around = [other for other, text in known.items() if other != name and re.search(rf"^\s*{name}\b", text, re.MULTILINE)]
        return name in benches or any(driven(other, seen | {name}) for other in around if other not in seen)

    # the top of every kernel is driven by the benches of whole kernels, that of F2 by tests/f2; weights come in streams
    assert {name for name in known if not driven(name)} <= {"kernel_shell", "kernel_read", "f2_shell", "rf_weights"}
    assert {"kernel", "kernel_weights"} <= benches


def rows_of(text: str, head: str) -> dict[str, list[str]]:
    """The rows of a Markdown table, by their first cell."""
    lines = text[text.index(head) :].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row for row in cells}


def test_a_model_of_the_zoo_has_one_number_of_parameters() -> None:
    shapes, report = rows_of(ZOO, "| model | in | out | parameters |"), rows_of(ZOO, "| model | parameters | figure of merit |")
    assert len(report) >= 12
    for name, cells in report.items():
        assert shapes[name][3].replace(" ", "") == cells[1].replace(",", ""), name
    assert rows_of((ROOT / "docs" / "zoo" / "table.md").read_text(), "| model |")["facile"] == report["facile"]


@pytest.mark.parametrize(("text", "where"), [(README, "README.md"), (MANUAL, "docs/manual.md")])
def test_the_rate_that_a_page_shows_is_the_least_of_the_limits_beside_it(text: str, where: str) -> None:
    parts = r"events/s on a u250|network|memory bank|PCIe \w+ the card|kernel"
    shown = dict(re.findall(rf"^│ +({parts}) +│ +([\d,]+) ", text, re.MULTILINE))
    (clocks,) = re.findall(r"^│ clocks per event +│ +([\d,]+) ", text, re.MULTILINE)
    rate = card_rate(find_platform("u250"), int(clocks.replace(",", "")), (16_000 * 72, 16_000 * 4))
    assert shown.pop("events/s on a u250") == f"{rate.events_per_s:,.0f}", where
    kernel = shown.pop("kernel")
    assert shown == {limit.part: f"{limit.events_per_s:,.0f}" for limit in rate.limits if limit.part != "kernel"}, where
    assert abs(int(kernel.replace(",", "")) - rate.of("kernel")) <= 1, where  # the clocks are shown as a whole number
    assert NETWORK_GBPS == 25


def test_the_tutorial_leaves_the_layers_to_their_table() -> None:
    section = " ".join(TUTORIAL[TUTORIAL.index("### Which core") : TUTORIAL.index("## 6 ")].split())
    assert "[The table of layers](layers.md)" in section
    assert "What neither computes runs as hls4ml's C++ (`sw_emu`)" in section


def test_a_switch_shows_no_default() -> None:
    for name, parser in cli.make_parser()._subparsers._group_actions[0].choices.items():  # type: ignore[union-attr] # argparse has no public way to its subcommands
        assert not re.search(r"\(default: (True|False|\[)", " ".join(parser.format_help().split())), name


def test_the_manual_lists_the_groups_of_the_servers_options() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    groups = {group.title: group for group in parser._action_groups if group.title not in ("positional arguments", "options")}
    manual = (ROOT / "docs" / "manual.md").read_text()
    listed = rows_of(manual, "| group of `--help` | options |")
    assert list(listed) == list(groups)
    for title, cells in listed.items():
        known = {option for action in groups[title]._group_actions for option in action.option_strings}
        assert set(re.findall(r"`(--[\w-]+)`", cells[1])) <= known, title
