# SPDX-License-Identifier: Apache-2.0
"""The command line: finds the commands, calls the one that is asked for, turns errors into exit codes.

Each command imports its room only when it is called, so `--help` is instant and a server stays light.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from hypersonic import __version__
from hypersonic.commands import NAMES

#: exit codes: 0 done, 1 our fault, 2 the user's
OK, OURS, USERS = 0, 1, 2

_EPILOG = """\
a first session:
  hypersonic build facile --target hw_emu      a trained network becomes a kernel in ./models
  hypersonic serve --model-repository models   Triton's protocol on ports 8000, 8001 and 8002
  hypersonic infer facile                      events through that server: rate, latency, resolution, a picture
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code. Errors are one paragraph on standard error."""
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        command: Callable[[argparse.Namespace], int] = args.command
        return command(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get("HYPERSONIC_TRACEBACK"):
            raise
        text, code = explain_error(error)
        print(f"hypersonic: error: {text}", file=sys.stderr)
        return code


def explain_error(error: Exception) -> tuple[str, int]:
    """An error as one paragraph, and the exit code: the rooms' own errors speak for themselves, the rest are our faults."""
    if type(error).__module__.startswith("hypersonic."):
        return str(error), int(getattr(error, "exit_code", USERS))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), USERS
    report = "this is a fault of hypersonic: please report it with what the same command says under HYPERSONIC_TRACEBACK=1"
    return f"{type(error).__name__}: {error}; {report}", OURS


class Command(Protocol):
    """A module of hypersonic/commands. HELP: its line in `hypersonic --help`."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments to `parser`."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit code."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; args.command(args) runs the one that was named."""
    parser = argparse.ArgumentParser(
        prog="hypersonic",
        description="FPGA inference as a service: a trained network becomes a bit-exact kernel, served over Triton's protocol.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hypersonic {__version__}")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in NAMES:
        command = cast("Command", import_module(f"hypersonic.commands.{name}"))
        text = command.HELP
        of_command = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=_Help)
        of_command.set_defaults(command=command.run)
        command.add_arguments(of_command)
    return parser


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Defaults are shown where they say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says_nothing = isinstance(action.default, bool | list | tuple) or action.default in ("", 0, None)
        return action.help if says_nothing else super()._get_help_string(action)


if __name__ == "__main__":
    raise SystemExit(main())
