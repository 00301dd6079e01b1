# SPDX-License-Identifier: Apache-2.0
"""Prints the report of the kernel around the core in DIRECTORY (hypersonic build --build-directory writes it to <name>/core):

python -m hypersonic.firmware.estimate DIRECTORY [--platform NAME] [--write FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.estimate.kernel import ResourceReport, estimate, sources_key
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.hls.core import Core
from hypersonic.hls.errors import ProjectError, ToolError


def main(argv: list[str]) -> int:
    """Print the report of a core's kernel. Returns the exit code: 1 when the kernel cannot be estimated, with the reason on
    standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m hypersonic.firmware.estimate", description="Estimate a kernel's resources."
    )
    parser.add_argument("directory", type=Path, help="directory of a core, with its core.json")
    parser.add_argument("--platform", default="u250", help="the card to compare with (default: u250)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the report as JSON to FILE")
    arguments = parser.parse_args(argv)
    try:
        platform = find_platform(arguments.platform)
        with tempfile.TemporaryDirectory() as scratch:
            kernel = write_kernel(Core.load(arguments.directory), Path(scratch))
            report, key = estimate(kernel), sources_key(kernel)
    except (FirmwareError, ProjectError, ToolError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("\n".join([*report.lines(platform), ""]))
    if arguments.write:
        arguments.write.write_text(_kept(key, report))
    return 0


def _kept(key: str, report: ResourceReport) -> str:
    """JSON of what check_growth compares, with a line for each module."""
    modules = report.to_json()["modules"].items()
    lines = ",\n".join(f"  {json.dumps(path)}: {json.dumps(module)}" for path, module in modules)
    return f'{{\n "sources": "{key}",\n "tool": "{report.tool}",\n "modules": {{\n{lines}\n }}\n}}\n'


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
