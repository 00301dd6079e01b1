# SPDX-License-Identifier: Apache-2.0
"""A version of an `fpga` model is replaced while clients send as fast as they can, on a host with one card.

A card carries one xclbin, and a compute unit one owner: old and new version cannot be there at the same moment, whether their
xclbin is the same or another. Requests wait while the card is drained and programmed; none fails.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.building.model import build
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.zoo.facile.events import log_flat_events
from hypersonic.server_process import RunningServer, start_server

CLIENTS = 6
PATIENCE_S = 120.0
ROWS = np.ascontiguousarray(log_flat_events(1, seed=3).rows[:300])


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """Two version directories of FACILE, with one compute unit and with two: another xclbin, the same answers."""
    versions = [
        build("facile", target="sw_emu", repository=tmp_path_factory.mktemp("models"), compute_units=units) for units in (1, 2)
    ]
    assert len({Xclbin.read(version / "model.xclbin").uuid for version in versions}) == 2
    return versions


@pytest.fixture(autouse=True)
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")


def publish(model: Path, build: Path, version: int) -> None:
    """Publish atomically, as `hypersonic build` does."""
    model.mkdir(parents=True, exist_ok=True)
    if not (model / "config.pbtxt").exists():
        shutil.copy(build.parent / "config.pbtxt", model)
    shutil.copytree(build, model / f".{version}")
    (model / f".{version}").rename(model / str(version))


def damaged(build: Path, directory: Path) -> Path:
    """A version whose damage only the card detects: its image is not a simulator."""
    version = directory / "1"
    directory.mkdir()
    shutil.copytree(build, version)
    shutil.copy(build.parent / "config.pbtxt", directory)
    before = Manifest.read(build / "manifest.json")
    data = assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), b"\x7fELF, and no more")
    uuid, sha256 = Xclbin.parse(data).uuid, hashlib.sha256(data).hexdigest()
    (version / "model.xclbin").write_bytes(data)
    (version / "manifest.json").write_text(replace(before, uuid=uuid, sha256=sha256).to_json())
    return version


class Load:
    """Clients that send one request after another. seen: the versions that answered, in the order of their first answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self.answers: dict[str, int] = {}
        self._expected = self._ask_once()

    @property
    def seen(self) -> list[str]:
        return list(self.answers)

    def wait_for(self, version: str, answers: int = 5 * CLIENTS) -> None:
        """Return once that version has answered so many requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.answers.get(version, 0) >= answers, PATIENCE_S), self.answers

    def _ask_once(self) -> np.ndarray:
        with triton.InferenceServerClient(self._url) as client:
            return self._ask(client)[0]

    def _ask(self, client: triton.InferenceServerClient) -> tuple[np.ndarray, str]:
        x = triton.InferInput("input", list(ROWS.shape), "FP32")
        x.set_data_from_numpy(ROWS)
        answer = client.infer("facile", [x])
        (output,) = answer.get_response().outputs
        return answer.as_numpy(output.name), answer.get_response().model_version

    def _send(self) -> int:
        """Return the number of answered requests; raise the first error that a client saw."""
        sent, last = 0, 0
        with triton.InferenceServerClient(self._url) as client:
            while not self._ended.is_set():
                y, version = self._ask(client)
                np.testing.assert_array_equal(y, self._expected)
                assert int(version) >= last
                sent, last = sent + 1, int(version)
                with self._changed:
                    self.answers[version] = self.answers.get(version, 0) + 1
                    self._changed.notify_all()
        return sent

    @contextmanager
    def running(self) -> Iterator[None]:
        """Stop the clients at the end and raise the first failure of any of them."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            senders: list[Future[int]] = [pool.submit(self._send) for _ in range(CLIENTS)]
            try:
                yield
            finally:
                self._ended.set()
            assert all(sender.result(PATIENCE_S) for sender in senders)


def series(server: RunningServer, metric: str) -> list[str]:
    """The series of a metric, with their values."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=PATIENCE_S) as answer:
        return [line for line in answer.read().decode().splitlines() if line.startswith(metric + "{")]


def failures(server: RunningServer) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in series(server, "nv_inference_request_failure"))


def compute_units(server: RunningServer, version: int) -> int:
    """The number of compute units that serve a version."""
    return sum(f'version="{version}"' in line for line in series(server, "fpga_compute_unit_in_service"))


@pytest.mark.parametrize("other", [0, 1], ids=["the same xclbin", "another number of compute units"])
@pytest.mark.parametrize("control", ["explicit", "poll"])
def test_no_request_fails_while_a_version_on_the_only_card_is_replaced(
    tmp_path: Path, builds: Sequence[Path], control: str, other: int
) -> None:
    model = tmp_path / "facile"
    publish(model, builds[0], 1)
    options = ["--load-model", "facile"] if control == "explicit" else ["--repository-poll-secs", "1"]
    with start_server(tmp_path, "--model-control-mode", control, *options) as server:
        load = Load(server.grpc)
        with load.running(), triton.InferenceServerClient(server.grpc) as client:
            load.wait_for("1")
            for version in (2, 3, 4):
                publish(model, builds[other * (version % 2 == 0)], version)
                if control == "explicit":
                    client.load_model("facile")
                load.wait_for(str(version))
                assert compute_units(server, version) == (2 if other and version % 2 == 0 else 1)
        assert load.seen == ["1", "2", "3", "4"]
        assert failures(server) == 0
        with triton.InferenceServerClient(server.grpc) as client:
            (row,) = [row for row in client.get_model_repository_index().models if row.version == "4"]
            assert (row.state, row.reason) == ("READY", "")


def test_no_request_fails_when_the_card_refuses_the_new_version(tmp_path: Path, builds: Sequence[Path]) -> None:
    repository = tmp_path / "models"
    publish(repository / "facile", builds[0], 1)
    broken = damaged(builds[0], tmp_path / "broken")
    with start_server(repository, "--model-control-mode", "explicit", "--load-model", "facile") as server:
        load = Load(server.grpc)
        with load.running(), triton.InferenceServerClient(server.grpc) as client:
            load.wait_for("1")
            publish(repository / "facile", broken, 2)
            with pytest.raises(InferenceServerException, match="load failed for model 'facile': version 2 is at UNAVAILABLE"):
                client.load_model("facile")
            load.wait_for("1", answers=2 * sum(load.answers.values()))
            (row,) = client.get_model_repository_index().models
            assert (row.version, row.state, "version 2 is at UNAVAILABLE" in row.reason) == ("1", "READY", True)
        assert load.seen == ["1"]
        assert failures(server) == 0
