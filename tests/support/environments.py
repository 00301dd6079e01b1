# SPDX-License-Identifier: Apache-2.0
"""Programs of others that tests run, each installed from a file of locked requirements into an environment of its own.

The build cache keeps an environment by the content of that file. Nothing of it enters the environment of the project. The first
installation needs the network.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hypersonic.hls.cache import cached
from tests.support.optional import skip

HERE = Path(__file__).parent
UV = str(Path(sys.executable).with_name("uv"))
#: what `requirements.lock` and the locked requirements of the environments are for
PYTHONS = ("3.11", "3.12", "3.13")
#: those with a wheel of numpy 1.26, for what cannot take numpy 2
NUMPY_1 = ("3.11", "3.12")
_OFFLINE = re.compile(
    r"failed to fetch|error sending request|dns error|lookup address|connect|timed out|network|offline", re.IGNORECASE
)


class Program(NamedTuple):
    """A program of another project. argv: its first words; env: added to the caller's environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class Interpreter(NamedTuple):
    """A Python. version: its major.minor; libraries: the directory of its shared library."""

    path: str
    version: str
    libraries: str


def environment(requirements: Path, pythons: Sequence[str] = PYTHONS) -> Path:
    """Return a virtual environment with what this file pins by version and hash, and nothing else.

    pythons: versions for which the file has wheels. It has the Python of the tests if that is one of them, and otherwise one
    that this machine has. Skips the test where there is none, and where there is no network for the first installation.
    """
    python = interpreter(tuple(pythons))
    return cached(
        "reference",
        [requirements, python.version],
        lambda directory: install(directory, python, [_file_arguments(requirements)]),
    )


def _file_arguments(requirements: Path) -> list[str]:
    return ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)]


def install(directory: Path, python: Interpreter, runs: Sequence[Sequence[str]]) -> None:
    """Make a virtual environment, and call `uv pip install` with each of these arguments.

    Skips the test without the network. Raises RuntimeError with uv's text if it fails otherwise.
    """
    argvs = [[UV, "venv", "--quiet", "--python", python.path, str(directory)]]
    argvs += [[UV, "pip", "install", "--quiet", "--python", str(directory), *arguments] for arguments in runs]
    for argv in argvs:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            text = done.stderr.strip()
            skip_offline(text)
            raise RuntimeError(f"{' '.join(argv)}: {text}")


def skip_offline(text: str) -> None:
    """Skip the test if the text of an installer that failed is about the network."""
    if _OFFLINE.search(text):
        skip(f"needs the network: {text}")


def check_installed(done: subprocess.CompletedProcess[str]) -> None:
    """Fail the test with the installer's text if it failed; skip the test if that is for want of the network."""
    if done.returncode:
        skip_offline(done.stderr)
    assert done.returncode == 0, done.stderr


@cache
def interpreter(pythons: tuple[str, ...]) -> Interpreter:
    """Return the Python of the tests if it is one of these versions, and otherwise the first that uv finds on this machine.

    Skips the test if there is none.
    """
    if (own := _described(sys.executable)).version in pythons:
        return own
    found = next(filter(None, map(_found, pythons)), "")
    if not found:
        skip(f"needs Python {' or '.join(pythons)}, as `.venv/bin/uv python install {pythons[-1]}` installs it")
    return _described(found)


def _found(version: str) -> str:
    argv = [UV, "python", "find", "--no-python-downloads", "--no-project", "--system", version]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def _described(path: str) -> Interpreter:
    script = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_config_var('LIBDIR'))"
    version, _, libraries = subprocess.run([path, "-c", script], capture_output=True, text=True, check=True).stdout.partition(
        " "
    )
    return Interpreter(path, version, libraries.strip())


def site_packages(directory: Path) -> Path:
    """Return the folder in which an environment keeps its packages."""
    (folder,) = (directory / "lib").glob("python3.*")
    return folder / "site-packages"


def envoy() -> Path:
    """Return the path of the real Envoy, an executable file."""
    return site_packages(environment(HERE / "envoy.txt")) / "envoy" / "_bin" / "envoy"
