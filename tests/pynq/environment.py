# SPDX-License-Identifier: Apache-2.0
"""PYNQ's own environment, kept in the cache by the hash of its requirement files: what it pins the project's cannot take."""

from __future__ import annotations

from pathlib import Path

from hypersonic.hls.cache import cached
from tests.support.environments import NUMPY_1, install, interpreter

HERE = Path(__file__).parent
REQUIREMENTS, BUILDER = HERE / "pynq.txt", HERE / "pynq_build.txt"
#: published as sources only; both are plain Python here
SOURCES = ("pynq", "pynqmetadata")


def pynq_python() -> Path:
    """Return the interpreter of a virtual environment with what pynq.txt pins and nothing else.

    PYNQ pins numpy 1 and gRPC 1.64: without a Python that has their wheels, the test is skipped, as `environment` does.
    """
    python = interpreter(NUMPY_1)
    pip = ["--no-deps", "--require-hashes", "--no-build-isolation", "--only-binary", ":all:"]
    from_source = [word for name in SOURCES for word in ("--no-binary", name)]
    # The builder of the two is installed first, and nothing else is fetched for them.
    runs = [[*pip, "-r", str(BUILDER)], [*pip, *from_source, "-r", str(REQUIREMENTS)]]
    return (
        cached("pynq", [REQUIREMENTS, BUILDER, python.version], lambda place: install(place, python, runs)) / "bin" / "python"
    )
