# SPDX-License-Identifier: Apache-2.0
"""A reader of a page, who saves its files and runs its commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from hypersonic.hls.child import python_environment
from tests.end_to_end.tutorial import Commands, File, is_shown
from tests.support.ports import free_ports


class Reader:
    """Somebody at a new machine who does what the page says: own directory, own cache of models, own ports."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory / "pulse"
        self._groups: list[int] = []
        self._ports = dict(zip(("8000", "8001", "8002"), map(str, free_ports(3)), strict=True))
        programs = directory / "bin"
        for folder in (self.directory, programs):
            folder.mkdir(exist_ok=True)
        command = programs / "hypersonic"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m hypersonic.cli "$@"\n')
        command.chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = python_environment(PATH=path, HYPERSONIC_CACHE=str(cache))
        self._environment.pop("HYPERSONIC_EMU_DEVICES", None)

    def with_ports(self, text: str) -> str:
        """The text with ports of this reader's in place of the default ones, which another server may have."""
        return re.sub(r"\b800[012]\b", lambda match: self._ports[match[0]], text)

    def save(self, file: File) -> None:
        (self.directory / file.name).write_text(self.with_ports(file.text))

    def run(self, commands: Commands) -> None:
        names = zip(("http", "grpc", "metrics"), self._ports, strict=True)
        options = " ".join(f"--{name}-port {port}" for name, port in names)
        asked = "hypersonic infer --url localhost:8001 --metrics-url http://localhost:8002/metrics"
        text = commands.text.replace("hypersonic serve", f"hypersonic serve {options}").replace("hypersonic infer", asked)
        script = self.with_ports(text)
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.directory, env=self._environment, start_new_session=True,
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
        return "".join(f"\n{log.name}:\n{log.read_text()}" for log in sorted(self.directory.glob("*.log")))

    def leave(self) -> None:
        """End what the commands left running."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
