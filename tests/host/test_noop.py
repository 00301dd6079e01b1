# SPDX-License-Identifier: Apache-2.0
"""The driver and our xclbin on AMD's own XRT 2.13 (Debian 12's libxrt1), whose noop shim is a card that computes nothing.

It proves that the container is the real AXLF: XRT itself parses it, finds compute units, banks and argument offsets. Each
test runs in a process of its own with a time limit, because XRT reads its environment once and must not take pytest down.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from tests.support.optional import needs, needs_root

LIBRARIES = ("libxrt_coreutil.so.2", "libxrt_core.so.2", "libxrt_noop.so.2", "libxrt_hwemu.so.2")
ROOT = Path(__file__).parents[2]
#: upstream removed noop in June 2026; Debian 12 has XRT 2.13
PLACES = tuple(Path(place) for place in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"))
XRT = next((place for place in PLACES if all((place / name).exists() for name in LIBRARIES)), None)

#: what takes the capability IPC_LOCK from root; other users do not have it
WITHOUT_IPC_LOCK = [] if needs_root() else ["setpriv", "--bounding-set=-ipc_lock"]

pytestmark = pytest.mark.skipif(XRT is None, reason=needs("libxrt1", detail="XRT 2.13 with its noop shim"))

DRIVE = """
import json, sys
from pathlib import Path
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.host.opening import open_device
from hypersonic.host.instance import open_instances

path = Path(sys.argv[1])
fixed = FixedPoint(16, 6)
manifest = Manifest.of(
    path.read_bytes(), model="facile", platform="u250", core="da", inputs=Row((TensorSpec("x", (18,), fixed),)),
    outputs=Row((TensorSpec("y", (1,), fixed),)), ii=1, latency_cycles=1, max_batch_size=16000,
)
with open_device(path) as device:
    instances = open_instances(device, manifest, slot_rows=16000)
    for instance in instances:
        for slot in instance.slots:
            slot.x[:] = 1
            slot.start(16000)
        times = [slot.finish(5000) for slot in instance.slots]
    units = device.open_units()
    print(json.dumps({
        "uuid": device.uuid, "units": [unit.name for unit in units],
        "groups": [[unit.group_id(0), unit.group_id(1)] for unit in units],
        "busy": [instance.busy_clocks() for instance in instances], "in_order": times == sorted(times),
    }))
"""

ASK = """
import json, sys
from hypersonic.firmware.target import Target
from hypersonic.host.errors import DeviceError
from hypersonic.host.library import load_library

library = load_library(Target.HW)
device = library.open_device(0)
library.load_xclbin(device, sys.argv[1])
uuid = library.xclbin_uuid(device)
kernel = library.open_kernel(device, uuid, "facile:{facile_2}")
answers = {"path": library.path, "uuid": uuid, "offsets": [library.argument_offset(kernel, i) for i in range(3)]}
for name in ("facile:{nope}", "nokernel"):
    try:
        library.open_kernel(device, uuid, name)
    except DeviceError as error:
        answers[name] = type(error).__name__
library.close_kernel(kernel)
library.close_device(device)
print(json.dumps(answers))
"""

#: loads three versions of a model, whose buffers take 38 000 bytes each
SERVE = """
import logging, sys
from pathlib import Path
from tests.server.backends.fpga.repositories import Repository

logging.basicConfig(format="%(message)s")
repository = Repository(Path(sys.argv[1]).with_name("models"))
for number in (1, 2, 3):
    version = repository.publish("a", Path(sys.argv[1]).read_bytes(), parameters={"slot_rows": "500"})
    repository.load(version)
    print(number, file=sys.stderr)
for model in list(repository.loaded):
    repository.close(model)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """XILINX_XRT as XRT wants it: the libraries under lib/, and a directory for its plugins."""
    assert XRT is not None
    (tmp_path / "xrt" / "lib" / "xrt" / "module").mkdir(parents=True)
    for name in LIBRARIES:
        (tmp_path / "xrt" / "lib" / name).symlink_to(XRT / name)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HYPERSONIC_", "XCL_"))}
    return {**inherited, "XILINX_XRT": str(tmp_path / "xrt"), "XCL_EMULATION_MODE": "noop"}


def _run(
    program: str, xclbin: Path, environment: dict[str, str], before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-c", program, str(xclbin)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def _write(path: Path, target: Target, compute_units: int) -> Path:
    path.write_bytes(assemble_xclbin("facile", target, find_platform("u250"), b"bitstream", compute_units=compute_units))
    return path


def test_real_xrt_takes_our_xclbin_through_the_whole_driver(tmp_path: Path, environment: dict[str, str]) -> None:
    xclbin = _write(tmp_path / "model.xclbin", Target.HW, 4)
    done = _run(DRIVE, xclbin, environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "uuid": Xclbin.read(xclbin).uuid,
        "units": [f"facile_{k}" for k in range(1, 5)],
        "groups": [[0, 0], [1, 1], [2, 2], [3, 3]],
        "busy": [0] * 4,
        "in_order": True,
    }


@pytest.mark.parametrize("target", Target)
def test_real_xrt_finds_kernels_and_arguments_in_every_targets_xclbin(
    tmp_path: Path, environment: dict[str, str], target: Target
) -> None:
    xclbin = _write(tmp_path / "model.xclbin", target, 2)
    done = _run(ASK, xclbin, environment)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["path"] == f"{environment['XILINX_XRT']}/lib/libxrt_coreutil.so.2"
    assert answers["uuid"] == Xclbin.read(xclbin).uuid
    assert answers["offsets"] == [0x10, 0x1C, 0x28]
    assert (answers["facile:{nope}"], answers["nokernel"]) == ("ComputeUnitNotFoundError",) * 2
    assert "No compute units matching 'facile:{nope}'" in done.stderr


def test_real_xrt_refuses_what_our_reader_refuses(tmp_path: Path, environment: dict[str, str]) -> None:
    xclbin = _write(tmp_path / "model.xclbin", Target.HW, 1)
    data = bytearray(xclbin.read_bytes())
    data[:8] = b"xclbin1\0"
    xclbin.write_bytes(data)
    done = _run(ASK, xclbin, environment)
    assert done.returncode == 1
    assert "cannot be loaded" in done.stderr


@pytest.mark.parametrize(("limits", "warned"), [("65536:65536", True), ("0:114000", False)])
def test_buffers_above_the_limit_of_locked_memory_are_one_warning(
    tmp_path: Path, environment: dict[str, str], limits: str, warned: bool
) -> None:
    """All buffers together count. The soft limit is raised to the hard one."""
    xclbin = _write(tmp_path / "model.xclbin", Target.HW, 1)
    done = _run(SERVE, xclbin, environment, ["prlimit", f"--memlock={limits}", "--", *WITHOUT_IPC_LOCK])
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line in {"1", "2", "3"} or "RLIMIT_MEMLOCK" in line]
    told = [re.sub(r".* (\d+) bytes .* (\d+) bytes \(RLIMIT_MEMLOCK.*", r"\1 above \2", line) for line in lines]
    assert told == (["1", "76000 above 65536", "2", "3"] if warned else ["1", "2", "3"])


@pytest.mark.skipif(not WITHOUT_IPC_LOCK, reason=needs_root())
def test_a_process_that_may_lock_everything_is_not_warned(tmp_path: Path, environment: dict[str, str]) -> None:
    xclbin = _write(tmp_path / "model.xclbin", Target.HW, 1)
    done = _run(SERVE, xclbin, environment, ["prlimit", "--memlock=4096:4096", "--"])
    assert done.returncode == 0, done.stderr
    assert "RLIMIT_MEMLOCK" not in done.stderr
