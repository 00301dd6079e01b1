# SPDX-License-Identifier: Apache-2.0
"""Steps: run once, run again when an input changed, never taken for done when they were not, ended when we are."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hypersonic.firmware.toolchains.errors import StepError
from hypersonic.firmware.toolchains.steps import EXPLANATIONS, Product, Step, is_done, locked, run_step, run_steps
from hypersonic.hls.errors import ToolMemoryError


def _step(name: str, script: str, *inputs: str, key: str = "", leaves: str = "") -> Step:
    """A shell that counts its runs in runs.txt and makes <name>.out."""
    argv = ("/bin/sh", "-c", f"echo {name} >> runs.txt; {script}")
    return Step(name, f"making {name}", argv, inputs, (Product(f"partial/{name}", f"{name}.out"),), (key,), leaves=leaves)


def _runs(build: Path) -> list[str]:
    file = build / "runs.txt"
    return file.read_text().split() if file.exists() else []


def test_a_step_that_is_done_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1")
    step = _step("a", "cp in partial/a", "in")
    for _ in range(2):
        run_steps([step], tmp_path)
    assert _runs(tmp_path) == ["a"]
    assert (tmp_path / "a.out").read_text() == "1"
    assert not list((tmp_path / "partial").iterdir())


@pytest.mark.parametrize(
    "change",
    [
        lambda build: (build / "in").write_text("2"),
        lambda build: (build / "a.out").write_text("touched"),
        lambda build: (build / "a.out").unlink(),
        lambda build: (build / "a.json").write_text("{"),
        lambda build: (build / "a.json").write_text("[1]"),
        lambda build: (build / "a.json").unlink(),
    ],
    ids=["input", "product", "no product", "no JSON", "no object", "no stamp"],
)
def test_a_step_is_run_again_when_anything_of_it_changed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    (tmp_path / "in").write_text("1")
    step = _step("a", "cp in partial/a", "in")
    run_steps([step], tmp_path)
    change(tmp_path)
    assert not is_done(step, tmp_path)
    run_steps([step], tmp_path)
    assert _runs(tmp_path) == ["a", "a"]
    assert is_done(step, tmp_path)


def test_another_release_of_the_tool_is_another_step(tmp_path: Path) -> None:
    for release in ("2024.1", "2024.2"):
        run_steps([_step("a", "echo > partial/a", key=release)], tmp_path)
    assert _runs(tmp_path) == ["a", "a"]


def test_a_later_step_that_is_done_stands_for_those_before_it(tmp_path: Path) -> None:
    """The project of a finished build may be removed to make room."""
    steps = [_step("a", "mkdir -p kept; echo > partial/a", leaves="kept"), _step("b", "cp a.out partial/b", "a.out")]
    run_steps(steps, tmp_path)
    (tmp_path / "kept").rmdir()
    run_steps(steps, tmp_path)
    assert _runs(tmp_path) == ["a", "b"]
    (tmp_path / "b.out").unlink()
    run_steps(steps, tmp_path)
    assert _runs(tmp_path) == ["a", "b", "a", "b"]


def test_a_build_goes_on_at_the_step_that_failed(tmp_path: Path) -> None:
    steps = [_step("a", "echo 1 > partial/a"), _step("b", "test -e allowed && cp a.out partial/b", "a.out")]
    with pytest.raises(StepError, match="making b: sh ended with 1"):
        run_steps(steps, tmp_path)
    (tmp_path / "allowed").touch()
    run_steps(steps, tmp_path)
    assert _runs(tmp_path) == ["a", "b", "b"]


def test_half_a_product_of_a_failed_tool_is_not_taken(tmp_path: Path) -> None:
    step = _step("a", "echo half > partial/a; exit 3")
    for _ in range(2):
        with pytest.raises(StepError, match="ended with 3"):
            run_step(step, tmp_path)
    assert not (tmp_path / "a.out").exists()
    assert not is_done(step, tmp_path)


def test_a_tool_that_needs_more_memory_than_its_limit_is_ended_and_its_step_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_MEMORY", "100M")
    takes = "x = bytearray(b'x') * (200 << 20); import time; time.sleep(600)"
    step = _step("a", f'echo > partial/a; {sys.executable} -c "{takes}"')
    with pytest.raises(ToolMemoryError, match=r"^making a: sh needs more memory .* of which python.* the limit is 100 MB"):
        run_step(step, tmp_path)
    assert not is_done(step, tmp_path)


@pytest.mark.parametrize("script", ["true", ": > partial/a"], ids=["none", "empty"])
def test_a_tool_that_ends_well_without_its_product_has_failed(tmp_path: Path, script: str) -> None:
    with pytest.raises(StepError, match="succeeded, but wrote no partial/a"):
        run_step(_step("a", script), tmp_path)


def test_the_log_holds_everything_and_the_error_the_first_errors(tmp_path: Path) -> None:
    script = "for k in 1 2 3 4; do echo ERROR: [X $k] no; done; echo then; exit 1"
    with pytest.raises(StepError) as failure:
        run_step(_step("a", script), tmp_path)
    message = str(failure.value)
    assert "it said: ERROR: [X 1] no | ERROR: [X 2] no | ERROR: [X 3] no; the whole log is" in message
    log = (tmp_path / "a.log").read_text()
    assert "ERROR: [X 4] no\nthen\n" in log
    assert log.startswith("\n# /bin/sh -c echo a")


def test_the_error_shows_the_last_lines_of_a_tool_without_error_lines(tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"it said: first \| last; the whole log"):
        run_step(_step("a", "echo first; echo; echo last; exit 1"), tmp_path)


def test_a_tool_that_shouts_is_cut_not_kept(tmp_path: Path) -> None:
    with pytest.raises(StepError) as failure:
        run_step(_step("a", "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\033[2J'; exit 1"), tmp_path)
    assert len(str(failure.value)) < 3000
    assert str(failure.value).isprintable()
    assert (tmp_path / "a.log").stat().st_size > 3_000_000


def test_stages_of_the_tool_are_told_as_they_come(tmp_path: Path) -> None:
    told: list[str] = []
    run_step(
        _step("a", "echo '[13:31:18] Starting bitstream generation..'; echo other; echo > partial/a"), tmp_path, told.append
    )
    assert told == [f"making a (log: {tmp_path}/a.log)", "Starting bitstream generation.."]


def test_an_interrupted_build_ends_the_tool_and_its_children(tmp_path: Path) -> None:
    """The stage is the event at which we are interrupted; the tool's child would hold the pipe open for ever."""

    def interrupt(text: str) -> None:
        if text == "Starting placement..":
            raise KeyboardInterrupt

    script = "echo half > partial/a; sleep 1000 & echo $! $$ > pids; echo '[12:00:01] Starting placement..'; wait"
    step = _step("a", script)
    with pytest.raises(KeyboardInterrupt):
        run_step(step, tmp_path, interrupt)
    child, shell = (tmp_path / "pids").read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(shell), 0)
    assert _ends(int(child))
    assert not is_done(step, tmp_path)


