# SPDX-License-Identifier: Apache-2.0
"""A Dockerfile as data: its stages and their instructions. Only what our file uses; anything else is an error."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """A stage: its name ("" for the last one, if it has none), its base and its instructions as (word, rest)."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        return [rest for instruction, rest in self.instructions if instruction == word]


@dataclass
class State:
    """The settings that instructions before a RUN have made. arguments: of ARG, with the values of --build-arg."""

    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = ""

    def apply(self, word: str, rest: str, build_arguments: dict[str, str]) -> bool:
        """Apply an instruction that only sets something; False for one that changes files."""
        if word == "ENV":
            self.environment |= dict(each.partition("=")[::2] for each in shlex.split(rest))
        elif word == "ARG":
            name, _, default = rest.partition("=")
            self.arguments[name] = build_arguments.get(name, default)
        elif word == "WORKDIR":
            self.directory = rest
        elif word == "USER":
            self.user = rest
        elif word not in {"EXPOSE", "CMD"}:
            return False
        return True


def parse(file: Path) -> list[Stage]:
    """Parse the file. Raises ValueError for an instruction that this does not know."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE)
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word:
            continue
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(name, base))
        elif word in {"ARG", "CMD", "COPY", "ENV", "EXPOSE", "RUN", "USER", "WORKDIR"}:
            stages[-1].instructions.append((word, rest.strip()))
        else:
            raise ValueError(f"{file}: {line!r} is not an instruction that the tests can run")
    return stages
