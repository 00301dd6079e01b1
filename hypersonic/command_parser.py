# SPDX-License-Identifier: Apache-2.0
"""The parser of the commands: argparse with help that fits the terminal, a short usage, and the near name after a mistake."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from hypersonic.hls.near import did_you_mean

#: an indented line: a command or a term, two or more spaces, and what it does or is
_ENTRY = re.compile(r"( *\S+(?: \S+)*  +)(\S.*)")


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help with an option's default where its text does not name one, and a usage without what may be left out.

    Descriptions and epilogs fit the terminal: lines at the margin are filled as paragraphs, and an indented line stays a line
    of its own.
    """

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says_nothing = isinstance(action.default, bool | list | tuple | dict) or action.default in ("", 0, None)
        return action.help if says_nothing or "(default" in (action.help or "") else super()._get_help_string(action)

    def _format_usage(self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None) -> str:  # noqa: ARG002
        every = list(actions)
        needed = [action for action in every if action.required or not action.option_strings]
        text = super()._format_usage(usage, needed, [], prefix)
        return text.replace(self._prog, f"{self._prog} [options]", 1) if len(needed) < len(every) else text

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - argparse's own
        return "\n".join(line for block in _blocks(text) for line in _fitted(block, width))


def _blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, its indented lines, and "" for an empty line."""
    paragraph: list[str] = []
    for line in [*text.rstrip().splitlines(), ""]:
        if line.strip() and not line.startswith(" "):
            paragraph.append(line)
            continue
        if paragraph:
            yield " ".join(paragraph)
        paragraph = []
        yield line


def _fitted(block: str, width: int) -> list[str]:
    if len(block) <= width:
        return [block]
    margin = block[: -len(block.lstrip())]
    entry = _ENTRY.fullmatch(block)
    if not entry:
        return _commands(block, width, margin)
    first, said = entry.groups()
    if len(first) <= width // 2:
        return textwrap.wrap(block, width, subsequent_indent=" " * len(first))
    below = f"{margin}    "
    return [
        *_commands(first.rstrip(), width, margin),
        *textwrap.wrap(said, width, initial_indent=below, subsequent_indent=below),
    ]


def _commands(text: str, width: int, margin: str) -> list[str]:
    """Wrap a text after the margin; a shell reads a command that is wrapped as one."""
    end = " \\" if text.lstrip().startswith("hypersonic ") else ""
    lines = textwrap.wrap(
        text, width - len(end), subsequent_indent=f"{margin}    " if margin else "", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [*(f"{line}{end}" for line in lines[:-1]), lines[-1]]


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name the nearest command or option, and then the short usage. Options are not abbreviated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Help, "allow_abbrev": False, **options})
        self._given: list[str] = []

    def parse_known_args(  # type: ignore[override]  # argparse overloads it for other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, and keep the arguments for `error`."""
        self._given = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(self._given, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"got {value!r}, expected one of {', '.join(names)}{did_you_mean(str(value), names)}"
            )

    def error(self, message: str) -> NoReturn:
        """Print the message, the option that a mistyped one resembles, and the usage; end the process with exit code 2."""
        options = [option for action in self._actions for option in action.option_strings]
        given = [word.partition("=")[0] for word in self._given if word.startswith("--")]
        near = {word: did_you_mean(word, options) for word in given if word not in options and "did you mean" not in message}
        hint = next((f"{'' if word in message else f'; got {word}'}{text}" for word, text in near.items() if text), "")
        self.exit(2, f"{self.prog}: error: {message}{hint}\n{self.format_usage()}all options: {self.prog} --help\n")
