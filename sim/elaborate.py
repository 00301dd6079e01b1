# SPDX-License-Identifier: Apache-2.0
"""Elaborate the RTL with slang, a second front end beside Verilator's that keeps to the standard.

It reads every module, every proof, and generated kernels, alone and as custom logic for AWS F2.
`python -m hypersonic.sim.elaborate [PORTS]` prints a line for each. With PORTS, a stand-in for the AWS kit's cl_ports.vh, the
custom logic is elaborated as the F2 shell sees it too.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyslang
from pyslang import driver

from hypersonic.firmware.f2.design import write_f2_kernels
from hypersonic.firmware.formal import prove
from hypersonic.firmware.formal.stages import design
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.files import rtl_sources as kernel_sources
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.toolchains.f2.custom_logic import CL, id_defines_text, wrapper_text
from hypersonic.hls.da.write import write_core
from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.sim import lint
from hypersonic.sim.bench_rf import rf_bench_network, rf_bench_rows, write_rf_bench

#: the kit's file that ties off the DDR, of which the wrapper needs only that it is there
_TIE_OFF = "unused_ddr_template.inc"


def errors(sources: Sequence[Path], top: str, includes: Sequence[Path] = ()) -> str:
    """Parse and elaborate the files as one unit.

    Args:
        sources: in compile order.
        includes: folders of included files.

    Returns:
        "" or slang's errors.
    """
    session = driver.Driver()
    session.addStandardArgs()
    words = [*(f'"{file}"' for file in sources), *(f'-I "{folder}"' for folder in includes)]
    line = f"slang {' '.join(words)} --top {top} --single-unit -Wnone"
    if not (
        session.parseCommandLine(line, driver.CommandLineOptions()) and session.processOptions() and session.parseAllSources()
    ):  # slang has written why to standard error
        return f"slang does not read the files of {top}\n"
    found = [one for one in session.createCompilation().getAllDiagnostics() if one.isError()]
    return pyslang.DiagnosticEngine.reportAll(session.sourceManager, found) if found else ""


def results(ports: Path | None) -> Iterator[tuple[str, str]]:
    """Elaborate everything; yields the name of each design and its errors."""
    for module in lint.modules():
        yield str(module.relative_to(lint.ROOT)), errors(_files_of(module), module.stem)
    for name in prove.proofs():
        with tempfile.TemporaryDirectory() as scratch:
            yield f"proof {name}", errors(_written(name, Path(scratch)), f"{name}_proof")
    with tempfile.TemporaryDirectory() as scratch:
        yield from _generated(Path(scratch), ports)


def _files_of(module: Path) -> Sequence[Path]:
    return (rtl_sources if module.is_relative_to(lint.ROOT / "hls") else kernel_sources)(module.stem)


def _written(proof: str, directory: Path) -> list[Path]:
    """The design of a proof in files, in compile order."""
    texts = prove.texts(proof)
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [directory / name for name in design(texts)]


def _generated(scratch: Path, ports: Path | None) -> Iterator[tuple[str, str]]:
    kernels = bench_kernels(scratch)
    for kernel in kernels:
        yield f"generated kernel {kernel.name}", errors(kernel.sources, kernel.top)
    registered = write_kernel(kernels[0].core, scratch / "registered", port_registers=True)
    yield f"generated kernel {registered.name} with registered AXI ports", errors(registered.sources, registered.top)
    design = write_f2_kernels([(kernel, 2) for kernel in kernels], scratch)
    yield "custom logic for F2", errors(design.sources, design.top)
    if ports is not None:
        wrapper = scratch / f"{CL}.sv"
        wrapper.write_text(wrapper_text())
        (scratch / "cl_id_defines.vh").write_text(id_defines_text())
        (scratch / _TIE_OFF).write_text("")
        (scratch / "cl_ports.vh").write_text(ports.read_text())
        yield f"{CL} with {ports.name}", errors([*design.sources, wrapper], CL, [scratch])


def bench_kernels(scratch: Path) -> list[Kernel]:
    """Return a kernel of each kind: da, and rf with rows in beats of several tensors."""
    whole, beats = rf_bench_rows(((6,), "FP16")), rf_bench_rows(((8, 6), "FP32"), ((15,), "INT8"), n_out=6)
    cores = [
        write_core(rf_bench_network(*whole), "unrolled", *whole, scratch)[0],
        write_rf_bench(*beats, scratch, name="shared", reuse_factor=12),
    ]
    return [write_kernel(core, scratch) for core in cores]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each design, and slang's errors below it. Returns 1 if there is an error, otherwise 0."""
    given = sys.argv[1:] if arguments is None else arguments
    failed = False
    for name, trouble in results(Path(given[0]) if given else None):
        sys.stdout.write(f"{'FAILED' if trouble else 'ok':6} {name}\n{trouble}")
        failed |= bool(trouble)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
