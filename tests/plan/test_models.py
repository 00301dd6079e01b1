# SPDX-License-Identifier: Apache-2.0
"""The cost of a row: the zoo's table against the pages, and manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.estimate.rates import card_rate, least_clocks
from hypersonic.firmware.platform import find_platform
from hypersonic.plan.errors import PlanError
from hypersonic.plan.models import ZOO, cost_of, find_zoo_model, read_model
from tests.plan.published_model import MANIFEST, publish_two

ROOT = Path(__file__).resolve().parents[2]


def test_the_zoos_costs_give_the_rates_of_its_table() -> None:
    _, speed = (ROOT / "docs" / "zoo" / "table.md").read_text().split("\n\n")
    lines = speed.splitlines()
    head = [cell.strip() for cell in lines[0].strip("|").split("|")]
    rows = [dict(zip(head, (cell.strip() for cell in line.strip("|").split("|")), strict=True)) for line in lines[2:]]
    assert {row["model"] for row in rows} == set(ZOO)
    for row in rows:
        cost = ZOO[row["model"]].cost
        rate = card_rate(find_platform("u250"), max(cost.ii, least_clocks(1, cost.row_bytes)), cost.row_bytes)
        assert row["clocks a row"] == f"{cost.ii:,}", row
        assert row["limited by"] == rate.limited_by, row
        assert row["rows/s on a card, predicted"] == f"{rate.events_per_s:,.0f}", row
        assert row["the kernel alone"] == f"{rate.of('kernel'):,.0f}", row


def test_smaller_rows_are_smaller() -> None:
    for known in ZOO.values():
        for less in (known.cost.half_bytes, known.cost.packed_bytes):
            assert less is None or sum(less) < sum(known.cost.row_bytes), known.cost.name


def test_a_manifest_gives_bytes_clocks_and_units(tmp_path: Path) -> None:
    folder = publish_two(tmp_path)
    cost, file = read_model(folder)
    assert file == folder / "2" / "manifest.json"
    assert (cost.name, cost.row_bytes, cost.ii, cost.units) == ("two", (72, 4), 5, 2)
    assert cost.half_bytes == (36, 2)
    assert cost.packed_bytes == (29, 2)
    assert cost_of(MANIFEST).ii == 3


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    with pytest.raises(PlanError, match=r"has no <version>/manifest.json, expected the folder of a model that"):
        read_model(tmp_path)
    with pytest.raises(PlanError, match="is not a directory"):
        read_model(tmp_path / "none")


def test_an_unknown_model_gets_the_nearest_name() -> None:
    with pytest.raises(PlanError, match=r"model is 'facil', expected .*; did you mean facile\?"):
        find_zoo_model("facil")
