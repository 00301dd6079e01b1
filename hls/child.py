# SPDX-License-Identifier: Apache-2.0
"""How this project starts Python child processes: they import nothing from the working directory, which may hold a yaml.py."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hypersonic
from hypersonic.hls.bounded import tool

#: prefix of the lines of hls/convert.py's standard output that report progress; the other lines are hls4ml's own
PROGRESS = "hypersonic: "

#: prefix of the one line of a child's standard error that says what was refused, and its exit code then
_REFUSAL, _REFUSED = "hypersonic refuses: ", 2


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes:
        code: its exit code, or minus a signal.
        refusal: what it refused, or "".
        last: its last line of output, or "nothing".
    """

    code: int
    refusal: str
    last: str


def run_child(argv: Sequence[str], environment: Mapping[str, str], what: str) -> Ended:
    """Run a child to its end, and return how it ended. Its output is not shown.

    Args:
        what: its work, for messages.

    Raises:
        ToolMemoryError: If it needs more memory than its limit.
    """
    done = tool.run(argv, what, env=environment, apart=True)
    return ended(done.code, done.errors.splitlines())


def ended(code: int, lines: Sequence[str]) -> Ended:
    """Return how a child ended, from its exit code and the lines of its standard error."""
    said = [line.strip() for line in lines if line.strip()]
    refusals = [line.removeprefix(_REFUSAL) for line in said if line.startswith(_REFUSAL)] if code == _REFUSED else []
    return Ended(code, refusals[-1] if refusals else "", said[-1] if said else "nothing")


def refuse(error: Exception) -> int:
    """Tell the parent what this child refuses; return the child's exit code."""
    sys.stderr.write(f"{_REFUSAL}{' '.join(str(error).split())}\n")
    return _REFUSED


def python_argv(*arguments: str) -> list[str]:
    """Return the command of a child that runs this interpreter with `-P`.

    Without `-P`, `-m` and `-c` import from the working directory first.
    """
    return [sys.executable, "-P", *arguments]


def script_argv(script: str | Path, *arguments: str, python: str = "") -> list[str]:
    """Return the command of a child that runs a script of this project.

    It needs no `-P`: Python imports from the directory of the script, not from the working directory.

    Args:
        python: its interpreter; "" for this one.
    """
    return [python or sys.executable, str(script), *arguments]


def python_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child: this process's, `variables`, and a PYTHONPATH without empty entries.

    Python reads an empty entry of PYTHONPATH as the working directory. An entry `.` is kept, because the user wrote it. A
    checkout that is not installed is added, so that the child finds the package.
    """
    path = os.pathsep.join([*_checkout(), *_module_path()])
    return {**os.environ, "PYTHONPATH": path, **variables}


def foreign_environment() -> dict[str, str]:
    """Return the environment of a child with another interpreter, which need not find this package."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(_module_path())}


def keras_2_environment() -> dict[str, str]:
    """Return python_environment with TensorFlow's Keras set to Keras 2, which QKeras and hls4ml need.

    Only children load it: no other part of this project may.
    """
    return python_environment(TF_USE_LEGACY_KERAS="1")


def _module_path() -> list[str]:
    return list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))


def _checkout() -> list[str]:
    """The directory that holds the package, or nothing if it is site-packages: on PYTHONPATH, every package installed there
    would take precedence over the standard library."""
    directory = Path(hypersonic.__file__).resolve().parent.parent
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    return [] if directory in installed else [str(directory)]
