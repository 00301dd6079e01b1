# SPDX-License-Identifier: Apache-2.0
"""Lint of the backend's C++: clang-format and clang-tidy.

    python -m tests.support.cpp_lint [--fix]

clang-tidy takes a minute; its result is cached by the content of the files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypersonic.hls.cache import cached
from hypersonic.triton.compile import CPP, STANDARD, contents, include_options, sources

_BIN = Path(sys.executable).parent


class LintError(Exception):
    """The C++ has a finding; the message is the tool's."""


def main() -> int:
    """Check all files, and print the findings. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--fix", action="store_true", help="format the files in place")
    fix = parser.parse_args().fix
    files = [*sources(), *sorted(CPP.glob("*/*.hpp"))]
    try:
        _run([str(_BIN / "clang-format"), *(["-i"] if fix else ["--dry-run", "--Werror"]), *map(str, files)])
        cached("clang_tidy", contents(), _tidy)
    except LintError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"ok     {len(files)} files of {CPP.parent.name}/{CPP.name}\n")
    return 0


def _tidy(directory: Path) -> None:
    options = ["--", STANDARD, *include_options(directory)]

    def check(source: Path) -> None:
        _run([str(_BIN / "clang-tidy"), "--quiet", str(source), *options])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(check, sources()))


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LintError(f"{done.stdout}{done.stderr}".strip())


if __name__ == "__main__":
    sys.exit(main())
