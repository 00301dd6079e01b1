# SPDX-License-Identifier: Apache-2.0
"""docs/security.md names tests and options; both exist."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from hypersonic.server.arguments import add_arguments

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/security.md").read_text()


def test_every_test_the_page_names_exists() -> None:
    there = {name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", file.read_text())}
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 40
    assert not named - there


def test_every_option_the_page_names_exists() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    there = {option for action in parser._actions for option in action.option_strings}
    assert not set(re.findall(r"--[a-z][a-z0-9-]+", PAGE)) - there
