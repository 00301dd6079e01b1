# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its commands run in order in an empty directory, and print what the page shows."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hypersonic.hls.child import python_environment
from tests.end_to_end.tutorial import Commands, File, is_shown, read_steps
from tests.support.caches import make_cold_cache

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text()


class Reader:
    """Somebody at a new machine who does what the page says: own directory, own cache of models, own ports."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "pulse"
        self._groups: list[int] = []
        self._ports = dict(zip(("8000", "8001", "8002"), free_ports(), strict=True))
        programs = directory / "bin"
        for folder in (self._directory, programs):
            folder.mkdir()
        command = programs / "hypersonic"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m hypersonic.cli "$@"\n')
        command.chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = python_environment(PATH=path, HYPERSONIC_CACHE=str(make_cold_cache(directory / "cache")))
        self._environment.pop("HYPERSONIC_EMU_DEVICES", None)

    def with_ports(self, text: str) -> str:
        """The text with ports of this reader's in place of the default ones, which another server may have."""
        return re.sub(r"\b800[012]\b", lambda match: self._ports[match[0]], text)

    def save(self, file: File) -> None:
        (self._directory / file.name).write_text(self.with_ports(file.text))

    def run(self, commands: Commands) -> None:
        names = zip(("http", "grpc", "metrics"), self._ports, strict=True)
        options = " ".join(f"--{name}-port {port}" for name, port in names)
        script = self.with_ports(commands.text.replace("hypersonic serve", f"hypersonic serve {options}"))
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self._directory, env=self._environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._groups.append(process.pid)
        printed, _ = process.communicate(timeout=900)
        shown = Commands(commands.text, commands.exit_code, commands.output and self.with_ports(commands.output))
        shown.numbers_vary = commands.numbers_vary
        ended = f"{script}\nended with {process.returncode}:\n{printed}{self._logs()}"
        assert process.returncode == commands.exit_code, ended
        assert is_shown(shown, printed), f"{script}\nprints\n\n{printed}\nthe page shows\n\n{shown.output}"

    def _logs(self) -> str:
        return "".join(f"\n{log.name}:\n{log.read_text()}" for log in sorted(self._directory.glob("*.log")))

    def leave(self) -> None:
        """End what the commands left running."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def free_ports() -> list[str]:
    """Three ports that are free, and stay free until a server takes them: none that Linux gives to a connection meanwhile."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[str] = []
    for port in random.sample(range(10_000, first), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(str(port))
    return found[:3]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


@pytest.mark.whole(
    "client", "docs/tutorial.md", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim"
)  # fmt: skip
@pytest.mark.timeout(1800)  # two minutes of processor time, on a busy machine many of the clock's
def test_every_command_of_the_tutorial_does_and_prints_what_the_page_says(reader: Reader) -> None:
    for step in read_steps(PAGE):
        if isinstance(step, File):
            reader.save(step)
        else:
            reader.run(step)


def test_the_tutorial_builds_both_cores_serves_and_stops() -> None:
    steps = read_steps(PAGE)
    scripts = "".join(step.text for step in steps if isinstance(step, Commands))
    for words in (
        "--target sw_emu",
        "--target hw_emu",
        "--core rf --fit u250",
        "--compute-units 2",
        "hypersonic serve",
        "kill ",
    ):
        assert words in scripts, words
    assert not re.findall(r"^<!-- (?!file: |not run: |exit code \d|numbers vary).*-->$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    ("shown", "numbers_vary", "printed", "expected"),
    [
        ("a ...\nc", False, "a b\nb\nc\n", True),
        ("a 1", False, "a 2", False),
        ("a  1.5 ns", True, "a   12,000 ns", True),
        ("a  1.5 ns", True, "b   1.5 ns", False),
        ("a\nb", True, "a\nc\nb", False),
    ],
)
def test_output_is_compared_with_what_is_shown(shown: str, numbers_vary: bool, printed: str, expected: bool) -> None:
    assert is_shown(Commands("", output=shown, numbers_vary=numbers_vary), printed) is expected


def test_the_blocks_of_a_page_are_read_in_order() -> None:
    file = "# A\n\n<!-- file: a.py -->\n```python\n1\n```\n\n"
    commands = "```bash\nb\n```\n```text\n...\n```\n\n<!-- exit code 2 -->\n```bash\nc\n```\n"
    not_run = "<!-- not run: d -->\n```bash\nd\n```\n```text\nd\n```\n"
    assert read_steps(file + commands + not_run) == [File("a.py", "1\n"), Commands("b\n", 0, "...\n"), Commands("c\n", 2)]
