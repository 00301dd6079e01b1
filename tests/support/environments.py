# SPDX-License-Identifier: Apache-2.0
"""Programs of others that tests run, each installed from a file of locked requirements into an environment of its own.

The build cache keeps an environment by the content of that file. Nothing of it enters the environment of the project.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hypersonic.hls.cache import cached

HERE = Path(__file__).parent
#: major.minor of the Python that runs the tests; the environments have the same
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class UnavailableError(RuntimeError):
    """A package cannot be installed here. The message names it and has the installer's text."""


class Program(NamedTuple):
    """A program of another project. argv: its first words; env: added to the caller's environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def environment(requirements: Path) -> Path:
    """Return a virtual environment with what this file pins by version and hash, and nothing else. Raises UnavailableError."""
    return cached("reference", [requirements, PYTHON], lambda directory: _install(requirements, directory))


def _install(requirements: Path, directory: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    pip = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)]
    for argv in ([uv, "venv", "--quiet", "--python", sys.executable, str(directory)], [*pip, "--python", str(directory)]):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"{requirements.name} cannot be installed: {done.stderr.strip()}")


def site_packages(directory: Path) -> Path:
    """Return the folder in which an environment keeps its packages."""
    return directory / "lib" / f"python{PYTHON}" / "site-packages"


def envoy() -> Path:
    """Return the path of the real Envoy, an executable file. Raises UnavailableError."""
    return site_packages(environment(HERE / "envoy.txt")) / "envoy" / "_bin" / "envoy"
