# SPDX-License-Identifier: Apache-2.0
"""Maps a design to an ECP5's cells with Yosys, and places and routes it with nextpnr. Both results are cached.

The module stays whole while its wrapper (designs.py) is mapped, so that its cells can be counted; then both become one netlist,
in which multipliers and block RAMs absorb flip-flops (absorb.py).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from hypersonic.firmware.estimate import flip_flops
from hypersonic.firmware.estimate.yosys import run_on
from hypersonic.firmware.pyosys import tool_version
from hypersonic.firmware.yowasp import COMPILED, NEXTPNR_ECP5
from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached, content_hash
from hypersonic.hls.child import python_environment
from hypersonic.hls.errors import ToolError
from hypersonic.hls.rf.modules import packages_first
from hypersonic.hls.sources import code_hash
from hypersonic.sim.timing import absorb, results
from hypersonic.sim.timing.designs import INSTANCE, TOP, Design, inside_text, ports_of, wrapper_text
from hypersonic.sim.timing.results import Counts, Routed, Step, counted, read_routed

#: the part: the family's largest and fastest
PART = ("--um5g-85k", "--package", "CABGA756", "--speed", "8")

#: MHz: what the router aims at, the clock of most cards' kernels
TARGET_MHZ = 300

_READ = """\
read_verilog -sv -defer {sources}
read_verilog -sv {top}
hierarchy -check -top {name}
"""

_PORTS = f"{_READ}proc\nwrite_json ports.json\n"

# chformal removes the assertions, which are not logic.
_MAP = f"""\
{_READ}proc
setattr -mod -set keep_hierarchy 1 {{name}}/{INSTANCE} %M
chformal -remove
synth_ecp5 -top {{name}}
write_json inside.json
setattr -mod -unset keep_hierarchy A:keep_hierarchy
flatten
opt_clean
write_json netlist.json
"""

#: a hash of how flip-flops are moved into multipliers and block RAMs
_ABSORBED = content_hash([code_hash(Path(file)) for file in (absorb.__file__, flip_flops.__file__)])

_NETLIST, _COUNTS, _ROUTED = "netlist.json", "counts.json", "routed.json"


def wrapper(design: Design) -> str:
    """The wrapper around a design. Raises SynthesisError for RTL that Yosys refuses."""
    text = inside_text(design)
    script = _PORTS.format(sources=_names(design), top="top.sv", name=TOP)

    def fill(directory: Path) -> None:
        run_on(_files(design, text), script, directory)
        modules = json.loads((directory / "ports.json").read_text())["modules"]
        ports = ports_of(modules[modules[TOP]["cells"][INSTANCE]["type"]], design.name)
        _empty(directory)
        (directory / "wrapper.sv").write_text(wrapper_text(design, ports))

    return (cached("timing_wrapper", _inputs(design, script, text), fill) / "wrapper.sv").read_text()


def design_hash(design: Design) -> str:
    """A hash of everything that decides a design's figures, apart from the tools' versions."""
    texts = (text for _, text in design.memories)
    return content_hash([_MAP, _ABSORBED, str(PART), str(TARGET_MHZ), wrapper(design), *texts, *design.sources])


def mapped(design: Design) -> tuple[Counts, Path]:
    """Map a design. Returns what its module takes, and the directory of its netlist. Raises SynthesisError."""
    text = wrapper(design)
    script = _MAP.format(sources=_names(design), top="top.sv", name=TOP)

    def fill(directory: Path) -> None:
        run_on(_files(design, text), script, directory)
        inside = json.loads((directory / "inside.json").read_text())["modules"]
        (directory / "inside.json").unlink()
        netlist = json.loads((directory / _NETLIST).read_text())
        absorb.absorb(netlist["modules"][TOP])
        (directory / _NETLIST).write_text(json.dumps(netlist))
        (directory / _COUNTS).write_text(json.dumps(asdict(counted(inside))))

    place = cached("timing_netlist", [_kept_as(), _ABSORBED, *_inputs(design, script, text)], fill)
    return Counts(**json.loads((place / _COUNTS).read_text())), place


def routed(design: Design, seed: int) -> Routed:
    """Place and route a design with one seed. Raises SynthesisError, and ToolError when it does not fit the part."""
    _, place = mapped(design)
    options = ["--json", _NETLIST, *PART, "--freq", str(TARGET_MHZ), "--seed", str(seed), "--timing-allow-fail"]
    options += ["--lpf-allow-unconstrained", "--report", "report.json", "--sdf", "delays.sdf", "--quiet"]

    def fill(directory: Path) -> None:
        shutil.copyfile(place / _NETLIST, directory / _NETLIST)
        environment = {**python_environment(), COMPILED: str(NEXTPNR_ECP5.compiled())}
        done = tool.run(NEXTPNR_ECP5.argv(*options), "the router nextpnr-ecp5", env=environment, cwd=directory)
        if done.code:
            raise ToolError(f"nextpnr-ecp5 ended with {done.code} on {design.name}\n{done.output[-2000:]}")
        report, delays = json.loads((directory / "report.json").read_text()), (directory / "delays.sdf").read_text()
        result = read_routed(report, json.loads((directory / _NETLIST).read_text()), delays)
        _empty(directory)
        (directory / _ROUTED).write_text(json.dumps(asdict(result)))

    result = cached("timing_route", [_kept_as(), *NEXTPNR_ECP5.versions, *options, place.name], fill)
    kept = json.loads((result / _ROUTED).read_text())
    wires = tuple((loads, nets, ns) for loads, nets, ns in kept["wires"])
    return Routed(kept["mhz"], tuple(Step(**step) for step in kept["path"]), wires)


def _kept_as() -> str:
    return code_hash(Path(results.__file__))


def _names(design: Design) -> str:
    return " ".join(file.name for file in packages_first(design.sources) if file.suffix != ".svh")


def _inputs(design: Design, script: str, text: str) -> list[str | Path]:
    return [tool_version(), script, text, *(text for _, text in design.memories), *design.sources]


def _files(design: Design, text: str) -> dict[str, Path | str]:
    return {file.name: file for file in design.sources} | dict(design.memories) | {"top.sv": text}


def _empty(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()
