# SPDX-License-Identifier: Apache-2.0
"""Tools that take too much memory, that are killed, interrupted, or well: programs that stand for compilers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from hypersonic.hls.bounded import processes, tool
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.hls.errors import DiskFullError, ToolMemoryError
from tests.support.waiting import wait_until

#: writes its pid and that of a child; the child takes memory until it is ended, 20 MB at a time
GREEDY = """
import os, subprocess, sys, time
taking = "x = []\\nimport time\\nwhile True: x.append(b'x' * (20 << 20)); time.sleep(0.02)"
child = subprocess.Popen([sys.executable, "-c", taking if sys.argv[2] == "taking" else "import time; time.sleep(600)"])
open(sys.argv[1] + ".new", "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
child.wait()
"""


def have_ended(pids: list[int]) -> bool:
    return not any(processes.find(pid) for pid in pids)


def pids_in(file: Path) -> list[int]:
    wait_until(file.is_file)
    return [int(pid) for pid in file.read_text().split()]


def test_a_tool_whose_child_takes_too_much_is_ended_with_it_and_the_message_says_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_MEMORY", "200M")
    file = tmp_path / "pids"
    with pytest.raises(ToolMemoryError) as caught:
        tool.run(python_argv("-c", GREEDY, str(file), "taking"), "the compiler of layer big")
    pids = pids_in(file)
    wait_until(lambda: have_ended(pids))
    said = str(caught.value)
    assert said.startswith("the compiler of layer big needs more memory than its limit: it was ended at ")
    assert "of which python" in said
    for word in ("the limit is 200 MB", "HYPERSONIC_MEMORY", "--memory", "io_stream", "Resource", "--target sw_emu"):
        assert word in said
    assert caught.value.exit_code == 2


def test_a_tool_that_stays_below_is_untouched_and_its_output_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_MEMORY", "1G")
    program = "import sys\nfor k in range(20000): print(k)\nsys.stderr.write('to the other'); sys.exit(3)"
    done = tool.run(python_argv("-c", program), "a tool", apart=True)
    assert (done.code, done.output.split(), done.errors) == (3, [str(k) for k in range(20000)], "to the other")
    done = tool.run(python_argv("-c", program), "a tool")
    assert done.output.endswith("to the other")
    assert done.errors == ""


def test_a_tool_has_the_directory_and_the_environment_that_it_is_given(tmp_path: Path) -> None:
    program = "import os; print(os.getcwd(), os.environ['GIVEN'])"
    done = tool.run(python_argv("-c", program), "a tool", cwd=tmp_path, env=python_environment(GIVEN="this"))
    assert done.output.split() == [str(tmp_path.resolve()), "this"]


def test_a_tool_that_is_missing_is_the_error_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        tool.run(["no-such-tool-at-all"], "a tool")


@pytest.mark.parametrize(
    "program",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.exit(137)",
        "import sys; sys.exit('g++: fatal error: Killed signal terminated program cc1plus')",
        "raise MemoryError",
    ],
)
def test_a_tool_that_the_system_kills_is_said_to_have_found_no_memory(program: str) -> None:
    with pytest.raises(ToolMemoryError, match=r"^a tool was killed by the system, which had no memory left; .*sw_emu"):
        tool.run(python_argv("-c", program), "a tool")


@pytest.mark.parametrize("program", ["import os; os.abort()", "import sys; sys.exit('no: the word killed alone')"])
def test_a_tool_that_fails_otherwise_has_not(program: str) -> None:
    assert tool.run(python_argv("-c", program), "a tool").code in (-signal.SIGABRT, 1)


def test_compilers_that_run_side_by_side_share_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the three jobs of make holds 100 MB: no process alone is above the limit."""
    monkeypatch.setenv("HYPERSONIC_MEMORY", "250M")
    holds = f"{sys.executable} -c \"x = b'x' * (100 << 20); import time; time.sleep(600)\""
    rules = [f"{job}:\n\t{holds}\n" for job in "abc"]
    (tmp_path / "Makefile").write_text("all: a b c\n" + "".join(rules))
    with pytest.raises(ToolMemoryError, match="make needs more memory"):
        tool.run(["make", "-j3", "-f", str(tmp_path / "Makefile")], "make", cwd=tmp_path)


@pytest.mark.parametrize("what", ["SIGINT", "body"])
def test_an_interruption_ends_grandchildren_too(tmp_path: Path, what: str) -> None:
    """SIGINT reaches this process alone, as from a program that watches it. A body is what reads the tool's output."""
    file = tmp_path / "pids"
    argv = python_argv("-c", GREEDY, str(file), "idle")
    if what == "body":
        with suppress(ValueError), tool.start(argv, "a tool"):
            pids = pids_in(file)
            raise ValueError("no number")
    else:
        # A program that a shell started in the background ignores SIGINT, and so would its children.
        program = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from hypersonic.hls.bounded import tool; tool.run(sys.argv[1:], 'a tool')"
        )
        with subprocess.Popen(python_argv("-c", program, *argv), env=python_environment(), stderr=subprocess.DEVNULL) as parent:
            pids = pids_in(file)
            parent.send_signal(signal.SIGINT)
        assert parent.returncode != 0
    wait_until(lambda: have_ended(pids))


def test_what_ignores_the_interruption_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.3)
    file = tmp_path / "pids"
    deaf = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{GREEDY}"
    with suppress(ValueError), tool.start(python_argv("-c", deaf, str(file), "idle"), "a tool"):
        pids = pids_in(file)
        raise ValueError("no number")
    wait_until(lambda: have_ended(pids))


def test_a_tool_below_a_tool_is_ended_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion starts g++ in a process group of its own."""
    monkeypatch.setenv("HYPERSONIC_MEMORY", "200M")
    file = tmp_path / "pids"
    program = (
        "import os, sys; os.environ['HYPERSONIC_MEMORY'] = '10G'\n"
        "from hypersonic.hls.bounded import tool; tool.run(sys.argv[1:], 'the inner tool')"
    )
    with pytest.raises(ToolMemoryError, match=r"^the outer tool needs more"):
        tool.run(
            python_argv("-c", program, *python_argv("-c", GREEDY, str(file), "taking")), "the outer tool",
            env=python_environment(),
        )  # fmt: skip
    pids = pids_in(file)
    wait_until(lambda: have_ended(pids))


def test_a_watched_tool_leaves_no_thread() -> None:
    before = threading.active_count()
    tool.run(["true"], "a tool")
    assert threading.active_count() == before


def test_another_process_with_the_tools_number_is_not_measured() -> None:
    here = processes.find(os.getpid())
    assert here
    assert processes.Process(here.pid, here.parent, here.group, here.started) in processes.family(here)
    assert processes.family(processes.Process(here.pid, here.parent, here.group, here.started - 1)) == []
    assert processes.held(processes.family(here)).size_bytes > 1 << 20
    assert processes.held([]) == processes.NOTHING


def test_a_tool_that_finds_no_space_is_refused_with_the_file_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError) as caught:
        tool.run(python_argv("-c", "open('/dev/full', 'w').write('x' * 9999)"), "the compiler", cwd=tmp_path)
    said = str(caught.value)
    assert said.startswith(f"the compiler found no space left on the disk of {tmp_path}; ")
    assert "HYPERSONIC_CACHE" in said
    assert "TMPDIR" in said
    assert caught.value.exit_code == 2
