# SPDX-License-Identifier: Apache-2.0
"""Sentences of CONTRIBUTING and the pages that the code can check: who imports what, one number for one thing."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.firmware.estimate.rates import NETWORK_GBPS, card_rate
from hypersonic.firmware.platform import find_platform
from hypersonic.plan.limits import capacity_of
from hypersonic.reporting.card import bench_card
from hypersonic.server.arguments import add_arguments
from hypersonic.sim import lint
from tests.plan.questions import FACILE, hlt

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
KERNEL, MANUAL = ((ROOT / "docs" / f"{page}.md").read_text() for page in ("kernel", "manual"))
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
        assert shapes[name][3].replace(",", "") == cells[1].replace(",", ""), name
    assert rows_of((ROOT / "docs" / "zoo" / "table.md").read_text(), "| model |")["facile"] == report["facile"]


@pytest.mark.parametrize(("text", "where"), [(ZOO, "docs/zoo.md"), (MANUAL, "docs/manual.md")])
def test_the_rate_that_a_page_shows_is_the_least_of_the_limits_beside_it(text: str, where: str) -> None:
    parts = r"events/s on a u250|network|card|memory bank|PCIe \w+ the card|PCIe both ways|kernel"
    shown = dict(re.findall(rf"^│ +({parts}) +│ +([\d,]+) ", text, re.MULTILINE))
    (clocks,) = re.findall(r"^│ clocks per event +│ +([\d,]+) ", text, re.MULTILINE)
    rate = card_rate(find_platform("u250"), int(clocks.replace(",", "")), (16_000 * 72, 16_000 * 4))
    assert shown.pop("events/s on a u250") == f"{rate.events_per_s:,.0f}", where
    kernel = shown.pop("kernel")
    assert shown == {limit.part: f"{limit.events_per_s:,.0f}" for limit in rate.limits if limit.part != "kernel"}, where
    assert abs(int(kernel.replace(",", "")) - rate.of("kernel")) <= 1, where  # the clocks are shown as a whole number
    assert NETWORK_GBPS == 25


@pytest.mark.parametrize(("text", "where"), [(ZOO, "docs/zoo.md"), (MANUAL, "docs/manual.md")])
def test_the_rate_of_a_card_on_a_page_is_that_of_bench_card(text: str, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    (clocks,) = re.findall(r"^│ clocks per event +│ +([\d,]+) ", text, re.MULTILINE)
    cli.main(["bench", "card", "facile", "--clocks", clocks.replace(",", "")])
    printed = capsys.readouterr().out
    for part in ("card", "memory bank", "PCIe to the card", "PCIe both ways", "PCIe from the card", "network"):
        ((rate, what),) = re.findall(rf"^ +([\d,]+)  {part}: (.*)$", printed, re.MULTILINE)
        assert re.search(rf"^│   {part} +│ +{rate} │ {re.escape(what)} +│$", text, re.MULTILINE), (where, part)


#: how the head of the report's second table begins
SPEED = "| model | core | multipliers |"


def test_reports_and_plans_have_the_rates_of_bench_card() -> None:
    rows = rows_of((ROOT / "docs" / "zoo" / "table.md").read_text(), SPEED)
    assert rows == rows_of(ZOO, SPEED)
    (head,) = [line for line in ZOO.splitlines() if line.startswith(SPEED)]
    column = [cell.strip() for cell in head.strip("|").split("|")].index("rows/s on a card, predicted")
    for name, cells in rows.items():
        bench = bench_card(name, "u250", rows=1, network_gbps=NETWORK_GBPS)
        assert cells[column] == f"{bench.rate.events_per_s:,.0f}", name
    for platform in ("u250", "u55c"):
        bench = bench_card("facile", platform, units=2, network_gbps=NETWORK_GBPS)
        question = hlt(replace(FACILE, units=2), platform=platform)
        planned = [limit.events_per_s for limit in capacity_of(question, 1).limits if limit.scope == "card"]
        assert min(planned) == pytest.approx(bench.rate.of("card")), platform


def test_the_patches_of_emtrk_on_a_card_are_those_of_bench_card() -> None:
    shown = rows_of(ZOO, "| EmTrkMichelId on | patches/s | source |")
    bench = bench_card("emtrk", "u250", network_gbps=NETWORK_GBPS)
    for units, name in ((1, "a U250, 1 compute unit"), (4, "a U250, 4 compute units")):
        rate = bench.table[units, 2]
        assert shown[name][1] == f"{rate.of('card') * bench.rows:,.0f}"


def test_the_page_of_kernels_leaves_the_layers_to_their_table() -> None:
    section = " ".join(KERNEL.partition("## Which core")[2].partition("\n## ")[0].split())
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
