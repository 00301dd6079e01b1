# SPDX-License-Identifier: Apache-2.0
"""A zoo model with an rf core through the whole of it by one command each: the kernel, the server, the report."""

from __future__ import annotations

import json
from pathlib import Path

from tests.end_to_end.test_commands import hypersonic, places, refused


def test_a_network_with_shared_multipliers_is_built_served_and_checked_by_one_command(tmp_path: Path) -> None:
    where = (*places(tmp_path), "--output", tmp_path / "result")
    done = hypersonic("run", "jets", "--target", "hw_emu", "--events", "4", "--clients", "2", *where)
    assert done.returncode == 0, done.stderr
    assert "mean AUC of five classes" in done.stdout
    figures = json.loads((tmp_path / "result" / "figures.json").read_text())
    assert figures["integers_equal_to_csim"] == 4 * 16 * 5
    # a row every 16 clocks, and the way through memory and core
    assert 16 * 16 < figures["clocks_per_event"] < 16 * 16 + 400
    manifest = json.loads((tmp_path / "jets" / "1" / "manifest.json").read_text())
    assert (manifest["core"], manifest["ii"]) == ("rf", 16)


def test_a_report_has_a_line_and_a_picture_a_model(tmp_path: Path) -> None:
    done = hypersonic("report", "jets_logits", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == (tmp_path / "table.md").read_text().rstrip()
    (line,) = json.loads((tmp_path / "figures.json").read_text())
    assert (line["model"], line["equal"], line["difference"]) == ("jets_logits", 6000 * 5, 0.0)
    assert abs(line["clocks"] - line["predicted"]) <= 0.02 * line["predicted"]
    assert line["merit"]["csim"] == line["merit"]["quantised"] > 0.85
    assert (tmp_path / "jets_logits.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_of_nothing_or_of_an_unknown_model_says_what_there_is(tmp_path: Path) -> None:
    refused(hypersonic("report", "--output", tmp_path), "no model is named", "jets_logits", "--all")
    refused(hypersonic("report", "jets", "nobody", "--output", tmp_path), "no generator for model 'nobody'", "deepcalo")
    assert not list(tmp_path.iterdir())
