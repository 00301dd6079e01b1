# SPDX-License-Identifier: Apache-2.0
"""Yosys from the `pyosys` wheel, a native library for Python processes. Only children load it: it exports all its symbols, and
an error of Yosys ends the process."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

from hypersonic.hls.child import python_argv
from hypersonic.hls.errors import MissingToolError
from hypersonic.installing import pip_install

#: processor time in seconds after which Yosys is ended, with SIGXCPU
CPU_SECONDS = 3600

# Yosys does not check for Python's KeyboardInterrupt, so Ctrl-C ends the process.
_PROGRAM = """\
import resource, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]), int(sys.argv[2]) + 5))
from pyosys import libyosys
libyosys.run_pass(f"script {sys.argv[1]}", libyosys.Design())
"""


def tool_version() -> str:
    """The version of the pyosys wheel. Raises MissingToolError when it is not installed."""
    if find_spec("pyosys") is None:
        raise MissingToolError(f"Yosys is not installed; it comes with the build extra: {pip_install('build')}")
    return version("pyosys")


def yosys_argv(script: str, cpu_seconds: int = CPU_SECONDS) -> list[str]:
    """The command of a child that runs a script of Yosys, named relative to its working directory."""
    return python_argv("-c", _PROGRAM, script, str(cpu_seconds))
