# SPDX-License-Identifier: Apache-2.0
"""AMD's own XRT 2.13 over our Verilated kernel: the driver unchanged, every answer exact."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels, assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.images import pack_images
from hypersonic.sim.card.simulator import build_hardware_simulator
from hypersonic.sim.xrt_bridge import __main__ as command_line
from hypersonic.sim.xrt_bridge import environment
from hypersonic.sim.xrt_bridge.environment import XrtNotFoundError, xrt_environment
from tests.sim.xrt_host import ask
from tests.support.rtl.bench_weights import write_bench_weights
from tests.support.xrt import needs_xrt

if TYPE_CHECKING:
    from tests.sim.conftest import CompileStub, Pair, WriteXclbin

pytestmark = pytest.mark.whole("firmware", "hls", "host", "requirements.lock", "sim")


BRIDGE = [sys.executable, "-m", "hypersonic.sim.xrt_bridge"]
ROUNDS, SLOTS, ROWS = 3, 3, 16000

#: our driver as the server uses it: every slot of every compute unit in flight before the first is finished
DRIVE = """
import json, os, sys
from pathlib import Path
import numpy as np
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.host.opening import open_device
from hypersonic.host.errors import BufferObjectError
from hypersonic.host.instance import open_instances
from hypersonic.host.library import load_library

