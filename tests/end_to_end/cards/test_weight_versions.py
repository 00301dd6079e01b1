# SPDX-License-Identifier: Apache-2.0
"""Versions of a model with one kernel replace each other in the real server, under load, and models share its compute unit."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient import grpc

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.both_servers import STARTS, Start
from tests.support.rf_kernels import LOADED
from tests.support.server_program import Program

ROWS, THREADS = 20, 4


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    return LOADED.kernel(tmp_path_factory.mktemp("loaded"))


@pytest.fixture(scope="module")
def xclbin(kernel: Kernel) -> bytes:
    image = build_hardware_simulator(kernel).read_bytes()
    return assemble_xclbin(
        kernel.name, Target.HW_EMU, find_platform("u250"), image, weights=True, digest=kernel.sha256
    )  # fmt: skip


def publish_image(repository: Path, kernel: Kernel, xclbin: bytes, image: bytes, model: str) -> None:
    core = kernel.core
    manifest = Manifest.of(
        xclbin, model=model, platform="u250", core="rf", inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=64, weights=image,
    )  # fmt: skip
    publish(repository, xclbin, manifest, config_pbtxt(manifest), weights=image)


@pytest.fixture
def images(kernel: Kernel) -> tuple[bytes, bytes]:
    """The network's weights, for which numpy has the answers, and zeros, for which these are zero."""
    assert kernel.core.weights is not None
    assert not kernel.core.memories
    own = kernel.core.weights.read_bytes()
    return own, bytes(len(own))


def question(seed: int) -> tuple[NDArray[np.int8], NDArray[np.int16]]:
    data, expected = LOADED.rows(ROWS, seed)
    return data.view(np.int8).reshape(ROWS, 15), expected.view("<i2").reshape(ROWS, 6)


def ask(client: grpc.InferenceServerClient, model: str, x: NDArray[np.int8]) -> NDArray[np.int16]:
    given = grpc.InferInput("x0", list(x.shape), "INT8")
    given.set_data_from_numpy(x)
    answer: NDArray[np.int16] | None = client.infer(model, [given]).as_numpy("y")
    assert answer is not None
    return answer


class Load:
    """Clients that ask a model over and over. counts: the answers by what they were equal to."""

    def __init__(self, server: Program, model: str) -> None:
        self.counts = {"own": 0, "zeros": 0, "wrong": 0, "failed": 0}
        self.errors: list[Exception] = []
        self._server, self._model = server, model
        self._over, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(seed,)) for seed in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, seed: int) -> None:
        x, expected = question(seed)
        with grpc.InferenceServerClient(self._server.grpc) as client:
            while not self._over.is_set():
                try:
                    answer = ask(client, self._model, x)
                    what = "own" if (answer == expected).all() else "wrong" if answer.any() else "zeros"
                except Exception as error:  # noqa: BLE001 - every failure counts
                    self.errors.append(error)
                    what = "failed"
                with self._lock:
                    self.counts[what] += 1

    def wait_for(self, what: str, more: int = 30) -> None:
        wanted = self.counts[what] + more
        self._server.wait_for(lambda: self.counts[what] >= wanted or self.counts["failed"])

    def stop(self) -> dict[str, int]:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors, self.errors[0]
        return self.counts


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_versions_replace_each_other_under_load_without_a_failed_request(
    kernel: Kernel, xclbin: bytes, images: tuple[bytes, bytes], tmp_path: Path, start: Start
) -> None:
    publish_image(tmp_path, kernel, xclbin, images[0], "loaded")
    environment = {"HYPERSONIC_EMU_DEVICES": "1"}
    options = (f"--model-repository={tmp_path}", "--model-control-mode=explicit", "--load-model=loaded")
    with start(*options, environment=environment) as server, grpc.InferenceServerClient(server.grpc) as control:
        load = Load(server, "loaded")
        load.wait_for("own")
        assert load.counts["zeros"] == 0
        for image, what in ((images[1], "zeros"), (images[0], "own"), (images[1], "zeros")):
            publish_image(tmp_path, kernel, xclbin, image, "loaded")
            control.load_model("loaded")
            load.wait_for(what)
        counts = load.stop()
        assert (counts["wrong"], counts["failed"]) == (0, 0)
        assert not ask(control, "loaded", question(1)[0]).any()


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_two_models_of_one_kernel_are_served_on_one_compute_unit(
    kernel: Kernel, xclbin: bytes, images: tuple[bytes, bytes], tmp_path: Path, start: Start
) -> None:
    for model, image in zip(("barrel", "endcap"), images, strict=True):
        publish_image(tmp_path, kernel, xclbin, image, model)
    with start(f"--model-repository={tmp_path}", environment={"HYPERSONIC_EMU_DEVICES": "1"}) as server:
        loads = {model: Load(server, model) for model in ("barrel", "endcap")}
        for load, what in zip(loads.values(), ("own", "zeros"), strict=True):
            load.wait_for(what)
        counts = {model: load.stop() for model, load in loads.items()}
    assert [counts["barrel"][what] for what in ("zeros", "wrong", "failed")] == [0, 0, 0]
    assert [counts["endcap"][what] for what in ("own", "wrong", "failed")] == [0, 0, 0]
