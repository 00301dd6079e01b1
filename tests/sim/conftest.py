# SPDX-License-Identifier: Apache-2.0
"""XRT's C functions as C programs call them, by a ctypes binding of this room's own: host/ is not trusted here."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from ctypes import c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.core import AXIS_RTL, Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.card.library import EMU, library_path
from hypersonic.sim.card.simulator import build_hardware_simulator, shell_source

Uuid = c_ubyte * 16

#: flags to build the emulated card and the stub with, such as "-fsanitize=thread"; its runtime must be preloaded
SANITIZER = os.environ.get("HYPERSONIC_SANITIZER", "").split()

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "xrtDeviceOpen": (c_void_p, [c_uint]),
    "xrtDeviceOpenByBDF": (c_void_p, [c_char_p]),
    "xrtDeviceLoadXclbinFile": (c_int, [c_void_p, c_char_p]),
    "xrtDeviceGetXclbinUUID": (c_int, [c_void_p, c_void_p]),
    "xrtDeviceClose": (c_int, [c_void_p]),
    "xrtPLKernelOpen": (c_void_p, [c_void_p, c_void_p, c_char_p]),
    "xrtPLKernelOpenExclusive": (c_void_p, [c_void_p, c_void_p, c_char_p]),
    "xrtKernelArgGroupId": (c_int, [c_void_p, c_int]),
    "xrtKernelArgOffset": (c_uint32, [c_void_p, c_int]),
    "xrtKernelReadRegister": (c_int, [c_void_p, c_uint32, c_void_p]),
    "xrtKernelWriteRegister": (c_int, [c_void_p, c_uint32, c_uint32]),
    "xrtKernelClose": (c_int, [c_void_p]),
    "xrtBOAlloc": (c_void_p, [c_void_p, c_size_t, c_uint64, c_uint32]),
    "xrtBOMap": (c_void_p, [c_void_p]),
    "xrtBOAddress": (c_uint64, [c_void_p]),
    "xrtBOSize": (c_size_t, [c_void_p]),
    "xrtBOSync": (c_int, [c_void_p, c_int, c_size_t, c_size_t]),
    "xrtBOFree": (c_int, [c_void_p]),
    "xrtRunOpen": (c_void_p, [c_void_p]),
    "xrtRunSetArg": (c_int, [c_void_p, c_int]),
    "xrtRunStart": (c_int, [c_void_p]),
    "xrtRunWait": (c_int, [c_void_p]),
    "xrtRunWaitFor": (c_int, [c_void_p, c_uint]),
    "xrtRunState": (c_int, [c_void_p]),
    "xrtRunClose": (c_int, [c_void_p]),
}

#: what each function returns when it fails: by its name, else by its result's type, else -1
FAILED: dict[Any, Any] = {
    c_void_p: None, c_uint32: 0xFFFFFFFF, c_uint64: (1 << 64) - 1,
    "xrtBOSize": 0, "xrtRunWait": 6, "xrtRunWaitFor": 6, "xrtRunState": 6,
}  # fmt: skip


class State(IntEnum):
    """ert_cmd_state."""

    NEW = 1
    QUEUED = 2
    RUNNING = 3
    COMPLETED = 4
    ERROR = 5
    ABORT = 6


class Xrt:
    """The library's functions as attributes; closes at the end what a test opened, in the order opened (the hardest one)."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path), use_errno=True)
        self.opened: list[tuple[str, int]] = []
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def error(self, name: str, *arguments: Any) -> str:
        """Call a function that must fail as XRT's fails; the name of its errno."""
        ctypes.set_errno(0)
        result = getattr(self.library, name)(*arguments)
        assert result == FAILED.get(name, FAILED.get(PROTOTYPES[name][0], -1)), (name, result)
        return errno.errorcode[ctypes.get_errno()]

    def open(self, closer: str, handle: int | None) -> int:
        assert handle, closer
        self.opened.append((closer, handle))
        return handle

    def close(self, handle: int) -> None:
        closer = next(closer for closer, opened in self.opened if opened == handle)
        self.opened.remove((closer, handle))
        assert getattr(self.library, closer)(handle) == 0

    def close_all(self) -> None:
        for closer, handle in self.opened:
            assert getattr(self.library, closer)(handle) == 0
        self.opened.clear()

    def device(self, xclbin: Path | None = None, index: int = 0) -> int:
        device = self.open("xrtDeviceClose", self.xrtDeviceOpen(index))
        if xclbin is not None:
            assert self.xrtDeviceLoadXclbinFile(device, str(xclbin).encode()) == 0
        return device

    def uuid(self, device: int) -> Any:
        uuid = Uuid()
        assert self.xrtDeviceGetXclbinUUID(device, uuid) == 0
        return uuid

    def kernel(self, device: int, name: str, exclusive: bool = False) -> int:
        function = self.xrtPLKernelOpenExclusive if exclusive else self.xrtPLKernelOpen
        return self.open("xrtKernelClose", function(device, self.uuid(device), name.encode()))

    def buffer(self, device: int, size_bytes: int, group: int = 0) -> Buffer:
        return Buffer(self, self.open("xrtBOFree", self.xrtBOAlloc(device, size_bytes, 0, group)), size_bytes)

    def run(self, kernel: int, *arguments: Buffer | int) -> int:
        run = self.open("xrtRunClose", self.xrtRunOpen(kernel))
        for index, argument in enumerate(arguments):
            assert self.set(run, index, argument) == 0
        return run

    def set(self, run: int, index: int, argument: Buffer | int) -> int:
        value = c_void_p(argument.handle) if isinstance(argument, Buffer) else c_uint32(argument)
        return int(self.xrtRunSetArg(run, index, value))

    def start(self, run: int) -> None:
        assert self.xrtRunStart(run) == 0

    def finish(self, run: int, timeout_ms: int = 20_000) -> State:
        return State(self.xrtRunWaitFor(run, timeout_ms))

    def register(self, kernel: int, offset: int) -> int:
        value = c_uint32()
        assert self.xrtKernelReadRegister(kernel, offset, ctypes.byref(value)) == 0
        return value.value


