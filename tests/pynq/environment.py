# SPDX-License-Identifier: Apache-2.0
"""PYNQ's own environment, kept in the cache by the hash of its requirement file: what it pins the project's cannot take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypersonic.hls.cache import cached

REQUIREMENTS = Path(__file__).with_name("pynq.txt")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: published as sources only; both are plain Python here
SOURCES = ("pynq", "pynqmetadata")


class UnavailableError(RuntimeError):
    """PYNQ cannot be had here: what the installer said."""


def pynq_python() -> Path:
    """The interpreter of a virtual environment with what pynq.txt pins and nothing else. Raises UnavailableError."""
    return cached("pynq", [REQUIREMENTS, PYTHON], _install) / "bin" / "python"


def _install(directory: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    lock = REQUIREMENTS.read_text()
    # what builds the two is pinned as well: it goes in first, and nothing else is fetched for them
    builder = next(line for line in lock.splitlines() if line.startswith("setuptools=="))
    pip = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-build-isolation", "-r", "-"]
    from_source = [word for name in SOURCES for word in ("--no-binary", name)]
    there = ["--python", str(directory)]
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(directory)])
    _run([*pip, "--only-binary", ":all:", *there], builder)
    _run([*pip, "--only-binary", ":all:", *from_source, *there], lock)


def _run(argv: list[str], text: str = "") -> None:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{REQUIREMENTS.name} cannot be installed: {done.stderr.strip()}")
