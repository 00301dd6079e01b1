# SPDX-License-Identifier: Apache-2.0
"""Run a command with AMD's XRT and a Verilated kernel as its card.

python -m hypersonic.sim.xrt_bridge model.xclbin -- command ...
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypersonic.firmware.errors import FirmwareError
from hypersonic.sim.xrt_bridge.environment import xrt_environment

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str]) -> int:
    """Run the command. Returns its exit status, 128 + n if signal n ended it, or 2 if it was not started."""
    parser = argparse.ArgumentParser(prog="python -m hypersonic.sim.xrt_bridge", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("xclbin", type=Path, help="built for target hw_emu")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- and the program with its arguments")
    arguments = parser.parse_args(argv)
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        parser.error("there is no command to run: put -- and the program after the xclbin")
    try:
        with xrt_environment(arguments.xclbin) as environment:
            return _run(command, environment)
    except (FirmwareError, OSError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command and pass signals on to it; this process stays alive to clean up after it."""
    # no signal may arrive between the start of the command and the installation of the handler that passes it on
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    with subprocess.Popen(command, env=environment, preexec_fn=_unblock) as process:  # noqa: PLW1509 -- there are no threads
        # the terminal sends Ctrl-C to the command too; a handler, because the command would inherit an ignored signal
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        _unblock()
        status = process.wait()
    return status if status >= 0 else 128 - status


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


if __name__ == "__main__":
    # a signal before the command has started must remove the directory too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1:]))
