# SPDX-License-Identifier: Apache-2.0
"""`verilator --lint-only -Wall` over every RTL module of the project, each as a top of its own, no warning turned off."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypersonic.hls import verilator

#: folders of modules; every module is looked up by its file's name
RTL = tuple(Path(__file__).resolve().parents[1] / room / "rtl" for room in ("hls", "firmware"))


def modules(folders: tuple[Path, ...] = RTL) -> list[Path]:
    """The SystemVerilog files of the RTL folders; one module a file, of the file's name."""
    return sorted(file for folder in folders for file in folder.glob("*.sv"))


def lint(module: Path, folders: tuple[Path, ...] = RTL) -> str:
    """Lint one module with its parameters' defaults. Returns "" or what Verilator said."""
    waivers = [file for folder in folders for file in sorted(folder.glob("*.vlt"))]
    search = [option for folder in folders for option in ("-y", str(folder), f"-I{folder}")]
    try:
        verilator.lint([*waivers, module], module.stem, *search)
    except verilator.ToolError as error:
        return str(error)
    return ""


def main() -> int:
    """Lint everything; a line per module on standard output. Returns 1 if any module draws a warning."""
    files = modules()
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lint, files))
    for file, trouble in zip(files, results, strict=True):
        sys.stdout.write(f"{'FAILED' if trouble else 'ok':6} {file.parent.parent.name}/rtl/{file.name}\n{trouble}")
    return int(any(results))


if __name__ == "__main__":
    raise SystemExit(main())
