# SPDX-License-Identifier: Apache-2.0
"""Commands where the surroundings are unusual: Ctrl-C, a full disk, a read-only checkout, paths with spaces, narrow terminals.

Each case runs in a session and on a terminal of its own; all have a cache with a space in its path.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from hypersonic.cli import make_parser
from hypersonic.command_parser import CommandParser
from hypersonic.commands import NAMES
from hypersonic.commands.plan import _MORE
from tests.end_to_end.command_line import ROOT
from tests.support.caches import make_cold_cache
from tests.support.optional import skip
from tests.support.processes import command_line
from tests.support.waiting import wait_until

PROGRAM = (sys.executable, "-m", "hypersonic.cli")
MAKE = ("make", "--no-print-directory", "-C", str(ROOT), "run", "STAMP=", f"BIN={Path(sys.executable).parent}")
#: a build into the case's directory, which is HERE in all texts below
BUILD = (*PROGRAM, "build", "facile", "--model-repository", "HERE/models", "--build-directory", "HERE/build")
RUN = (*PROGRAM, "run", "facile", "--events", "1", "--model-repository", "HERE/models", "--build-directory", "HERE/build")
TUNE = (
    "sh", "-ec", f"cp {ROOT}/hls/zoo/facile/facile.h5 HERE/own.h5; {sys.executable} -c \"$0\" HERE/rows.npy; exec \"$@\"",
    "import sys, numpy; from hypersonic.hls.zoo.facile.events import gate_rows; numpy.save(sys.argv[1], gate_rows()[:200])",
    *PROGRAM, "tune", "HERE/own.h5", "--rows", "HERE/rows.npy",
)  # fmt: skip
#: a cache in which nothing is built
COLD = {"HYPERSONIC_CACHE": "HERE/a cold cache"}
COLOUR = r"\x1b\[[0-9;]*[349][0-7]"
FAULT = r"Traceback|please report|fault of hypersonic"


@dataclass(frozen=True)
class Case:
    """A command in its surroundings.

    Attributes:
        argv: the command line.
        code: its exit code.
        says: texts of its output, on whatever stream.
        never: what the output does not contain, as a regular expression.
        environment: variables, in addition to this process's.
        mounts: commands of a shell that run before it, in a mount namespace of its own; "" for none.
        interrupt: Ctrl-C is pressed when a process of the session has this in its command line, or the terminal shows it.
    """

    argv: tuple[str, ...]
    code: int
    says: tuple[str, ...] = ()
    never: str = FAULT
    environment: dict[str, str] = field(default_factory=dict)
    mounts: str = ""
    interrupt: str = ""


def full(place: str, size: str) -> str:
    """Return the commands that put a disk of this size at a place."""
    return f"mkdir -p '{place}' && mount -t tmpfs -o size={size} tmpfs '{place}'"


def closed(place: str) -> str:
    """Return the commands that make a place read-only."""
    return f"mount --bind '{place}' '{place}' && mount -o remount,ro,bind '{place}' && cd '{place}'"


CASES = {
    "a cache whose path has a space": Case((*RUN, "--output", "HERE/result"), 0, ("answers equal to csim",)),
    "Ctrl-C while a model is converted": Case(
        BUILD, 130, ("interrupted",), environment=COLD, interrupt="hypersonic.hls.convert"
    ),
    "Ctrl-C while Yosys maps the first stage": Case(BUILD, 130, ("interrupted",), interrupt="libyosys"),
    "Ctrl-C while the estimate is awaited": Case(BUILD, 130, ("interrupted",), interrupt="the estimate of its resources"),
    "Ctrl-C while g++ compiles the simulator": Case(
        (*BUILD, "--input-datatype", "FP16", "--no-resources"), 130, ("interrupted",), interrupt="cc1plus"
    ),
    "Ctrl-C while tune tries its first candidate": Case(TUNE, 130, ("interrupted",), interrupt="csim_object"),
    "Ctrl-C while a server is asked": Case(
        (*RUN, "--events", "400", "--output", "HERE/result"), 130, ("interrupted",), interrupt="events: 400"
    ),
    "a disk without room for the conversion": Case(
        (*BUILD, "--target", "sw_emu"), 2, ("HERE/small/", "HYPERSONIC_CACHE"),
        environment={"HYPERSONIC_CACHE": "HERE/small/cache"}, mounts=full("HERE/small", "100k"),
    ),
    "a disk without room for the compiler's results": Case(
        (*BUILD, "--target", "sw_emu"), 2, ("HERE/small/", "HYPERSONIC_CACHE"),
        environment={"HYPERSONIC_CACHE": "HERE/small/cache"}, mounts=full("HERE/small", "4m"),
    ),
    "a disk without room for temporary files": Case(
        (*BUILD, "--target", "sw_emu"), 2, ("HERE/small/", "TMPDIR"),
        environment={**COLD, "TMPDIR": "HERE/small"}, mounts=full("HERE/small", "1m"),
    ),
    "a disk without room for the model repository": Case(
        (*BUILD, "--target", "sw_emu", "--model-repository", "HERE/small"), 2,
        ("HERE/small/facile: No space left on device; choose another place with --model-repository",),
        mounts=full("HERE/small", "16k"),
    ),
    "a disk without room for the picture": Case(
        (*RUN, "--target", "sw_emu", "--output", "HERE/small"), 2,
        ("HERE/small: No space left on device; choose another place with --output",), mounts=full("HERE/small", "16k"),
    ),
    "a read-only directory": Case(
        (*PROGRAM, "run", "facile"), 2,
        ("HERE cannot be written; go to another directory, or choose: --model-repository DIR --build-directory DIR --output",),
        mounts=closed("HERE"),
    ),
    "a read-only checkout": Case(
        MAKE, 2, (f"error: {ROOT}", "cannot be written", "--model-repository DIR"), mounts=closed(str(ROOT))
    ),
    "a read-only directory for a result alone": Case(
        (*PROGRAM, "events", "facile", "--output", "events.npz"), 2, ("events.npz", "Read-only file system"),
        mounts=closed("HERE"),
    ),
    "NO_COLOR": Case(
        (*PROGRAM, "events", "facile", "--events", "1", "--output", "HERE/events.npz"), 0, ("1 events",), COLOUR,
        {"NO_COLOR": "1", "TERM": "xterm-256color"},
    ),
    "no command": Case(PROGRAM, 0, ("usage: hypersonic", "a model of your own:", "--version")),
    "no events": Case((*RUN, "--events", "0"), 2, ("--events: got '0', expected a whole number above 0",)),
    "no events for a server": Case((*PROGRAM, "infer", "facile", "--events", "0"), 2, ("got '0', expected a whole number",)),
    "no events for a file": Case((*PROGRAM, "events", "facile", "--events", "0"), 2, ("got '0', expected a whole number",)),
}  # fmt: skip


#: those that build, of which each takes a minute or more of processor time
BUILDING = [name for name, case in CASES.items() if case.interrupt or name.startswith(("a cache", "a disk"))]
WHOLE = pytest.mark.whole("client", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which models are built once for all cases."""
    return make_cold_cache(tmp_path_factory.mktemp("surroundings") / "a cache")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[WHOLE] if name in BUILDING else []) for name in CASES])
