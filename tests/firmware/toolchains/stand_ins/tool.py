# SPDX-License-Identifier: Apache-2.0
"""Stands for vivado, v++, vitis-run and aws, none of which can be here: says what they say, and leaves what they leave.

Called as <name> by a wrapper. Every call but a question for the release is written to $STAND_IN/calls.jsonl. What it is to do
differently is in $STAND_IN/plan.json: {"<name or step>": {"say": text, "code": n, "wait": true, "leave": false}}.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = Path(os.environ["STAND_IN"])
BANNERS = {
    "v++": "\n****** v++ v{} (64-bit)\n  **** SW Build 5239630 on 2024-11-08-22:34:34\n",
    "vivado": "vivado v{} (64-bit)\nTool Version Limit: 2024.11\nSW Build 5239630 on Fri Nov 08 22:34:34 MST 2024\n",
}
REPORTS = {
    "impl_1_hw_bb_locked_timing_summary_routed.rpt": "timing.rpt",
    "impl_1_kernel_util_routed.rpt": "kernel_util.rpt",
}


def main(name: str, arguments: list[str]) -> int:
    plan = json.loads((PLACE / "plan.json").read_text())
    if arguments in (["--version"], ["-version"]):
        say(BANNERS[name].format(plan.get(f"{name} release", "2024.2")))
        return 0
    with (PLACE / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps([name, *arguments]) + "\n")
    call = plan.get(name, {}) | plan.get(step(name, arguments), {})
    say(call.get("say", ""))
    if call.get("wait"):
        (PLACE / "pid").write_text(str(os.getpid()))
        say("[12:00:01] Starting placement..")
        threading.Event().wait()
    if call.get("leave", True) and not call.get("code"):
        return {"vivado": vivado, "v++": link, "aws": aws, "vitis-run": hls}[name](arguments)
    return int(call.get("code", 0))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def step(name: str, arguments: list[str]) -> str:
    if name == "vivado":
        return arguments[arguments.index("-source") + 1].removesuffix(".tcl")
    if name == "v++":
        return "synthesise" if "--to_step" in arguments else "implement" if "--from_step" in arguments else "link"
    return arguments[1]


def vivado(arguments: list[str]) -> int:
    script = arguments[arguments.index("-source") + 1]
    given = arguments[arguments.index("-tclargs") + 1 :] if "-tclargs" in arguments else []
    environment = {**os.environ, "VIVADO_RECORD": str(PLACE / "vivado.record")}
    return subprocess.run(["tclsh", HERE / "vivado_commands.tcl", script, *given], env=environment, check=False).returncode


def link(arguments: list[str]) -> int:
    options = dict(pairwise(arguments))
    temp = Path(options["--temp_dir"])
    temp.mkdir(exist_ok=True)
    if "--to_step" in arguments:
        (temp / "synthesised.txt").write_text("netlist")
        return 0
    if "--from_step" in arguments:
        assert (temp / "synthesised.txt").is_file(), "place and route without synthesis"
    say("[12:00:01] Starting placement..")
    output = Path(options["--output"])
    shutil.copy(PLACE / "linked.xclbin", output)
    shutil.copy(PLACE / "xclbin.info", output.with_suffix(".xclbin.info"))
    reports = Path(options["--report_dir"]) / "link" / "imp"
    reports.mkdir(parents=True, exist_ok=True)
    for name, source in REPORTS.items():
        shutil.copy(PLACE / source, reports / name)
    return 0


def aws(arguments: list[str]) -> int:
    if arguments[:2] == ["ec2", "create-fpga-image"]:
        image = {"FpgaImageId": "afi-0123456789abcdef0", "FpgaImageGlobalId": "agfi-0fedcba9876543210"}
        say(json.dumps(image, indent=4))
    else:
        say("upload: ./facile.tar to s3://bucket/dcp/facile.tar")
    return 0


def hls(_arguments: list[str]) -> int:
    shutil.copytree(PLACE / "solution", Path.cwd(), dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
