# SPDX-License-Identifier: Apache-2.0
"""The help of the commands says what each option does."""

from __future__ import annotations

import argparse

import pytest

from hypersonic.cli import main, make_parser

COMMANDS = next(action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)).choices


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_says_its_default_twice(command: str) -> None:
    helped = " ".join(COMMANDS[command].format_help().split())
    assert ") (default: " not in helped
    assert "(default: {})" not in helped


@pytest.mark.parametrize("asked", [(), ("serve",), ("triton", "serve")])
def test_help_is_a_command_too(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (("help", *asked), (*asked, "--help")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        shown.append((ended.value.code, capsys.readouterr().out))
    assert shown[0] == shown[1]
    assert shown[0][0] == 0
    assert shown[0][1].startswith(f"usage: {' '.join(('hypersonic', *asked))}")