def test_a_child_that_holds_the_output_does_not_keep_the_build_waiting(tmp_path: Path) -> None:
    run_step(_step("a", "sleep 1000 & echo $! > pids; echo > partial/a"), tmp_path)
    assert _ends(int((tmp_path / "pids").read_text()))


def _ends(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended = bool(select.select([handle], [], [], 60)[0])
    os.close(handle)
    return ended


def test_a_killed_tool_is_explained_by_memory(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="was killed, as the system does when memory runs out"):
        run_step(_step("a", "kill -9 $$"), tmp_path)
    with pytest.raises(StepError, match=f"was ended by signal {int(signal.SIGTERM)}"):
        run_step(_step("a", "kill -15 $$"), tmp_path)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("ERROR: [Common 17-345] A valid license was not found for feature 'Synthesis' and/or device 'xcu250'.", "no licence"),
        ("WARNING: [Common 17-348] Failed to get the license for feature 'Synthesis'", "no licence"),
        ("ERROR: [v++ 60-1258] No valid platform was found that matches 'xilinx_u250'.", "does not take the platform"),
        ("ERROR: [VPL 101-2] design did not meet timing - Design did not meet timing.", "a clock that cannot be lowered"),
        ("ERROR: [Place 30-640] Place Check : This design requires more LUT cells than are available", "does not fit"),
        ("ERROR: write failed: No space left on device", "the disk is full"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "memory is too small"),
        ("ERROR: [Coretcl 2-106] Specified part could not be found.", "installed without the device"),
    ],
)
def test_what_the_tools_say_is_explained(tmp_path: Path, line: str, advice: str) -> None:
    (tmp_path / "said").write_text(line)
    with pytest.raises(StepError) as failure:
        run_step(_step("a", "cat said; exit 1"), tmp_path)
    known = [text for _, text in EXPLANATIONS if advice in text]
    assert len(known) == 1
    assert f"ended with 1: {known[0]}; it said:" in str(failure.value)


def test_a_tool_that_is_gone_is_named(tmp_path: Path) -> None:
    step = Step("a", "making a", ("/nowhere/v++",), (), ())
    with pytest.raises(StepError, match=r"making a: /nowhere/v\+\+ does not start: No such file"):
        run_step(step, tmp_path)


def test_a_directory_takes_one_build_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "build"), pytest.raises(StepError, match="another build runs in"), locked(tmp_path / "build"):
        pass
    with locked(tmp_path / "build"):
        pass
