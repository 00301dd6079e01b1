# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the tutorial and the pages after it, and the comparison of what was printed with what they show.

```bash                      commands to run; a text block right after them shows what they print
```text                      that output: `...` stands for anything, on a line of its own for any lines or none
<!-- file: NAME -->          before a block: the reader saves it as NAME
<!-- not run: REASON -->     before a bash block: the reader runs it, the test does not
<!-- exit code N -->         before a bash block: it ends with N; without this 0 is expected
<!-- numbers vary -->        before a text block: any number stands for any other
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VARIES = re.compile(r"(^\.\.\.\n|\.\.\.|\d(?:[\d,.]*\d)?| {2,})", re.MULTILINE)


@dataclass(frozen=True)
class File:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass
class Commands:
    """Commands that the reader runs. output: what the page shows; None where it shows nothing."""

    text: str
    exit_code: int = 0
    output: str | None = None
    numbers_vary: bool = False


def read_steps(page: str) -> list[File | Commands]:
    """Return the files and commands of the page in order, without the commands that are not run."""
    steps: list[File | Commands] = []
    commands: Commands | None = None  # those of the block before
    for mark, language, text in _BLOCK.findall(page):
        if mark.startswith("file: "):
            steps.append(File(mark.removeprefix("file: "), text))
            commands = None
        elif language == "bash":
            exit_code = mark.removeprefix("exit code ") if mark.startswith("exit code ") else "0"
            commands = Commands(text, int(exit_code))
            if not mark.startswith("not run"):
                steps.append(commands)
        elif language == "text" and commands:
            commands.output, commands.numbers_vary = text, mark == "numbers vary"
            commands = None
    return steps


def is_shown(commands: Commands, printed: str) -> bool:
    """Return whether the page shows what the commands printed."""
    if commands.output is None:
        return True
    pieces = (_pattern(piece, commands.numbers_vary) for piece in _VARIES.split(commands.output.strip()))
    return re.fullmatch("".join(pieces), printed.strip(), re.DOTALL) is not None


def _pattern(piece: str, numbers_vary: bool) -> str:
    if piece == "...\n":
        return r"(?:.*\n)?"
    if piece == "...":
        return ".*"
    if numbers_vary and piece[:1].isdigit():
        return r"[\d,.]+"
    return r"\s+" if numbers_vary and _VARIES.fullmatch(piece) else re.escape(piece)
