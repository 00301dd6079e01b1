# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a command with 'interrupted' and 130, also when a library drops the exception and the command fails later."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from hypersonic import cli


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _drop_interrupt() -> None:
    with suppress(KeyboardInterrupt):
        _interrupt()


def _fail_after_interrupt(_args: argparse.Namespace) -> int:
    _drop_interrupt()
    raise ConnectionError("the server has ended")


def _go_on_after_interrupt(_args: argparse.Namespace) -> int:
    _drop_interrupt()
    return cli.OK


def _fail(_args: argparse.Namespace) -> int:
    raise ConnectionError("the server has ended")


@pytest.fixture(autouse=True)
def _usual_handler() -> Iterator[None]:
    """Python's own handler, as in a terminal; tests that a shell has started in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (lambda _args: _interrupt(), 130, "interrupted"),
        (_fail_after_interrupt, 130, "interrupted"),
        (_go_on_after_interrupt, cli.OK, ""),
        (_fail, cli.USERS, "hypersonic: error: the server has ended"),
    ],
    ids=["interrupted", "failed after a dropped interrupt", "succeeded after a dropped interrupt", "failed alone"],
)
def test_a_command_that_fails_after_ctrl_c_is_interrupted(
    command: Callable[[argparse.Namespace], int],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "parse", lambda _argv: argparse.Namespace(command=command))
    ended = cli.main(["run"])
    error = capsys.readouterr().err
    assert (ended, error.splitlines()[:1]) == (code, [said] if said else []), error
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
