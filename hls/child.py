# SPDX-License-Identifier: Apache-2.0
"""How a Python process of our own is started: it imports nothing from the working directory, where a user's yaml.py may lie."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import hypersonic

#: begins every line of hls/convert.py's standard output that is progress, not hls4ml's talk
PROGRESS = "hypersonic: "

#: begins the one line of its standard error that says what was refused
REFUSAL = "hypersonic refuses: "


def python_argv(*arguments: str) -> list[str]:
    """The command of a child: this interpreter with `-P`; without it `-m` and `-c` import from the working directory first."""
    return [sys.executable, "-P", *arguments]


def script_argv(script: str | Path, *arguments: str) -> list[str]:
    """The command of a child that runs a file of ours: Python imports from that file's directory, not from the working one."""
    return [sys.executable, str(script), *arguments]


def python_environment(**variables: str) -> dict[str, str]:
    """The environment of a child: this process's and `variables`, with a module path that does not name the working directory.

    Python takes an empty entry of PYTHONPATH for the working directory: those are left out. `.` stays, which the user wrote.
    The package is found by the child even when it is not installed.
    """
    entries = [*_checkout(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, entries)), **variables}


def keras_2_environment() -> dict[str, str]:
    """python_environment with TensorFlow's Keras as Keras 2, which QKeras and hls4ml read and no other part of us must load."""
    return python_environment(TF_USE_LEGACY_KERAS="1")


def _checkout() -> list[str]:
    """The directory that holds the package, unless packages are installed there: on PYTHONPATH all of them would come before
    the standard library."""
    directory = Path(hypersonic.__file__).resolve().parent.parent
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    return [] if directory in installed else [str(directory)]
