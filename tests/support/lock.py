# SPDX-License-Identifier: Apache-2.0
"""Writes the hashes of all published files into the locked requirements below tests/ and examples/. `make lock` runs it.

A person writes `name==version` into such a file, and this adds the hashes of every wheel and source of that version, so that
the file serves each Python and processor. Comments and options at the top of a file stay.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = tuple(Path(__file__).parents[2] / name for name in ("tests", "examples"))
_PIN = re.compile(r"^([A-Za-z0-9._-]+==[^\s\\]+)", re.MULTILINE)


def lock_files() -> Iterator[Path]:
    """Yield the files of locked requirements below these folders."""
    texts = (file for folder in FOLDERS for file in sorted(folder.rglob("*.txt")))
    yield from (file for file in texts if "--hash=sha256:" in file.read_text())


def relocked(file: Path, text: str) -> str:
    """Return the text of a file with all hashes of what it pins. Raises CalledProcessError if uv fails."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if _PIN.match(line))
    argv = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "compile",
        "-",
        "--no-deps",
        "--universal",
        "--python-version",
        "3.11",
    ]
    options = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    pins = "\n".join(_PIN.findall(text))
    done = subprocess.run([*argv, *options], input=pins, cwd=file.parent, stdout=subprocess.PIPE, text=True, check=True)
    return "\n".join([*lines[:first], done.stdout])


def main() -> None:
    """Rewrite each file."""
    for file in lock_files():
        file.write_text(relocked(file, file.read_text()))


if __name__ == "__main__":
    main()
