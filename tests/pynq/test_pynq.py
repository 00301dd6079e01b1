# SPDX-License-Identifier: Apache-2.0
"""The real PYNQ 4.0, in an environment of its own, on the emulated card: Overlay, allocate, the kernel's call, the notebook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hypersonic.building.csim import build_csim
from hypersonic.building.model import build
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.csim.compiled import Csim
from hypersonic.hls.zoo.facile.events import gate_rows
from hypersonic.sim.bench_core import bench_core_wire, several_rows
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.pynq.environment import pynq_python
from tests.support.multi_tensor_kernel import NAME, software
from tests.support.rtl.bench_weights import bench_image, bench_weights_rows, write_bench_weights
from tests.support.xrt import needs_xrt

pytestmark = pytest.mark.whole("docs/pynq-card.ipynb", "firmware", "hls", "host", "requirements.lock", "sim", "tests/pynq")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NOTEBOOK = ROOT / "docs" / "pynq-card.ipynb"
#: of PYNQ's pytest: nothing of this project's settings
OPTIONS = ("-q", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-W", "error")
BUILDS = {"hw_emu": (Target.HW_EMU, 2), "two_banks": (Target.SW_EMU, 2), "one_bank": (Target.SW_EMU, 1)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The xclbins, the rows and what FACILE's own C++ answers to them."""
    directory = tmp_path_factory.mktemp("pynq")
    for name, (target, units) in BUILDS.items():
        version = build("facile", target, repository=directory / "models", compute_units=units)
        shutil.copy(version / "model.xclbin", directory / f"{name}.xclbin")
    rows = np.resize(gate_rows(), (2000, 18)).astype(np.float32)
    project, library = build_csim("facile")
    np.save(directory / "rows.npy", rows)
    (golden,) = project.outputs.from_raw(Csim(library, project).predict_raw(project.inputs.to_raw((rows,))))
    np.save(directory / "golden.npy", golden)
    _write_several(directory)
    _write_weights(directory)
    return directory


def _write_several(directory: Path) -> None:
    """A kernel with several tensors a side; its rows and answers as structured arrays."""
    x, y = several_rows()
    image = software(x, y).read_bytes()
    (directory / "several.xclbin").write_bytes(assemble_xclbin(NAME, Target.SW_EMU, find_platform("u250"), image))
    rows = np.zeros(500, x.dtype)
    draw = np.random.default_rng(6)
    rows["tracks"], rows["flags"] = draw.normal(0, 20, (500, 3, 2)), draw.integers(0, 256, (500, 5))
    np.save(directory / "several_rows.npy", rows)
    answers = y.encode(bench_core_wire((rows["tracks"].reshape(500, 6), rows["flags"]), x, y))
    np.save(directory / "several_golden.npy", answers.view(y.dtype))


def _write_weights(directory: Path) -> None:
    """A version of a kernel that loads weights, and the answers to rows since then."""
    core = write_bench_weights(directory / "kernel")
    image = build_hardware_simulator(write_kernel(core, directory / "kernel")).read_bytes()
    xclbin = assemble_xclbin(core.name, Target.HW_EMU, find_platform("u250"), image, weights=True)
    manifest = Manifest.of(
        xclbin, model=core.name, platform="u250", core="bench", inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=100, weights=core.weights,
    )  # fmt: skip
    publish(directory / "models", xclbin, manifest, config_pbtxt(manifest), weights=core.weights)
    rows = np.random.default_rng(7).integers(-(1 << 15), 1 << 15, (100, core.inputs.size), dtype=np.int16)
    np.save(directory / "weights_rows.npy", rows)
    np.save(directory / "weights_golden.npy", bench_weights_rows(core, bench_image(core, 1), rows))


def run(argv: list[str], directory: Path, before: Sequence[str] = (), **env: str) -> subprocess.CompletedProcess[str]:
    """A program of PYNQ's environment, which finds the package as an installed one would be found."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run(
        [*before, str(pynq_python()), *argv],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )


def test_overlays_buffers_and_kernels_work_as_they_did_before_pynq_dropped_cards(place: Path, tmp_path: Path) -> None:
    options = [*OPTIONS, f"--rootdir={tmp_path}"]
    done = run(["-m", "pytest", *options, str(HERE / "overlay_cases.py")], tmp_path, PYNQ_CASES=str(place))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


@needs_xrt
def test_amds_own_xrt_runs_the_same_overlay(place: Path, tmp_path: Path) -> None:
    options = [*OPTIONS, f"--rootdir={tmp_path}", "-k", "hw_emu.xclbin", str(HERE / "overlay_cases.py")]
    bridge = [sys.executable, "-m", "hypersonic.sim.xrt_bridge", str(place / "hw_emu.xclbin"), "--"]
    done = run(["-m", "pytest", *options], tmp_path, bridge, PYNQ_CASES=str(place))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_package_for_pynq_needs_nothing_of_the_server() -> None:
    code = (
        "import sys, hypersonic.host.pynq; "
        "print([m for m in ('tritonclient', 'grpc', 'hypersonic.server', 'hypersonic.sim') if m in sys.modules])"
    )
    done = run(["-W", "ignore", "-c", code], HERE)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_the_cards_come_after_devices_that_were_looked_for_before(place: Path) -> None:
    code = (
        "import pynq; assert pynq.Device.devices == []; import hypersonic.host.pynq; "
        "assert pynq.Overlay('one_bank.xclbin').facile_1.read(0) == 4"
    )
    done = run(["-W", "ignore", "-c", code], place)
    assert done.returncode == 0, done.stderr


def test_a_program_that_ends_with_a_run_in_flight_ends(place: Path) -> None:
    code = (
        "import pynq, hypersonic.host.pynq; o = pynq.Overlay('hw_emu.xclbin'); "
        "x = pynq.allocate((20000, 18), 'f4', target=o.bank0); o.facile_1.start(x, x, 20000)"
    )
    done = run(["-W", "ignore", "-c", code], place)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_the_notebook_gives_the_outputs_that_stand_in_it(tmp_path: Path) -> None:
    build("facile", repository=tmp_path / "models")
    output = tmp_path / "made.ipynb"
    quiet = "ignore"  # pynq's own imports
    done = run([str(HERE / "run_notebook.py"), str(NOTEBOOK), str(output)], tmp_path, PYTHONWARNINGS=quiet)
    assert done.returncode == 0, done.stderr
    assert outputs(output) == outputs(NOTEBOOK)


def outputs(notebook: Path) -> list[object]:
    """The text that each code cell printed or displayed."""
    cells = json.loads(notebook.read_text())["cells"]
    return [[output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", [])] for cell in cells]
