# SPDX-License-Identifier: Apache-2.0
"""The command line: finds the commands, runs one, and turns errors into exit codes.

Each command imports the modules that it needs only when it runs, so `--help` is fast and a server stays small.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Protocol, cast

from hypersonic import __version__
from hypersonic.arguments import option_of
from hypersonic.command_parser import CommandParser
from hypersonic.commands import NAMES
from hypersonic.extras import explain_missing
from hypersonic.hls.bounded.memory import VARIABLE

#: errors of a place where this user cannot write, or where nothing is left
_CLOSED = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)

#: exit codes: success, a fault of hypersonic or its environment, an error that the user can correct
OK, OURS, USERS = 0, 1, 2

_EPILOG = """\
a first session:
  hypersonic build facile --target hw_emu      build a kernel from a trained network, into ./models
  hypersonic serve --model-repository models   serve it over Triton's protocol on ports 8000, 8001 and 8002
  hypersonic infer facile                      send events to that server; show rate, latency, resolution, a picture
a model of your own:
  hypersonic new own.keras --rows rows.npy     write own.yaml, with fixed-point types from the numbers in the rows
  hypersonic tune own.keras --rows rows.npy --loss 1%      the same with the narrowest types, within a loss
  hypersonic run own.keras --rows rows.npy --labels labels.npy     build, serve and compute the rows; show the accuracy
  hypersonic report own.keras --rows rows.npy --labels labels.npy  trained model, csim and RTL; the layer that differs, if any
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit code. An error is one paragraph on standard error.

    Without arguments, it prints the help. Exit codes are OK, OURS and USERS, and 130 after Ctrl-C.
    With HYPERSONIC_TRACEBACK in the environment, errors are raised.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if not given:
        make_parser().print_help()
        return OK
    args = parse([*given[1:], "--help"] if given[0] == "help" else given)
    logging.getLogger("hypersonic.client").addHandler(logging.NullHandler())  # failures are in the command's own output
    interrupts: list[int] = []
    try:
        command: Callable[[argparse.Namespace], int] = args.command
        with _noting_interrupts(interrupts), _tools_bounded(args):
            return command(args)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get("HYPERSONIC_TRACEBACK"):
            raise
        if interrupts:
            return _interrupted()
        text, code = explain_error(error)
        print(f"hypersonic: error: {text}{_place_hint(error, args)}", file=sys.stderr)
        return code


def _interrupted() -> int:
    """Say that the command was interrupted, and return the exit code of a shell for it: 128 plus the number of SIGINT."""
    print("interrupted", file=sys.stderr)
    return 128 + signal.SIGINT


@contextmanager
def _noting_interrupts(interrupts: list[int]) -> Iterator[None]:
    """Append each SIGINT to a list, and raise KeyboardInterrupt as usual.

    A library may drop the exception (in a destructor or a callback from C). The command then fails because what it started has
    ended by the same Ctrl-C, such as its server.
    """
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def note(which: int, frame: FrameType | None) -> None:
        interrupts.append(which)
        usual(which, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _tools_bounded(args: argparse.Namespace) -> Iterator[None]:
    """Apply --memory to this process and its children. SIGTERM and a closed terminal then end the tools as Ctrl-C does, even
    though the tools run in process groups of their own. Does nothing for a command without --memory."""
    if not hasattr(args, "memory"):
        yield
        return
    main_thread = threading.current_thread() is threading.main_thread()
    before = {which: signal.getsignal(which) for which in (signal.SIGHUP, signal.SIGTERM)} if main_thread else {}
    for which, action in before.items():
        if action == signal.SIG_DFL:
            signal.signal(which, signal.default_int_handler)
    try:
        with _environment({VARIABLE: args.memory} if args.memory else {}):
            yield
    finally:
        for which, action in before.items():
            signal.signal(which, action)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. An unknown argument ends the process with exit code 2 and prints the usage of its command."""
    args, unknown = make_parser().parse_known_args(argv)
    if unknown:
        of_command: argparse.ArgumentParser = args.parser
        of_command.error(f"unrecognized arguments: {' '.join(unknown)}{_argument_hint(args, unknown)}")
    return args


def _argument_hint(args: argparse.Namespace, words: Sequence[str]) -> str:
    """Return how to write what an unrecognized argument may stand for; "" if nothing is known."""
    if hasattr(args, "rows"):
        return next((f"; did you mean --rows {word}?" for word in words if word.endswith((".npy", ".npz"))), "")
    model = next((word for word in words if not word.startswith("-")), "") if hasattr(args, "load_model") else ""
    one = f"--model-control-mode=explicit --load-model={model}"
    return f"; every model of --model-repository is served: leave {model} out, or for it alone give {one}" if model else ""


def explain_error(error: Exception) -> tuple[str, int]:
    """Return an error's text, one paragraph, and the exit code.

    Errors of this package, OSError, and a missing module of an extra have messages for users. Any other exception is a fault of
    hypersonic.
    """
    if type(error).__module__.startswith("hypersonic."):
        return f"{error}{_hint(error)}", int(getattr(error, "exit_code", USERS))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), USERS
    if isinstance(error, ModuleNotFoundError) and (text := explain_missing(error.name or "")):
        return text, USERS
    report = "this is a fault of hypersonic: please report it with the output of the same command under HYPERSONIC_TRACEBACK=1"
    return f"{type(error).__name__}: {error}; {report}", OURS


def _place_hint(error: Exception, args: argparse.Namespace) -> str:
    """Return the option that moves a file which cannot be written; "" for other errors and places."""
    if isinstance(error, OSError) and error.filename and error.errno in _CLOSED:
        option = option_of(args, str(error.filename))
        return f"; choose another place with {option}" if option else ""
    return ""


def _hint(error: Exception) -> str:
    """Return advice for the client's error that no server answers; "" for other errors."""
    if type(error).__module__.startswith("hypersonic.client."):
        from hypersonic.client.errors import UnavailableError

        if isinstance(error, UnavailableError):
            return "; is `hypersonic serve` running there?"
    return ""


class Command(Protocol):
    """The interface of the modules in hypersonic/commands.

    Attributes:
        HELP: the command's line in `hypersonic --help`.
    """

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to `parser`."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit code."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser for all commands. After parsing, args.command(args) runs the chosen one."""
    parser = CommandParser(
        prog="hypersonic",
        description="FPGA inference as a service: build a bit-exact kernel from a trained network, and serve it over Triton's "
        "protocol.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"hypersonic {__version__}")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in NAMES:
        command = cast("Command", import_module(f"hypersonic.commands.{name}"))
        text = command.HELP
        said = f"{text[0].upper()}{text[1:]}."
        of_command = actions.add_parser(name.replace("_", "-"), help=text, description=said)
        of_command.set_defaults(command=command.run, parser=of_command)
        command.add_arguments(of_command)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
