# SPDX-License-Identifier: Apache-2.0
"""The link step, from kernel.xo to xclbin: `v++ --link` with the generated configuration.

It is run as two steps, so that place and route, which takes hours, can be started again without repeating synthesis. Where a
release refuses that, the link is one step. Source: UG1393 2023.2, "Using --to_step and Launching Vivado Interactively": both
options continue in the same --temp_dir, and the names of the steps are those that `v++ --list_steps --target hw --link` lists.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from hypersonic.firmware.toolchains.errors import StepError
from hypersonic.firmware.toolchains.steps import Product, Step
from hypersonic.firmware.toolchains.vitis.tools import Tools

CONFIG = "link.cfg"
#: directories below the build's; v++ keeps its Vivado project in the first
TEMP, LOGS, REPORTS = "link", "link/logs", "link/reports"

#: v++'s names for its place-and-route reports, those of later stages first; the first that exists is used
TIMING_REPORTS = (
    "impl_1_hw_bb_locked_timing_summary_postroute_physopted.rpt",
    "impl_1_hw_bb_locked_timing_summary_routed.rpt",
    "*_timing_summary_postroute_physopted.rpt",
    "*_timing_summary_routed.rpt",
)
UTILISATION_REPORTS = ("impl_1_kernel_util_routed.rpt", "impl_1_kernel_util_placed.rpt")

_LOOKED_AT = 10_000

#: a file in the build's directory: this release links in one step
ONE_STEP = "one_step"

#: v++'s errors about the options with which a link is divided into steps
_REFUSAL = re.compile(rb"^ERROR.*\b(to_step|from_step|vpl\.synth|vpl\.impl)\b", re.MULTILINE)
_MOST_LOG_BYTES = 1 << 20


def link_steps(tools: Tools, name: str, jobs: int, xos: Sequence[str] = ()) -> tuple[Step, Step]:
    """The two steps of linking: synthesis, and everything from place and route on.

    Both steps run in that directory, which holds link.cfg too. The second writes <name>.xclbin and <name>.xclbin.info.

    Args:
        jobs: number of parallel Vivado runs.
        xos: the kernel objects, relative to the build's directory; without them there is one, <name>.xo.
    """
    inputs, key = tuple(xos) or (f"{name}.xo",), (tools.release, tools.shell.name)
    command = _link(tools, name, jobs)
    products = tuple(Product(f"{TEMP}/{name}{end}", f"{name}{end}") for end in (".xclbin", ".xclbin.info"))
    return (
        Step(
            "synthesise", "v++: synthesis", (*command, "--to_step", "vpl.synth", *inputs), (*inputs, CONFIG), (), key,
            leaves=TEMP,
        ),
        Step(
            "implement", "v++: place and route, bitstream; this takes hours", (*command, "--from_step", "vpl.impl", *inputs),
            (*inputs, CONFIG), products, key,
        ),
    )  # fmt: skip


def link_step(tools: Tools, name: str, jobs: int, xos: Sequence[str] = ()) -> Step:
    """The whole link as one step, with the arguments and products of link_steps."""
    _, implement = link_steps(tools, name, jobs, xos)
    command = _link(tools, name, jobs)
    return replace(
        implement, name="link", title="v++: synthesis, place and route, bitstream; this takes hours",
        argv=(*command, *(tuple(xos) or (f"{name}.xo",))), clears=(TEMP,),
    )  # fmt: skip


def refuse_steps(build: Path) -> bool:
    """True if v++ has refused to divide the link: it ended with an error that names an option or a step of link_steps."""
    for log in (build / "synthesise.log", build / "implement.log"):
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _MOST_LOG_BYTES))
            if _REFUSAL.search(file.read()):
                return True
    return False


def _link(tools: Tools, name: str, jobs: int) -> tuple[str, ...]:
    return (
        str(tools.vpp), "--link", "--target", "hw", "--platform", str(tools.shell), "--config", CONFIG,
        "--temp_dir", TEMP, "--log_dir", LOGS, "--report_dir", REPORTS, "--remote_ip_cache", "../ip_cache",
        "--jobs", str(jobs), "--save-temps", "--output", f"{TEMP}/{name}.xclbin",
    )  # fmt: skip


def keep_report(build: Path, name: str, patterns: tuple[str, ...]) -> Path:
    """Copy a report of v++ to build/reports/<name>, and return that path.

    The copy remains when v++'s own directory is removed to free disk space.

    Args:
        patterns: names to look for below REPORTS; the report that matches the first one is copied.

    Raises:
        StepError: When there is neither a report nor an earlier copy.
    """
    kept = build / "reports" / name
    files = sorted(path for path in islice((build / REPORTS).rglob("*.rpt"), _LOOKED_AT) if path.is_file())
    report = next((file for pattern in patterns for file in files if file.match(pattern)), None)
    if report:
        kept.parent.mkdir(exist_ok=True)
        shutil.copyfile(report, kept)
    if not kept.is_file():
        wanted = ", ".join(patterns)
        raise StepError(f"v++ ended well, but {build / REPORTS} holds none of {wanted}; its log is {build}/implement.log")
    return kept