@dataclass(frozen=True)
class Buffer:
    xrt: Xrt
    handle: int
    size_bytes: int

    @property
    def array(self) -> NDArray[np.uint8]:
        return np.ctypeslib.as_array((c_ubyte * self.size_bytes).from_address(self.xrt.xrtBOMap(self.handle)))

    def to_device(self) -> None:
        assert self.xrt.xrtBOSync(self.handle, 0, self.size_bytes, 0) == 0

    def from_device(self) -> None:
        assert self.xrt.xrtBOSync(self.handle, 1, self.size_bytes, 0) == 0

    def fill(self, values: ArrayLike) -> None:
        """Floats to the host side and on to the card."""
        raw = np.asarray(values, dtype=np.float32).ravel().view(np.uint8)
        self.array[: raw.size] = raw
        self.to_device()

    def floats(self, count: int | None = None) -> NDArray[np.float32]:
        """The first `count` floats on the card."""
        self.from_device()
        return self.array[: self.size_bytes if count is None else 4 * count].view(np.float32).copy()


@pytest.fixture
def xrt(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Xrt]:
    """Its cards are reset afterwards: a compute unit that a test hangs would hang in the next one too."""
    events = tmp_path_factory.mktemp("cards")
    monkeypatch.setenv("HYPERSONIC_EMU_CARDS", str(events))
    bound = Xrt(library_path(SANITIZER))
    yield bound
    bound.close_all()
    for card in range(4):
        (events / f"{card}.resets").write_bytes(b".")


def _compile_stub(*defines: str) -> bytes:
    """The stub's shared library, some of its words redefined."""
    source = Path(__file__).with_name("stub_model.cpp")
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-gnu-unique"]
    argv = ["g++", *flags, *SANITIZER, *(f"-D{define}" for define in defines)]

    def build(directory: Path) -> None:
        verilator.run([*argv, f"-I{EMU}", source, "-o", "stub.so"], directory)

    return (cached("test_stub", [*argv, source, EMU / "device_model.h"], build) / "stub.so").read_bytes()


CompileStub = Callable[..., bytes]
WriteXclbin = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_stub() -> CompileStub:
    return _compile_stub


@pytest.fixture(scope="session")
def stub_image() -> bytes:
    return _compile_stub()


@pytest.fixture
def write_xclbin(tmp_path: Path, stub_image: bytes) -> WriteXclbin:
    """An xclbin around the stub, or around another image or kernel name; its path."""

    def write(
        image: bytes = stub_image,
        *,
        kernel: str = "stub",
        target: Target = Target.HW_EMU,
        compute_units: int = 1,
        platform: str = "u250",
    ) -> Path:
        content = assemble_xclbin(kernel, target, find_platform(platform), image, compute_units=compute_units)
        path = tmp_path / f"{Xclbin.parse(content).uuid}.xclbin"
        path.write_bytes(content)
        return path

    return write


@dataclass(frozen=True)
class Pair:
    """A complete kernel small enough to check by hand, and its two simulators."""

    x: TensorSpec
    y: TensorSpec
    images: dict[Target, bytes]

    def expected(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, 3) float32 -> (rows, 2) float32: (x0 + x1, x2 - x0) in 20 bits, by the golden conversions."""
        raw = self.x.to_raw(rows)
        sums = np.stack([raw[:, 0] + raw[:, 1], raw[:, 2] - raw[:, 0]], axis=1)
        return self.y.from_raw((sums + (1 << 19) & (1 << 20) - 1) - (1 << 19))


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    here = Path(__file__).parent
    x = TensorSpec("x", (3,), FixedPoint.parse("ap_fixed<16,6,RND_CONV,SAT>"), scale_exponents=(0, -3, 5))
    y = TensorSpec("y", (2,), FixedPoint.parse("ap_fixed<20,10>"), scale_exponents=(0, 2))
    core = Core(
        "pair", CoreKind.DA, "pair_core", (AXIS_RTL / "axis_skid.sv", here / "pair_core.sv"), Row((x,)), Row((y,)), 1, 1
    )
    hardware = build_hardware_simulator(write_kernel(core, tmp_path_factory.mktemp("pair")))
    shell = shell_source("pair", Row((x,)), Row((y,)))
    command = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    sources = ("shell.cpp", here / "pair_csim.cpp", "-fvisibility=hidden", "-fno-gnu-unique")

    def build(directory: Path) -> None:
        (directory / "shell.cpp").write_text(shell)
        verilator.run([*command, *sources, "-o", "pair.so"], directory)

    software = cached("test_pair", [shell, *command, here / "pair_csim.cpp"], build) / "pair.so"
    return Pair(x, y, {Target.HW_EMU: hardware.read_bytes(), Target.SW_EMU: software.read_bytes()})