def test_a_command_says_what_is_wrong_around_it_or_copes_with_it(name: str, cache: Path, tmp_path: Path) -> None:
    case = CASES[name]
    (here := tmp_path / "here").mkdir()
    environment = {"HYPERSONIC_CACHE": str(cache), **case.environment}
    argv = [*namespace(), f'{case.mounts}; exec "$@"', "sh", *case.argv] if case.mounts else [*case.argv]
    environment = {key: text.replace("HERE", str(here)) for key, text in environment.items()}
    with Terminal([word.replace("HERE", str(here)) for word in argv], here, environment) as terminal:
        if case.interrupt:
            terminal.press_ctrl_c_at(case.interrupt)
        code = terminal.wait(180 if case.interrupt else 600)
        wait_until(lambda: not terminal.session(), 10)
    assert code == case.code, terminal.shown
    for text in case.says:
        assert text.replace("HERE", str(here)) in " ".join(terminal.shown.split())
    assert not re.search(case.never, terminal.shown), terminal.shown


@pytest.mark.parametrize("command", NAMES)
def test_the_help_of_a_command_fits_60_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    (commands,) = [each for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    parsers = [make_parser(), commands.choices[command.replace("_", "-")]]
    for action in parsers[-1]._actions:
        parsers += action.choices.values() if isinstance(action, argparse._SubParsersAction) else []
    for parser in parsers:
        assert [line for line in parser.format_help().splitlines() if len(line) > 60] == []


def test_a_command_of_an_epilog_that_is_wrapped_is_one_command_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    parser = CommandParser(prog="hypersonic plan", description=_MORE)
    commands = [line.strip() for line in _MORE.splitlines() if line.startswith("  hypersonic ")]
    assert any(len(command) > 60 for command in commands)
    joined = re.sub(r" \\\n +", " ", parser.format_help())
    for command in commands:
        assert f"  {command}\n" in joined


def namespace() -> list[str]:
    """Return the beginning of a command in a mount namespace of its own, or skip the test."""
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    tried = subprocess.run([*argv, full("/mnt", "1m")], capture_output=True, text=True, check=False)
    if tried.returncode:
        skip(f"needs user namespaces that may mount: {tried.stderr.strip()}")
    return argv


class Terminal:
    """A command in a session of its own, with a terminal that it reads and writes.

    Attributes:
        shown: what the command wrote.
    """

    def __init__(self, argv: list[str], directory: Path, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300", **environment}
        self._process = subprocess.Popen(
            # a shell's background jobs ignore SIGINT, and so would what they start
            ["env", "--default-signal=INT", "setsid", "--ctty", *argv],
            cwd=directory,
            env=variables,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.shown = ""
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.session():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        with suppress(OSError):  # the last process has closed the terminal
            while piece := os.read(self._master, 1 << 16):
                self.shown += piece.decode(errors="replace")

    def session(self) -> list[int]:
        """Return the processes of the session that have not ended."""
        return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and self._has(int(each.name))]

    def _has(self, pid: int) -> bool:
        with suppress(OSError):
            state, _parent, _group, session, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return state not in "ZX" and int(session) == self._process.pid
        return False

    def press_ctrl_c_at(self, text: str) -> None:
        """Press Ctrl-C as soon as the terminal shows a text, or a process of the session has it in its command line."""
        wait_until(
            lambda: text in self.shown or any(text in command_line(pid) for pid in self.session()), 300,
            explain=lambda: self.shown,
        )  # fmt: skip
        os.write(self._master, b"\x03")

    def wait(self, timeout_s: float) -> int:
        """Return the exit code."""
        return self._process.wait(timeout_s)
