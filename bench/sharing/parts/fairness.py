# SPDX-License-Identifier: Apache-2.0
"""Two models on a card: bytes by shares, at the PCIe link and at a compute unit, and the wait of a small model.

The card is emulated: its kernels are Verilated, and its PCIe link has the given rate, so low that this machine keeps up. At the
link, each model has a compute unit and transfers without a pause. At the unit, two models with different weights share one, and
the link has no limit. The small model sends one row at a time, alone and then beside one with huge runs; the rise of its 99th
percentile is given in runs of the other one. Integers are compared. The ratios apply to a real card; the seconds do not.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.sharing.figure import Figure, Progress
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.core import Core
from hypersonic.hls.network.base import WeightsIn
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device
from hypersonic.sim.bench_core import bench_core_wire, bench_rows, write_bench_core
from hypersonic.sim.bench_rf import rf_bench_rows, write_rf_bench
from hypersonic.sim.card.simulator import build_hardware_simulator

TITLE = "two models on one card: bytes by shares, and a small model beside a huge one (hw_emu)"
PCIE_MB_S, SECONDS, REQUESTS = 1, 8.0, 60
#: the largest difference between the ratio of bytes and the ratio of shares
TOLERANCE = 0.1
LINK, UNIT = "PCIe link", "compute unit"
#: the pairs of shares that are measured
SHARES = ((1.0, 1.0), (3.0, 1.0))
#: rows of a run at the link, and of a huge one
ROWS, HUGE_ROWS = 500, 4000
_SLOTS, _TIMEOUT_MS = 3, 120_000


def measure(progress: Progress) -> list[Figure]:
    """Measure bytes by shares, then the small model."""
    with tempfile.TemporaryDirectory() as directory:
        places = [Path(directory) / name for name in ("link", "unit", "small")]
        progress("two models behind one PCIe link")
        sharings = measure_link(places[0], PCIE_MB_S, SECONDS)
        progress("two models on one compute unit")
        sharings += measure_unit(places[1], SECONDS)
        progress("a small model beside a huge one")
        small = measure_small(places[2], PCIE_MB_S, REQUESTS)
    equal = all(each.equal for each in sharings)
    used = min(sum(each.sent_bytes) for each in sharings if each.what == LINK) / (PCIE_MB_S * 1e6 * SECONDS)
    return [
        Figure("part of the time in which the link was in use", used, f"{used:.0%}", "50 % or more", met=used >= 0.5),
        *map(_figure, sharings),
        Figure("p99 of the small model alone", small.alone_s, f"{small.alone_s * 1e3:.1f} ms", "", met=True),
        Figure("p99 of the small model beside the huge one", small.beside_s, f"{small.beside_s * 1e3:.1f} ms", "", met=True),
        Figure("a run of the huge model alone", small.huge_run_s, f"{small.huge_run_s * 1e3:.1f} ms", "", met=True),
        Figure(
            "rise of the p99, in runs of the huge model", small.raised_by_runs, f"{small.raised_by_runs:.2f}", "1 or less",
            met=small.raised_by_runs <= 1,
        ),
        Figure("integers as expected", equal, "all" if equal else "not all", "all", met=equal),
    ]  # fmt: skip


def _figure(sharing: Sharing) -> Figure:
    wanted = sharing.shares[0] / sharing.shares[1]
    shares = " : ".join(f"{share:g}" for share in sharing.shares)
    name = f"{sharing.what}, shares {shares}: bytes"
    met = abs(sharing.ratio / wanted - 1) <= TOLERANCE
    return Figure(name, sharing.ratio, f"{sharing.ratio:.2f} : 1", f"{wanted:g} : 1 within 10 %", met=met)


@dataclass(frozen=True)
class Sharing:
    """The service that two models received. what: LINK or UNIT. shares, sent_bytes: of both."""

    what: str
    shares: tuple[float, float]
    sent_bytes: tuple[int, int]
    equal: bool

    @property
    def ratio(self) -> float:
        """The first model's bytes over the second's."""
        return self.sent_bytes[0] / self.sent_bytes[1]


@dataclass(frozen=True)
class Small:
    """The small model's 99th percentiles alone and beside the huge one, and the huge one's median run; in seconds."""

    alone_s: float
    beside_s: float
    huge_run_s: float

    @property
    def raised_by_runs(self) -> float:
        """By how many of the huge model's runs the 99th percentile rose."""
        return (self.beside_s - self.alone_s) / self.huge_run_s


class _Model:
    """A model with a thread for each slot, which sends it requests. sent: bytes of the runs that are over."""

    def __init__(self, instance: ModelInstance, core: Core, rows: int, *, zeros: bool = False) -> None:
        self.instance, self._core, self._rows = instance, core, rows
        self.sent = 0
        self.equal = True
        self.times: list[float] = []
        x = np.random.default_rng(rows).integers(0, 100, (rows, core.inputs.row_bytes), dtype=np.uint8)
        self._x = x.reshape(-1)
        expected = core.outputs.encode(bench_core_wire(core.inputs.decode(self._x), core.inputs, core.outputs)).reshape(-1)
        self._y = np.zeros_like(expected) if zeros else expected
        self._lock = threading.Lock()
        for slot in instance.slots:
            slot.x[: self._x.size] = self._x

    def ask(self, slot: Slot) -> None:
        """Run once and compare the answer."""
        begin = time.monotonic()
        slot.start(self._rows)
        slot.finish(_TIMEOUT_MS)
        equal = bool((slot.y[: self._y.size] == self._y).all())
        with self._lock:
            self.times.append(time.monotonic() - begin)
            self.sent += self._x.size
            self.equal &= equal


