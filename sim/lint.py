# SPDX-License-Identifier: Apache-2.0
"""Run `verilator --lint-only -Wall` over every RTL module of the project, each as its own top and with no warning turned off,
and over a generated kernel whose core takes its rows in beats of several tensors."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls import verilator
from hypersonic.hls.errors import ToolError
from hypersonic.hls.rf.modules import is_package
from hypersonic.hls.sources import source_files
from hypersonic.sim.bench_rf import rf_bench_rows, write_rf_bench

#: folders of RTL; Verilator finds every module by its file's name
ROOT = Path(__file__).resolve().parents[1]
RTL = tuple(ROOT / folder for folder in ("hls/rtl/axis", "hls/rtl/rf", "firmware/rtl"))


def modules(folders: tuple[Path, ...] = RTL) -> list[Path]:
    """Return the files of the modules in the RTL folders. Each has one module, named as the file.

    Raises NoSourcesError for a folder that has none.
    """
    return sorted(file for folder in folders for file in source_files(folder, "*.sv") if not is_package(file))


def packages(folders: tuple[Path, ...] = RTL) -> list[Path]:
    """Return the files of the packages in the RTL folders, which Verilator does not find by itself."""
    return sorted(file for folder in folders for file in folder.glob("*.sv") if is_package(file))


def lint(module: Path, folders: tuple[Path, ...] = RTL) -> str:
    """Lint one module with the defaults of its parameters. Returns "" or Verilator's warnings and errors."""
    waivers = [file for folder in folders for file in sorted(folder.glob("*.vlt"))]
    search = [option for folder in folders for option in ("-y", str(folder), f"-I{folder}")]
    try:
        verilator.lint([*waivers, *packages(folders), module], module.stem, *search)
    except ToolError as error:
        return str(error)
    return ""


def lint_kernel() -> str:
    """Lint a kernel such as `hypersonic build --core rf` writes. Returns "" or Verilator's warnings and errors."""
    rows = rf_bench_rows(((8, 6), "FP32"), ((15,), "INT8"), n_out=6)
    with tempfile.TemporaryDirectory() as scratch:
        kernel = write_kernel(write_rf_bench(*rows, Path(scratch), reuse_factor=12), Path(scratch))
        try:
            verilator.lint([*kernel.lint_waivers, *kernel.sources], kernel.top)
        except ToolError as error:
            return str(error)
    return ""


def main() -> int:
    """Lint everything and print a line for each module. Returns 1 if Verilator warns about any of them, otherwise 0."""
    files = modules()
    with ThreadPoolExecutor(2) as pool:
        results = {str(file.relative_to(ROOT)): log for file, log in zip(files, pool.map(lint, files), strict=True)}
    results["a generated kernel"] = lint_kernel()
    for name, trouble in results.items():
        sys.stdout.write(f"{'FAILED' if trouble else 'ok':6} {name}\n{trouble}")
    return int(any(results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
