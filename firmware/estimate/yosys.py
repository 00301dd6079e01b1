# SPDX-License-Identifier: Apache-2.0
"""Synthesis with Yosys: RTL is mapped to the cells of an UltraScale+ part, which are counted, with their netlist.

Yosys runs in a child process (firmware/pyosys.py), in a directory of its own inside the cache.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.pyosys import CPU_SECONDS, tool_version, yosys_argv
from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_environment
from hypersonic.hls.errors import ToolError
from hypersonic.hls.rf.modules import is_package

#: what runs, for messages
_WHAT = "the synthesis by Yosys"

#: the family of every card in platforms/: Virtex UltraScale+
FAMILY = "xcup"

_LOG = "yosys.log"

_PORTS, _COUNTS, _NETLIST, _TIME = "ports.v", "stat.json", "netlist.blif.gz", "seconds.json"
_INSIDE = "inside.json"

# Modules are read with -defer, so that each is elaborated with the parameters of its instance: some cannot be elaborated with
# the defaults.
_READ = """\
read_verilog -sv -defer {sources}
{blackboxes}
hierarchy -check -top {top}{parameters}
"""

_PORTS_SCRIPT = f"""\
{_READ}blackbox {{top}}
write_verilog -noattr -blackboxes {_PORTS}
"""

#: the pass that maps to the part's cells
MAP = f"synth_xilinx -family {FAMILY} -uram -noiopad -noclkbuf -top {{top}}"

# chformal removes the assertions, which are not logic.
_SCRIPT = f"""\
{_READ}chformal -remove
{MAP}
tee -q -o {_COUNTS} stat -json
flatten
write_blif -noalias -param netlist.blif
"""


# Maps a top with the modules inside it as black boxes, and writes their instances with their parameters.
_AROUND_SCRIPT = f"""\
{_READ}proc
write_json {_INSIDE}
chformal -remove
{MAP}
tee -q -o {_COUNTS} stat -json
write_blif -cname -noalias -param netlist.blif
"""


class SynthesisError(FirmwareError):
    """Yosys refuses the RTL, or uses a cell of unknown size. The message repeats the one of Yosys, or names the cell."""


@dataclass(frozen=True)
class Synthesis:
    """A module mapped to the part's cells.

    Attributes:
        cells: module -> cell or module inside it -> count, with the hierarchy of the RTL.
        cpu_seconds: processor time that the mapping took when it was first done.
        directory: its place in the cache.
    """

    top: str
    cells: dict[str, dict[str, int]]
    cpu_seconds: float
    directory: Path

    def netlist(self) -> str:
        """The flattened netlist as BLIF, with one .subckt for each cell."""
        return gzip.decompress((self.directory / _NETLIST).read_bytes()).decode()


def synthesise(
    top: str, sources: Sequence[Path], blackboxes: Sequence[Path] = (), parameters: Mapping[str, int] | None = None
) -> Synthesis:  # fmt: skip
    """Map `top` to cells; the result is cached by the hash of the sources.

    Args:
        blackboxes: files with the ports of modules that are counted elsewhere.
        parameters: of `top`, where they differ from its defaults.

    Raises:
        SynthesisError: For RTL that Yosys refuses.
        MissingToolError: When Yosys is not installed.
    """
    return _synthesis(top, _kept("synthesis", _SCRIPT, top, sources, blackboxes, parameters, _pack))


def _synthesis(top: str, directory: Path) -> Synthesis:
    modules: dict[str, Any] = json.loads((directory / _COUNTS).read_text())["modules"]
    cells = {
        plain(name): {plain(cell): n for cell, n in module["num_cells_by_type"].items()} for name, module in modules.items()
    }
    return Synthesis(top, cells, float(json.loads((directory / _TIME).read_text())), directory)


@dataclass(frozen=True)
class Placed:
    """An instance of a module inside another.

    Attributes:
        parameters: (name, Verilog literal), sorted by name.
    """

    name: str
    module: str
    parameters: tuple[tuple[str, str], ...]

    def number(self, parameter: str) -> int | None:
        """The value of a parameter; None for one that is a text or is not given."""
        literal = dict(self.parameters).get(parameter)
        return int(literal.rpartition("b")[2], 2) if literal and not literal.startswith('"') else None

    def text(self) -> str:
        """The beginning of its instantiation in Verilog: the module with its parameters."""
        given = ", ".join(f".{name}({literal})" for name, literal in self.parameters)
        return f"{self.module} #({given})" if given else self.module


def synthesise_around(top: str, source: Path, modules: Sequence[Path]) -> tuple[Synthesis, tuple[Placed, ...]]:
    """Map the module `top` in `source` without the instances of `modules` inside it, and return those instances too.

    Raises like synthesise.

    Args:
        modules: files with one module in each, of which only the ports are used, and the packages that they need.
    """
    packages, boxes = [file for file in modules if is_package(file)], [file for file in modules if not is_package(file)]
    directory = _kept("around", _AROUND_SCRIPT, top, [*packages, source], boxes, None, _pack_around)
    names = {module.stem for module in modules}
    cells = json.loads((directory / _INSIDE).read_text())
    placed = tuple(
        Placed(name, cell["type"], tuple((key, _literal(value)) for key, value in sorted(cell["parameters"].items())))
        for name, cell in cells.items()
        if cell["type"] in names
    )
    return _synthesis(top, directory), placed


def _literal(value: str) -> str:
    """The Verilog literal of a parameter in Yosys' JSON, where a number is a text of binary digits. A text that consists of
    binary digits ends with a space there."""
    return f"{len(value)}'sb{value}" if value and set(value) <= set("01") else f'"{value.rstrip()}"'


def _pack_around(directory: Path) -> None:
    modules = json.loads((directory / _INSIDE).read_text())["modules"].values()
    module = next(module for module in modules if "top" in module["attributes"])
    cells = {name: {key: cell[key] for key in ("type", "parameters")} for name, cell in module["cells"].items()}
    (directory / _INSIDE).write_text(json.dumps(cells))
    _pack(directory)


def ports(top: str, sources: Sequence[Path]) -> Path:
    """A Verilog file with the module's ports alone, as a black box for the synthesis of the modules around it. Raises like
    synthesise."""
    return _kept("ports", _PORTS_SCRIPT, top, sources, ()) / _PORTS


def plain(name: str) -> str:
    """A name without the backslash with which Yosys marks names from the source."""
    return name.removeprefix("\\")


def _kept(
    kind: str,
    script: str,
    top: str,
    sources: Sequence[Path],
    blackboxes: Sequence[Path],
    parameters: Mapping[str, int] | None = None,
    pack: Callable[[Path], None] | None = None,
) -> Path:
    """The cache directory with the script's results. Sources other than Verilog are files that $readmemh reads; they are copied
    to the directory that the script runs in."""
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise SynthesisError(f"two source files of {top} have the same name, expected each once: {', '.join(sorted(names))}")
    boxes = {f"blackbox{number}.v": box for number, box in enumerate(blackboxes)}
    text = script.format(
        sources=" ".join(source.name for source in sources if source.suffix in {".sv", ".svh", ".v"}),
        blackboxes="\n".join(f"read_verilog {'-sv ' if box.suffix == '.sv' else ''}-lib {name}" for name, box in boxes.items()),
        top=top,
        parameters="".join(f" -chparam {name} {value}" for name, value in (parameters or {}).items()),
    )

    def fill(directory: Path) -> None:
        seconds = run_on({source.name: source for source in sources} | boxes, text, directory)
        (directory / _TIME).write_text(f"{seconds:.1f}\n")
        if pack:
            pack(directory)

    return cached(kind, [tool_version(), text, *sources, *blackboxes], fill)


def _pack(directory: Path) -> None:
    netlist = directory / "netlist.blif"
    (directory / _NETLIST).write_bytes(gzip.compress(netlist.read_bytes(), compresslevel=1, mtime=0))
    netlist.unlink()


def run_on(files: Mapping[str, Path | str], script: str, directory: Path) -> float:
    """Run the text of a script on files in `directory`, in which only its results stay.

    Args:
        files: name in the directory -> the file to copy, or its text.

    Returns the processor time in seconds. Raises as run().
    """
    for name, file in files.items():
        if isinstance(file, Path):
            shutil.copyfile(file, directory / name)
        else:
            (directory / name).write_text(file)
    (directory / "script.ys").write_text(script)
    seconds = run("script.ys", directory)
    for name in [*files, "script.ys", _LOG]:
        (directory / name).unlink()
    return seconds


def run(script: str, directory: Path) -> float:
    """Run a script in `directory` and return the processor time in seconds.

    Raises SynthesisError with Yosys' message, ToolError when Yosys ends without one, MissingToolError when it is not installed.
    """
    argv, environment, log = yosys_argv(script), python_environment(), directory / _LOG
    with log.open("wb") as output:
        options: dict[str, Any] = {"env": environment, "cwd": directory, "stdin": subprocess.DEVNULL}
        with tool.start(argv, _WHAT, **options, stdout=output, stderr=subprocess.STDOUT) as running:
            _, status, usage = os.wait4(running.process.pid, 0)
            code = running.process.returncode = os.waitstatus_to_exitcode(status)
    if code:
        said = log.read_text(errors="replace")
        tool.check(running, _WHAT, said, directory)
        raise _error(said, code)
    return usage.ru_utime + usage.ru_stime


def _error(log: str, code: int) -> Exception:
    """A SynthesisError with the error in the log, or a ToolError with the signal or the end of a log that names none."""
    errors = [line for line in log.splitlines() if "ERROR" in line]
    if errors:
        return SynthesisError(f"Yosys refuses the RTL: {errors[-1].partition('ERROR')[2].lstrip(': ')}")
    if code == -signal.SIGXCPU:
        return ToolError(f"Yosys was ended after {CPU_SECONDS} s of processor time")
    if code < 0:
        return ToolError(f"Yosys was ended by {signal.Signals(-code).name}")
    tail = "\n".join(log.splitlines()[-20:])
    return ToolError(f"Yosys ended with {code}\n{tail}")
