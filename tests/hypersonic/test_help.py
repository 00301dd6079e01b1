# SPDX-License-Identifier: Apache-2.0
"""What `hypersonic COMMAND --help` says of each option."""

from __future__ import annotations

import argparse

import pytest

from hypersonic.cli import make_parser

COMMANDS = next(action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)).choices


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_says_its_default_twice(command: str) -> None:
    helped = " ".join(COMMANDS[command].format_help().split())
    assert ") (default: " not in helped
    assert "(default: {})" not in helped
