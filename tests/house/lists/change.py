# SPDX-License-Identifier: Apache-2.0
"""A small addition to this project, the list of docs/architecture.md that it follows, and a copy of the tree that has it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.house.graph import ROOMS, ROOT
from tests.house.tracked import tracked_files

_PAGE = ROOT / "docs" / "architecture.md"
_SPAN = re.compile(r"`([^`]+)`")
#: what a path of a list begins with
_FOLDERS = tuple(f"{folder}/" for folder in (*ROOMS, "hypersonic", "tests", "docs", "deploy"))


@dataclass(frozen=True)
class Change:
    """One small addition, such as a layer.

    section: the heading of its list. new: path -> the text of a new file. edits: path -> (what is there, what takes its place
    everywhere), one after another; "" is the end of the file. unneeded: path of the list -> why this addition does not need it.
    check: a program that shows that the addition works; it runs in the copy. tests: tests of the tree, as pytest's arguments,
    that such an addition has to pass.
    """

    section: str
    new: Mapping[str, str]
    edits: Mapping[str, Sequence[tuple[str, str]]]
    unneeded: Mapping[str, str]
    check: str
    tests: Sequence[str] = field(default=())

    @property
    def files(self) -> set[str]:
        """The files that it writes."""
        return {*self.new, *self.edits}

    def apply(self, tree: Path) -> None:
        """Write those of its files that the list names. Raises ValueError if the tree lacks the text of an edit."""
        named = named_in(self.section)
        for name in sorted(name for name in self.files if any(covers(path, name) for path in named)):
            file = tree / name
            text = self.new.get(name) or file.read_text()
            for old, new in self.edits.get(name, ()):
                if old not in text:
                    raise ValueError(f"{name} has no {old!r}: mend this edit in tests/house/lists")
                text = text.replace(old, new) if old else text + new
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def section_text(section: str, page: Path = _PAGE) -> str:
    """Return the text of one list of the page."""
    found = re.search(rf"^### {section}\n(.*?)(?=^### |\Z)", page.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"docs/architecture.md has no list {section!r}"
    return found[1]


def sections(page: Path = _PAGE) -> list[str]:
    """Return the headings of all lists."""
    _, _, lists = page.read_text().partition("## Where to change what")
    return re.findall(r"^### (.+)$", lists, re.MULTILINE)


def named_in(section: str) -> list[str]:
    """Return the paths of a list, each once, as they are written; those of folders end in a slash, `<name>` stands for any."""
    spans = (span.partition(": ")[0] for span in _SPAN.findall(section_text(section)))
    return list(dict.fromkeys(span for span in spans if span.startswith(_FOLDERS)))


def covers(path: str, file: str) -> bool:
    """Return whether a path of a list means a file."""
    pattern = re.sub(r"<\w+>", r"[^/]+", re.escape(path).replace(r"\<", "<").replace(r"\>", ">"))
    return re.fullmatch(f"{pattern}.*" if path.endswith("/") else pattern, file) is not None


def copy_tree(target: Path) -> Path:
    """Copy the files of the repository, as they are now, into a new repository and return it."""
    for file in tracked_files():
        place = target / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place, follow_symlinks=False)
    for room in ROOMS:
        (target / "hypersonic" / room).symlink_to(f"../{room}")
    subprocess.run(["git", "init", "-q", target], check=True)
    return target


def run_in(tree: Path, *argv: str) -> str:
    """Run Python in a copy, whose modules it then imports, and return its output. A failure shows all that it wrote."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([sys.executable, *argv], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout
