# SPDX-License-Identifier: Apache-2.0
"""The rehearsal on emulated cards, and a wrong answer for each step, which that step finds and no earlier one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic.commands.first_day import make_builds
from hypersonic.first_day.day import Day, find_build
from hypersonic.first_day.errors import NoBuildError
from hypersonic.first_day.kernels import check_clocks
from hypersonic.first_day.record import Record
from hypersonic.first_day.run import chosen, run_steps
from hypersonic.first_day.steps import NAMES, STEPS
from hypersonic.host.opening import open_device
from tests.hypersonic.first_day.own_day import make_day

#: where the emulated cards are wrong -> the step that is meant to find it. A unit has 5 runs in `units`, 8 in `streams`, and
#: one of the two has 13 or more in `server`: 100 events from 4 clients
WRONG = {
    "memory": "memory:1",
    "loopback": "loopback_2:7",
    "model": "relu4_1:1",
    "units": "relu4_2:1",
    "streams": "relu4_1/queued:1,relu4_2/queued:1",
    "server": "relu4_1:9,relu4_2:9",
}

pytestmark = pytest.mark.whole("firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """A day with both builds."""
    day = make_day(place := tmp_path_factory.mktemp("day"))
    make_builds(day, 2, 0, lambda _: None, directory=place / "build")
    return day


@pytest.fixture
def day(built: Day, monkeypatch: pytest.MonkeyPatch) -> Day:
    """The same day with a record of its own."""
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "0")
    monkeypatch.delenv("HYPERSONIC_EMU_MEMORY", raising=False)
    return replace(built, record=Record(lambda _line: None))


def lines(day: Day) -> str:
    return "\n".join(line for result in day.record.results for line in result.lines)


def test_every_step_is_as_expected_with_a_memory_of_200_clocks(day: Day) -> None:
    assert run_steps(day, STEPS) == 0
    results = {result.step: result for result in day.record.results}
    assert tuple(results) == NAMES
    assert {name for name, result in results.items() if not result.as_expected} == {"validate"}
    assert results["validate"].skipped
    said = lines(day)
    assert "loopback_2: runs of 1, 2, 63, 64, 65, 1,000, 16,000 rows came back unchanged" in said
    assert "of a simulation on this machine, not of a card" in said
    assert "measured on this card" not in said
    clocks = int(said.partition("loopback_1: ")[2].partition("loopback_1: ")[2].partition(" clocks")[0].replace(",", ""))
    assert 16_000 + 2 * 200 < clocks < 17_083, "with a memory of 200 clocks"
    assert {"devices.json", "server.log", "figures.json", "manifests/loopback.json"} <= set(day.record.files)
    assert "Started GRPCInferenceService" in day.record.files["server.log"]


@pytest.mark.parametrize("step", WRONG)
def test_a_wrong_answer_is_found_by_the_step_that_is_meant_to_find_it(
    step: str, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_WRONG", WRONG[step])
    assert run_steps(day, STEPS) == 1
    assert [result.step for result in day.record.results if result.error] == [step]
    assert day.record.results[-1].step == step
    shown = next(each for each in STEPS if each.name == step)
    found = day.record.results[-1].lines
    assert any(line.startswith("DEVIATION, wrong") for line in found)
    wanted = next(each for each in shown.deviations if each.got.startswith("wrong"))
    assert wanted.means[:40] in "\n".join(found)


def test_a_host_without_the_card_is_found_first(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "0")
    assert run_steps(day, STEPS) == 2
    assert [result.step for result in day.record.results] == ["devices"]
    assert "DEVIATION, no card: there is no emulated card 0" in lines(day)


def test_a_kernel_that_hangs_is_a_deviation_of_its_own(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", "loopback_1:1")
    monkeypatch.setattr(type(day), "timeout_ms", 200)
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "5")
    day = replace(day, card=4)  # which no other test has, as there are four by default: it stays hung
    assert run_steps(day, chosen("loopback", "")) == 2
    assert "DEVIATION, a run does not complete: a run of 1 rows on loopback_1 did not complete" in lines(day)


def test_more_clocks_than_predicted_are_noted_and_the_day_goes_on(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_MEMORY", "latency=200,stall=40")
    assert run_steps(day, [*chosen("", "loopback"), *chosen("", "memory")]) == 1
    noted, after = day.record.results
    assert (noted.error, len(noted.notes), after.as_expected) == ("", 2, True)
    assert "STARVED_CYCLES" in noted.notes[0]
    assert any(line.startswith("DEVIATION, more clocks than predicted") for line in noted.lines)


def test_the_clocks_of_a_run_are_judged_by_its_rows(day: Day) -> None:
    built = find_build(day, day.model)
    with open_device(built.xclbin) as device:
        unit = device.compute_unit("relu4_1")
        for clocks, notes in ((17_083, 0), (17_090, 1)):
            check_clocks(day, built.manifest, "relu4_1", clocks, 16_000, unit)
            assert len(day.record.notes) == notes


def test_steps_are_chosen_from_one_on_or_alone() -> None:
    assert [step.name for step in chosen("", "")] == list(NAMES)
    assert [step.name for step in chosen("units", "")] == ["units", "streams", "server"]
    assert [step.name for step in chosen("", "memory")] == ["memory"]


def test_a_build_for_something_else_is_not_taken(day: Day, tmp_path: Path) -> None:
    with pytest.raises(NoBuildError, match=r"does not exist, expected the model built for target hw_emu"):
        find_build(replace(day, repository=tmp_path), day.model)
    with pytest.raises(NoBuildError, match=r"built for target hw_emu and platform u250, expected hw and u250: hyper"):
        find_build(replace(day, rehearsal=False), day.model)


def test_a_step_that_is_interrupted_is_in_the_record(day: Day) -> None:
    def interrupt(_day: Day) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_steps(day, [replace(STEPS[0], run=interrupt)])
    assert [(result.step, result.error) for result in day.record.results] == [("devices", "KeyboardInterrupt: ")]