@contextmanager
def _busy(*models: _Model) -> Iterator[None]:
    """Keep all slots of the models in use."""
    over = threading.Event()

    def work(model: _Model, slot: Slot) -> None:
        while not over.is_set():
            model.ask(slot)

    threads = [threading.Thread(target=work, args=(model, slot)) for model in models for slot in model.instance.slots]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _shared(what: str, shares: tuple[float, float], models: tuple[_Model, _Model], seconds: float) -> Sharing:
    with _busy(*models):
        time.sleep(seconds / 4)  # until all slots wait
        before = [model.sent for model in models]
        time.sleep(seconds)
        first, second = (model.sent - sent for model, sent in zip(models, before, strict=True))
    return Sharing(what, shares, (first, second), all(model.equal for model in models))


@dataclass(frozen=True)
class _Kernel:
    core: Core
    xclbin: Path
    manifest: Manifest

    def open(
        self, closing: ExitStack, units: Sequence[str], shares: Sequence[float], rows: int, *, zeros: bool = False
    ) -> list[_Model]:
        """Return the models with these shares, each on its unit. zeros: the second one's weights are zero."""
        device = closing.enter_context(open_device(self.xclbin))
        models = []
        for index, (unit, share) in enumerate(zip(units, shares, strict=True)):
            weights, manifest = self._weights(zeros=zeros and index == 1)
            (instance,) = open_instances(
                device, manifest, slots=_SLOTS, slot_rows=rows, weights=weights, units=[unit], share=share
            )  # fmt: skip
            closing.callback(instance.close)
            models.append(_Model(instance, self.core, rows, zeros=zeros and index == 1))
        return models

    def _weights(self, *, zeros: bool) -> tuple[Path | None, Manifest]:
        if self.core.weights is None:
            return None, self.manifest
        image = self.core.weights.read_bytes()
        file = self.xclbin.with_name(f"weights_{int(zeros)}.bin")
        file.write_bytes(bytes(len(image)) if zeros else image)
        return file, _manifest(self.xclbin.read_bytes(), self.core, file)


def _manifest(xclbin: bytes, core: Core, weights: Path | None) -> Manifest:
    return Manifest.of(
        xclbin, model=core.name, platform="u250", core=core.kind, inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=HUGE_ROWS, weights=weights,
    )  # fmt: skip


def _kernel(directory: Path, core: Core, units: int) -> _Kernel:
    kernel = write_kernel(core, directory)
    image = build_hardware_simulator(kernel).read_bytes()
    data = assemble_xclbin(
        kernel.name, Target.HW_EMU, find_platform("u250"), image, compute_units=units, weights=core.takes_weights
    )  # fmt: skip
    path = directory / "model.xclbin"
    path.write_bytes(data)
    return _Kernel(core, path, _manifest(data, core, core.weights))


def measure_link(directory: Path, mb_s: int, seconds: float) -> list[Sharing]:
    """Measure two models with a unit each behind one link."""
    kernel = _kernel(directory, write_bench_core(*bench_rows(), directory / "core"), 2)
    return [
        _at(kernel, LINK, kernel.manifest.compute_units, shares, ROWS, seconds, mb_s) for shares in SHARES
    ]  # fmt: skip


def measure_unit(directory: Path, seconds: float) -> list[Sharing]:
    """Measure two models with different weights on one unit."""
    rows = rf_bench_rows(((15,), "INT8"), n_out=6, datatype="INT16")
    core = write_rf_bench(*rows, directory / "core", name="loaded", reuse_factor=3, weights_in=(WeightsIn.LOADED,))
    kernel = _kernel(directory, core, 1)
    units = kernel.manifest.compute_units * 2
    return [_at(kernel, UNIT, units, shares, ROWS, seconds, 0) for shares in SHARES]


def _at(
    kernel: _Kernel, what: str, units: Sequence[str], shares: tuple[float, float], rows: int, seconds: float, mb_s: int
) -> Sharing:
    with _link(mb_s), ExitStack() as closing:
        first, second = kernel.open(closing, units, shares, rows, zeros=what == UNIT)
        return _shared(what, shares, (first, second), seconds)


def measure_small(directory: Path, mb_s: int, requests: int) -> Small:
    """Measure a model with one row at a time, alone and beside one with huge runs."""
    kernel = _kernel(directory, write_bench_core(*bench_rows(), directory / "core"), 2)
    with _link(mb_s), ExitStack() as closing:
        device = closing.enter_context(open_device(kernel.xclbin))
        models = []
        for unit, rows in zip(kernel.manifest.compute_units, (1, HUGE_ROWS), strict=True):
            (instance,) = open_instances(device, kernel.manifest, slots=2, slot_rows=rows, units=[unit])
            closing.callback(instance.close)
            models.append(_Model(instance, kernel.core, rows))
        small, huge = models
        slot = small.instance.slots[0]
        for _ in range(requests):
            small.ask(slot)
        alone = float(np.percentile(small.times, 99))
        small.times.clear()
        huge.ask(huge.instance.slots[0])
        huge.times.clear()
        for _ in range(3):
            huge.ask(huge.instance.slots[0])
        run = float(np.median(huge.times))
        with _busy(huge):
            time.sleep(3 * run)
            for _ in range(requests):
                small.ask(slot)
        return Small(alone, float(np.percentile(small.times, 99)), run)


@contextmanager
def _link(mb_s: int) -> Iterator[None]:
    """Set the rate of the emulated link for the cards that are opened in the body."""
    os.environ["HYPERSONIC_EMU_PCIE_MB_S"] = str(mb_s)
    try:
        yield
    finally:
        del os.environ["HYPERSONIC_EMU_PCIE_MB_S"]
