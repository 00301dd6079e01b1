# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench card`: what it prints, what it takes, and a published model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.firmware.estimate.rates import card_rate
from hypersonic.firmware.platform import find_platform
from tests.plan.published_model import publish_two


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["bench", "card", *arguments]) == 0
    return capsys.readouterr().out


def test_it_prints_the_rate_by_units_and_runs_with_the_part_that_limits_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "facile")
    assert "1            2         5,574      89,177,381  the memory bank" in out
    assert "2            2         7,967     127,467,105  PCIe to the card" in out
    rate = card_rate(find_platform("u250"), 18_000, (16_000 * 72, 16_000 * 4))
    assert out.endswith("\n".join(rate.lines()) + "\n")


def test_json_has_the_figures_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "facile", "--platform", "u55c", "--units", "2", "--network-gbps", "100", "--json"))
    assert (data["units"], data["rows"], data["clocks"]) == (2, 16_000, 18_000)
    by_units = {(each["units"], each["runs"]): each for each in data["table"]}
    assert by_units[2, 2]["limited_by"] == data["card"]["limited_by"]
    assert by_units[2, 2]["events_per_s"] == pytest.approx(data["card"]["events_per_s"])


def test_a_card_without_a_bank_between_host_and_kernel_is_simulated_too(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "facile", "--platform", "aws_f2")
    assert "memory bank" not in out
    assert "PCIe both ways" not in out


def test_a_published_model_has_its_own_bytes_clocks_and_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = publish_two(tmp_path)
    data = json.loads(printed(capsys, str(folder), "--rows", "100", "--json"))
    assert data["rows"] == 100
    assert data["model"] == folder.name


@pytest.mark.parametrize("option", ["--rows", "--clocks", "--units", "--kernel-mhz"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "9" * 30])
def test_a_number_that_is_not_one_is_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", "card", "facile", f"{option}={value}"])
    assert "is not a whole number from 1 to 10**12" in capsys.readouterr().err
