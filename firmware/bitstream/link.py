# SPDX-License-Identifier: Apache-2.0
"""kernel.xo -> xclbin: `v++ --link` with the written configuration, in two steps, so that hours of place and route can be
begun again without synthesising anew.

Source: UG1393 (options of v++; --to_step and --from_step continue in one --temp_dir).
"""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

from hypersonic.firmware.bitstream.errors import StepError
from hypersonic.firmware.bitstream.steps import Product, Step
from hypersonic.firmware.bitstream.tools import Tools

CONFIG = "link.cfg"
#: below the build's directory; v++ keeps its Vivado project in it
TEMP, LOGS, REPORTS = "link", "link/logs", "link/reports"

#: v++'s own names for its place-and-route reports; the first that is there counts, the later stage before the earlier
TIMING_REPORTS = (
    "impl_1_hw_bb_locked_timing_summary_postroute_physopted.rpt",
    "impl_1_hw_bb_locked_timing_summary_routed.rpt",
    "*_timing_summary_postroute_physopted.rpt",
    "*_timing_summary_routed.rpt",
)
UTILISATION_REPORTS = ("impl_1_kernel_util_routed.rpt", "impl_1_kernel_util_placed.rpt")

_LOOKED_AT = 10_000


def link_steps(tools: Tools, kernel_name: str, jobs: int) -> tuple[Step, Step]:
    """Synthesis, then place and route with everything after it. jobs: Vivado runs at the same time.

    Both run in the build's directory, where <kernel>.xo and link.cfg are; the second leaves <kernel>.xclbin and
    <kernel>.xclbin.info.
    """
    xo, key = f"{kernel_name}.xo", (tools.release, tools.shell.name)
    command = _link(tools, kernel_name, jobs)
    products = tuple(Product(f"{TEMP}/{kernel_name}{end}", f"{kernel_name}{end}") for end in (".xclbin", ".xclbin.info"))
    return (
        Step("synthesise", "v++: synthesis", (*command, "--to_step", "vpl.synth", xo), (xo, CONFIG), (), key, leaves=TEMP),
        Step(
            "implement", "v++: place and route, bitstream; this takes hours", (*command, "--from_step", "vpl.impl", xo),
            (xo, CONFIG), products, key,
        ),
    )  # fmt: skip


def _link(tools: Tools, kernel_name: str, jobs: int) -> tuple[str, ...]:
    return (
        str(tools.vpp), "--link", "--target", "hw", "--platform", str(tools.shell), "--config", CONFIG,
        "--temp_dir", TEMP, "--log_dir", LOGS, "--report_dir", REPORTS, "--remote_ip_cache", "../ip_cache",
        "--jobs", str(jobs), "--save-temps", "--output", f"{TEMP}/{kernel_name}.xclbin",
    )  # fmt: skip


def keep_report(build: Path, name: str, patterns: tuple[str, ...]) -> Path:
    """build/reports/<name>, a copy of the report that the first fitting pattern names, wherever below REPORTS v++ put it.

    The copy stays when v++'s own directory is removed to make room. Raises StepError when there is neither.
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
