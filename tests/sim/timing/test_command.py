# SPDX-License-Identifier: Apache-2.0
"""`python -m hypersonic.sim.timing`: what it prints and keeps, with a router that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hypersonic.sim.timing import __main__ as command
from hypersonic.sim.timing import ledger
from hypersonic.sim.timing.ledger import Row
from hypersonic.sim.timing.results import Counts, Routed, Step


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Row]]:
    """A ledger of its own, and a router whose clock is 100 MHz and ten more for each seed. Returns the reader of the ledger."""
    file = tmp_path / "ledger.json"
    read, write = partial(ledger.read, file), partial(ledger.write, file=file)
    monkeypatch.setattr(ledger, "read", read)
    monkeypatch.setattr(ledger, "write", write)
    monkeypatch.setattr(command, "mapped", lambda _: (Counts(1, 2, 0, 0, 3), tmp_path))
    path = (Step("clk-to-q", 0.3, "", 0), Step("routing", 1.2, "run_q", 40), Step("setup", 0.0, "", 0))
    monkeypatch.setattr(command, "routed", lambda _, seed: Routed(100.0 + 10 * seed, path, ((1, 1, 0.5),)))
    monkeypatch.setattr(command, "design_hash", lambda _: "one")
    return read


def test_seeds_of_the_same_rtl_are_kept_together(
    rows: Callable[[], dict[str, Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["irq_request", "--seeds", "3"]) == 0
    assert "130.0 MHz (1 of 3 seeds), 1 LUTs" in capsys.readouterr().out
    assert command.main(["irq_request", "--seeds", "1", "2"]) == 0
    assert "irq_request                 120.0 MHz, 1 LUTs" in capsys.readouterr().out
    assert rows()["irq_request"].mhz == {1: 110.0, 2: 120.0, 3: 130.0}


def test_a_row_of_other_rtl_is_replaced_and_shown(
    rows: Callable[[], dict[str, Row]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command.main(["irq_request"])
    monkeypatch.setattr(command, "design_hash", lambda _: "other")
    command.main(["irq_request", "--seeds", "1"])
    assert capsys.readouterr().out.endswith("no frequency on UltraScale+), before 120.0 MHz\n")
    assert rows()["irq_request"] == Row("shell", "other", Counts(1, 2, 0, 0, 3), {1: 110.0})


def test_what_is_up_to_date_is_left_out_with_changed(
    rows: Callable[[], dict[str, Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["irq_request", "--seeds", "1", "2"])
    capsys.readouterr()
    command.main(["irq_request", "--changed", "--seeds", "1"])
    assert capsys.readouterr().out == ""
    command.main(["irq_request", "--changed"])
    assert rows()["irq_request"].mhz.keys() == {1, 2, 3}


def test_the_path_is_printed_and_the_ledger_left_alone_when_asked(
    rows: Callable[[], dict[str, Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["irq_request", "--seeds", "1", "--path", "--no-write"])
    assert capsys.readouterr().out.splitlines()[1:] == ["   0.300 ns clk-to-q", "   1.200 ns routing run_q (fan-out 40)"]
    assert rows() == {}


def test_the_comparison_names_what_it_lacks(
    rows: Callable[[], dict[str, Row]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command.main(["irq_request", "--seeds", "1"])
    command.main(["axis_join"])
    of_model = [("irq_request", 1.0, 9.0), ("axis_join", 0.5, 8.0)]
    monkeypatch.setattr(command, "ranked", lambda rows, _: [each for each in of_model if each[0] in rows])
    capsys.readouterr()
    command.main(["irq_request", "--changed", "--seeds", "1", "--rank"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("irq_request                model  1.00 ns, router  9.00 ns (ECP5, a proxy")
    assert lines[2] == "rank correlation of model and router over 2 designs: 1.00, wanted 0.8"
    assert lines[3].startswith("without a row of their present RTL: axi_burst_split, ")
    assert lines[4:] == [
        "with fewer than 3 seeds: irq_request",
        f"wires to     1 inputs or fewer: 0.50 ns to the slowest, mean of 2 nets ({ledger.PROXY})",
    ]
