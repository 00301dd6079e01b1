# SPDX-License-Identifier: Apache-2.0
"""The two things below the driver here: the emulated card with a model small enough to check by eye, and a faulty XRT."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.host.device import Device
from hypersonic.host.library import OVERRIDE, load_library
from hypersonic.host.opening import open_device
from tests.host.sysfs_tree import MadeUp

HERE = Path(__file__).parent
DEVICE_MODEL = HERE.parents[1] / "sim" / "emu" / "device_model.h"

Build = tuple[Path, Manifest]


def compile_model(source: Path, *inputs: Path, defines: tuple[str, ...] = ()) -> Path:
    def build(directory: Path) -> None:
        includes = [f"-I{path.parent}" for path in inputs] + [f"-D{define}" for define in defines]
        flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
        verilator.run(["gcc", *flags, *includes, "-o", directory / "built.so", source], directory)

    return cached("test_host", [source, *inputs, *defines], build) / "built.so"


def manifest_of(xclbin: bytes, weights: bytes | None = None, *, model: str = "facile", kernel: str = "") -> Manifest:
    """18 floats in, one out, as model.c computes."""
    fixed = FixedPoint(32, 16)
    return Manifest.of(
        xclbin, model=model, kernel=kernel, platform="u250", core="da", inputs=Row((TensorSpec("x", (18,), fixed),)),
        outputs=Row((TensorSpec("y", (1,), fixed),)), ii=1, latency_cycles=1, max_batch_size=16_000, weights=weights,
    )  # fmt: skip


@pytest.fixture(scope="session")
def image() -> bytes:
    """BITSTREAM for the emulated card: model.c."""
    return compile_model(HERE / "model.c", DEVICE_MODEL).read_bytes()


@pytest.fixture(scope="session")
def build(image: bytes, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """An xclbin for the emulated card with two compute units, and its manifest."""
    data = assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), image, compute_units=2)
    path = tmp_path_factory.mktemp("build") / "model.xclbin"
    path.write_bytes(data)
    return path, manifest_of(data)


def weights_of(value: float, beats: int = 2) -> bytes:
    """An image whose first float model.c adds to every answer."""
    return np.full(16 * beats, value, "<f4").tobytes()


def publish_weights(build: Build, weights: bytes) -> Build:
    """Other weights for the same xclbin, beside a copy of it."""
    place = build[0].parent / hashlib.sha256(weights).hexdigest()[:8]
    place.mkdir(exist_ok=True)
    (place / "model.xclbin").write_bytes(xclbin := build[0].read_bytes())
    (place / "weights.bin").write_bytes(weights)
    return place / "model.xclbin", manifest_of(xclbin, weights)


@pytest.fixture(scope="session")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """An xclbin whose kernel takes two beats of weights or more, two compute units, with the weights 100."""
    image = compile_model(HERE / "model.c", DEVICE_MODEL, defines=("WEIGHTS_BEATS=2",)).read_bytes()
    data = assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), image, compute_units=2, weights=True)
    path = tmp_path_factory.mktemp("weighted") / "model.xclbin"
    path.write_bytes(data)
    path.with_name("weights.bin").write_bytes(weights_of(100))
    return path, manifest_of(data, weights_of(100))


@pytest.fixture
def device(build: Build) -> Iterator[Device]:
    """The emulated card with the build on it."""
    with open_device(build[0]) as opened:
        opened.open_units()
        yield opened


class FaultyXrt:
    """faulty_xrt.c, loaded in place of XRT."""

    def __init__(self, path: Path, uuid: str) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.faulty_journal.restype = ctypes.c_char_p
        self.hold(uuid)
        self.set("")

    def hold(self, uuid: str) -> None:
        """That xclbin is on the card from now on."""
        self._library.faulty_uuid(bytes.fromhex(uuid))

    def set(self, faults: str) -> None:
        """Faults from now on; calls are counted from here, the journal is empty."""
        self._library.faulty_reset(faults.encode())

    def journal(self) -> list[str]:
        """The resources that were released, in order."""
        return bytes(self._library.faulty_journal()).decode().split()


@pytest.fixture
def faulty(build: Build, monkeypatch: pytest.MonkeyPatch) -> FaultyXrt:
    """A faulty XRT for every device opened in this test."""
    path = compile_model(HERE / "faulty_xrt.c")
    monkeypatch.setenv(OVERRIDE, str(path))
    return FaultyXrt(path, Xclbin.read(build[0]).uuid)


class Cards:
    """Events of emulated cards, also of those in other processes: files in the directory that HYPERSONIC_EMU_CARDS names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        return {"HYPERSONIC_EMU_CARDS": str(self.directory)}

    def unplug(self, index: int) -> None:
        (self.directory / f"{index}.unplugged").touch()

    def plug(self, index: int) -> None:
        (self.directory / f"{index}.unplugged").unlink()

    def reset(self, index: int) -> None:
        with (self.directory / f"{index}.resets").open("ab") as file:
            file.write(b".")


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cards]:
    """Of every device opened in this test; those opened after it find cards that have been reset."""
    emulated = Cards(tmp_path / "cards")
    monkeypatch.setenv("HYPERSONIC_EMU_CARDS", str(emulated.directory))
    yield emulated
    for index in range(4):
        emulated.reset(index)


@pytest.fixture
def hang(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """hang("facile_1:3"): before the device is opened; that compute unit never completes its 3rd run, until a reset."""
    return lambda units: monkeypatch.setenv("HYPERSONIC_EMU_HANG", units)


@pytest.fixture
def sysfs(tmp_path: Path) -> MadeUp:
    return MadeUp(tmp_path / "sys")


@contextmanager
def kept_up() -> Iterator[None]:
    """Keep the emulated card open, so that it keeps its state between devices, as a real card always does."""
    library = load_library(Target.HW_EMU)
    handle = library.open_device(0)
    try:
        yield
    finally:
        library.close_device(handle)