path, rows, answers = map(Path, sys.argv[1:])
rounds = np.load(rows)
x = TensorSpec("x", (3,), FixedPoint.parse("ap_fixed<16,6,RND_CONV,SAT>"), scale_exponents=(0, -3, 5))
y = TensorSpec("y", (2,), FixedPoint.parse("ap_fixed<20,10>"), scale_exponents=(0, 2))
manifest = Manifest.of(
    path.read_bytes(), model="pair", platform="u250", core="da", inputs=Row((x,)), outputs=Row((y,)), ii=1, latency_cycles=1,
    max_batch_size=rounds.shape[2],
)
got = []
with open_device(path) as device:
    instances = open_instances(device, manifest, slots=rounds.shape[1] // 2, slot_rows=rounds.shape[2])
    slots = [slot for instance in instances for slot in instance.slots]
    for inputs in rounds:
        for number, (slot, values) in enumerate(zip(slots, inputs, strict=True)):
            slot.x[:] = values.view(np.uint8).ravel()
            slot.start(len(values) - number)
        for slot in slots:
            slot.finish(60_000)
        got.append([slot.y.view(np.float32).reshape(-1, 2).copy() for slot in slots])
    busy = [instance.busy_clocks() for instance in instances]
    first, second = device.open_units()
    try:
        first.open_run().set_arg(0, second.allocate(4096, 0))
        foreign = "taken"
    except BufferObjectError as error:
        foreign = str(error)
    addresses = [slot._x.address for slot in slots] + [slot._y.address for slot in slots]
np.save(answers, np.array(got))
library = load_library(Target.HW_EMU)
print(json.dumps({
    "version": library.version, "path": library.path, "user": os.environ["USER"], "busy": busy, "addresses": addresses,
    "units": [first.name, second.name], "tells": [first.tells, second.tells],
    "foreign": foreign,
}))
"""


def some_rows(*shape: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(7)
    rows = (draw.standard_normal((*shape, 3)) * [10.0, 200.0, 0.5]).astype(np.float32)
    rows[draw.random(rows.shape) < 0.05] = np.nan
    return rows


@needs_xrt
def test_real_xrt_drives_two_compute_units_with_runs_in_flight_and_every_answer_is_exact(
    tmp_path: Path, pair: Pair, write_xclbin: WriteXclbin
) -> None:
    """Buffers longer than a message, all slots in flight, rounds after each other, counters read: one start of XRT (20 s)."""
    xclbin = write_xclbin(pair.images[Target.HW_EMU], kernel="pair", compute_units=2)
    inputs = some_rows(ROUNDS, 2 * SLOTS, ROWS)
    np.save(tmp_path / "rows.npy", inputs)
    files = [str(path) for path in (xclbin, tmp_path / "rows.npy", tmp_path / "answers.npy")]
    # XRT's waits have no end here: `timeout` ends the host itself, and with it the device process
    command = [*BRIDGE, files[0], "--", "timeout", "-k", "5", "300", sys.executable, "-c", DRIVE, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["units"] == ["pair_1", "pair_2"]
    assert report["tells"] == [True, True], "AXI_ERROR was read after each run"
    assert "it is in memory bank 1, expected 0" in report["foreign"]
    assert report["version"] >= [2, 13, 0]
    assert Path(report["path"]).name == "libxrt_coreutil.so.2"
    assert len(set(report["addresses"])) == 4 * SLOTS
    assert min(report["busy"]) > ROUNDS * SLOTS * (ROWS - 2 * SLOTS)
    assert not (Path("/tmp") / report["user"]).exists()
    answers = np.load(tmp_path / "answers.npy")
    for got_round, rows_round in zip(answers, inputs, strict=True):
        for number, (got, rows) in enumerate(zip(got_round, rows_round, strict=True)):
            count = ROWS - number
            np.testing.assert_array_equal(got[:count].view(np.uint32), pair.expected(rows[:count]).view(np.uint32))


@needs_xrt
def test_real_xrt_gives_every_run_of_both_units_the_weights_of_its_kernel(tmp_path: Path) -> None:
    core = write_bench_weights(tmp_path)
    core.save(tmp_path)
    image = build_hardware_simulator(write_kernel(core, tmp_path / "kernel")).read_bytes()
    xclbin = assemble_xclbin(core.name, Target.HW_EMU, find_platform("u250"), image, compute_units=2, weights=True)
    manifest = Manifest.of(
        xclbin, model=core.name, platform="u250", core="bench", inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=100, weights=core.weights,
    )  # fmt: skip
    version = publish(tmp_path / "models", xclbin, manifest, "", weights=core.weights)
    program = [sys.executable, "-m", "tests.sim.xrt_weights", str(version), str(tmp_path)]
    command = [*BRIDGE, str(version / "model.xclbin"), "--", "timeout", "-k", "5", "300", *program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "exact; argument 3 of bench_weights_1 does not take the buffer object: it is in memory bank 1" in done.stdout


TWO = """
import json, os, sys
from pathlib import Path
from tests.sim.xrt_process import Process

processes = [Process(os.environ["HYPERSONIC_XRT_LIBRARY"], Path(sys.argv[2]) / str(number)) for number in range(2)]
answers = []
for command in (f"load {sys.argv[1]}", "open stub:{stub_1}", "open twin:{twin_1}", "close"):
    for process in processes:
        process.send(command)
    answers += [process.answer() for process in processes]
sockets = [path.name for path in (Path("/tmp") / os.environ["USER"]).iterdir() if path.name.startswith("device0")]
for process in processes:
    process.end()
print(json.dumps({"answers": answers, "sockets": len(sockets)}))
"""


@needs_xrt
def test_each_process_of_real_xrts_hw_emu_mode_has_a_card_of_its_own_with_all_kernels(
    tmp_path: Path, stub_image: bytes, compile_stub: CompileStub
) -> None:
    """So XRT's rules for several processes on one card cannot be tested here: both have stub_1 exclusively.

    The processes are killed, because the library's own clean-up at their exit sometimes crashes or never ends.
    """
    images = pack_images({"stub": stub_image, "twin": compile_stub('STUB_KERNEL="twin"')})
    xclbin = tmp_path / "several.xclbin"
    kernels = [LinkedKernel("stub", 2), LinkedKernel("twin")]
    xclbin.write_bytes(assemble_kernels(kernels, Target.HW_EMU, find_platform("u250"), images))
    command = [*BRIDGE, str(xclbin), "--", "timeout", "-k", "5", "200", sys.executable, "-c", TWO, str(xclbin), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"answers": ["ok"] * 8, "sockets": 2}


@needs_xrt
def test_the_commands_exit_status_is_ours(stub_xclbin: Path) -> None:
    command = [*BRIDGE, str(stub_xclbin), "--", "sh", "-c", "echo $XCL_EMULATION_MODE; exit 7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (7, "hw_emu\n")


@needs_xrt
def test_a_signal_ends_the_command_and_leaves_nothing_behind(stub_xclbin: Path) -> None:
    command = ["sh", "-c", "trap 'echo ended; exit 3' TERM; echo $USER; for i in $(seq 1000); do sleep 0.1; done"]
    with subprocess.Popen([*BRIDGE, str(stub_xclbin), "--", *command], stdout=subprocess.PIPE, text=True) as bridge:
        assert bridge.stdout is not None
        directory = Path("/tmp") / bridge.stdout.readline().strip()
        assert (directory / "xrt.ini").is_file()
        bridge.send_signal(signal.SIGTERM)
        assert bridge.stdout.read() == "ended\n"
        assert bridge.wait(60) == 3
    assert not directory.exists()


@pytest.fixture
def stub_xclbin(write_xclbin: WriteXclbin) -> Path:
    return write_xclbin()


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Run the command line with arguments that it must refuse. Returns its error message."""
    with pytest.raises(SystemExit) as exit_:
        command_line.main(argv)
    assert exit_.value.code == 2
    return capsys.readouterr().err


@needs_xrt
def test_an_xclbin_that_cannot_be_simulated_is_refused_before_xrt_starts(
    tmp_path: Path, pair: Pair, write_xclbin: WriteXclbin, compile_stub: CompileStub, capsys: pytest.CaptureFixture[str]
) -> None:
    software = write_xclbin(pair.images[Target.SW_EMU], kernel="pair", target=Target.SW_EMU)
    assert "built for target sw_emu, expected hw_emu" in refused(capsys, str(software), "--", "true")
    assert "No such file" in refused(capsys, str(tmp_path / "nothing.xclbin"), "--", "true")
    (tmp_path / "foreign.xclbin").write_bytes(b"xclbin2\0")
    assert "foreign.xclbin" in refused(capsys, str(tmp_path / "foreign.xclbin"), "--", "true")
    assert "cannot be simulated, build the model again" in refused(capsys, str(write_xclbin(b"bitstream")), "--", "true")
    for define, why in (("STUB_ABI=99", "ABI is 99"), ("hypersonic_device_model=other", "not the simulator of a kernel")):
        assert why in refused(capsys, str(write_xclbin(compile_stub(define))), "--", "true")


def test_a_command_line_without_a_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no command to run" in refused(capsys, "model.xclbin", "--")


def test_a_machine_without_xrt_says_what_to_install(tmp_path: Path, stub_xclbin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PLACES", ())
    monkeypatch.setenv("XILINX_XRT", str(tmp_path))
    with pytest.raises(XrtNotFoundError, match=r"libxrt_hwemu\.so\.2.*libxrt1"), xrt_environment(stub_xclbin):
        pass


@needs_xrt
def test_the_environment_is_xrts_and_nothing_of_it_stays(stub_xclbin: Path) -> None:
    with xrt_environment(stub_xclbin) as variables:
        directory = Path(variables["EMCONFIG_PATH"])
        assert directory == Path("/tmp") / variables["USER"]
        assert directory.stat().st_mode & 0o777 == 0o700
        device = json.loads((directory / "emconfig.json").read_text())["Platform"]["Boards"][0]["Devices"][0]
        assert device["Name"] == Xclbin.read(stub_xclbin).vbnv
        assert os.access(directory / "sim" / "simulate.sh", os.X_OK)
        assert Path(variables["HYPERSONIC_XRT_LIBRARY"]).resolve().name.startswith("libxrt_coreutil.so.2.")
    assert not directory.exists()


@needs_xrt
def test_a_device_process_outlives_every_signal_and_goes_with_its_host(stub_xclbin: Path) -> None:
    """A host whose device process is gone waits for ever, also when both were told to stop."""
    with xrt_environment(stub_xclbin) as variables, socket.socket(socket.AF_UNIX) as listening:
        directory = Path(variables["EMCONFIG_PATH"])
        listening.bind(str(directory / "device0_0_1"))
        listening.listen()
        script = directory / "sim" / "simulate.sh"
        with subprocess.Popen([script], env={**variables, "EMULATION_SOCKETID": "device0_0_1"}) as device:
            host, _ = listening.accept()
            with host:
                for stop in (signal.SIGINT, signal.SIGTERM):
                    assert ask(host, 20, {}) == {1: 1}
                    device.send_signal(stop)
                assert ask(host, 20, {}) == {1: 1}
            assert device.wait(60) == 0
