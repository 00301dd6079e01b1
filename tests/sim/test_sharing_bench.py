# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench sharing`: its parts, and the figures of the part banks."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bench.sharing.figure import Figure
from bench.sharing.parts import banks, turns
from bench.sharing.run import part_names, table
from hypersonic.commands.bench import BenchError, add_sharing_options, bench_sharing


def options(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_sharing_options(parser)
    return parser.parse_args(argv)


@pytest.mark.whole("bench", "firmware", "hls", "requirements.lock", "sim")
def test_kernels_on_banks_of_their_own_keep_their_clocks_and_on_one_bank_they_share_its_beats() -> None:
    alone, left, right, together = banks.measure(lambda _: None, rows=2000)
    assert alone.value > 0.95
    assert (left.value, right.value) == pytest.approx((1, 1), abs=0.1), (
        "runs overlap less when this process waits between starts"
    )
    assert 0.8 < together.value < 1.1, "the start of the second kernel is known to some hundred of its 18,000 clocks"


def test_models_that_take_turns_answer_every_request_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "RESIDENCY_MS", 50)
    monkeypatch.setattr(turns, "CLIENTS", 4)
    monkeypatch.setattr(turns, "FLOOD_RESIDENCY_MS", 50)
    monkeypatch.setattr(turns, "FLOOD_LOAD_MS", 10)
    monkeypatch.setattr(turns, "FLOOD_CHANGE_MS", 30_000)
    measured = turns.measure(lambda _: None, seconds=1.5, xclbins=((1, 2), (3,), (4,)), floods=((3, 1),))
    figures = {each.name: each for each in measured}
    assert figures["requests"].value > 10
    assert (figures["failed requests"].text, figures["wrong integers"].text) == ("0", "0")
    assert figures["loads of a card after its first"].value > 0
    assert figures["longest wait of one request, 3 models on 1 card"].value > 0
    simulated = figures["the same in simulated time, 3 models on 1 card"]
    assert (simulated.met, simulated.target) == (True, "26.0 s or less")


def test_a_part_that_does_not_exist_is_answered_with_those_that_do(capfd: pytest.CaptureFixture[str]) -> None:
    assert bench_sharing(options("bank")) == 2
    assert f"part is 'bank', expected one of {', '.join(part_names())}" in capfd.readouterr().err
    assert "banks" in part_names()


def test_an_installed_package_has_no_benches(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"no sharing/run\.py in .*; it is in the source repository"):
        bench_sharing(options(), tmp_path)


def test_a_figure_that_is_not_met_is_marked_in_the_table() -> None:
    figures = [Figure("beats", 0.5, "0.500", "0.97 to 1", met=False), Figure("clocks", 1.0, "1.0", "", met=True)]
    lines = table({"banks": ("two kernels", figures)}).splitlines()
    assert lines[0] == "banks: two kernels"
    assert lines[1].endswith("0.500  0.97 to 1   NOT MET")
    assert "NOT MET" not in lines[2]
