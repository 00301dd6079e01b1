# SPDX-License-Identifier: Apache-2.0
"""A second backend takes over when the first has no instance left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server.app import Server, Signals
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.options import Options
from tests.server.conftest import Script, SumBackend, SumModel, tensor, write_model
from tests.support.waiting import wait_until

FALLBACK = 'parameters { key: "fallback_backend" value { string_value: "spare" } }'


def start(repository: Path, first: Script, spare: Script) -> Server:
    options = Options(
        (repository,),
        grpc_port=0,
        http_port=0,
        metrics_port=0,
        grpc_address="127.0.0.1",
        http_address="127.0.0.1",
        exit_on_error=False,
    )
    server = Server(options, {"sum": SumBackend(first), "spare": SumBackend(spare)})
    server.load()
    server.start()
    return server


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Server, Script, Script]]:
    write_model(tmp_path, config=FALLBACK)
    first, spare = Script(hang_from_run={"sum_1": 3}), Script(instances=2)
    server = start(tmp_path, first, spare)
    yield server, first, spare
    server.stop(Signals())


def infer(server: Server, value: float) -> float:
    with triton.InferenceServerClient(server.addresses["GRPCInferenceService"]) as client:
        return float(client.infer("m", [tensor(np.full((1, 3), value, np.float32))]).as_numpy("y")[0, 0])


def test_the_spare_rests_until_the_last_instance_is_lost_and_no_client_notices(served: tuple[Server, Script, Script]) -> None:
    server, first, spare = served
    (model,) = server.repository
    assert [infer(server, n) for n in range(2)] == [0, 3]
    assert (len(first.batches), len(spare.batches), model.on_standby) == (2, 0, False)
    assert [infer(server, n) for n in range(2, 8)] == [6, 9, 12, 15, 18, 21]
    assert (len(first.batches), len(spare.batches), model.on_standby) == (3, 6, True)
    assert server.service.ready
    assert [figures.runs for name, figures in model.figures.items() if name.endswith("@spare")] != [0, 0]


def test_the_spare_serves_while_the_first_is_away_and_rests_again_when_it_is_back(tmp_path: Path) -> None:
    write_model(tmp_path, config=FALLBACK)
    first, spare = Script(hang_from_run={"sum_1": 1}, back=threading.Event()), Script()
    server = start(tmp_path, first, spare)
    try:
        (model,) = server.repository
        assert [infer(server, n) for n in range(3)] == [0, 3, 6]
        assert (model.on_standby, len(spare.batches), server.service.ready) == (True, 3, True)
        first.come_back()
        wait_until(lambda: not model.on_standby)
        assert [infer(server, n) for n in range(3)] == [0, 3, 6]
        assert (len(first.batches), len(spare.batches)) == (4, 3)
    finally:
        server.stop(Signals())


def test_a_model_whose_first_backend_does_not_load_is_served_by_the_second(tmp_path: Path) -> None:
    (write_model(tmp_path, config=FALLBACK) / "1" / "broken").write_text("no card")
    spare = Script()
    backends = {"sum": SumBackend(Script()), "spare": _Whole(spare)}
    options = Options((tmp_path,), grpc_port=0, grpc_address="127.0.0.1", allow_http=False, allow_metrics=False)
    server = Server(options, backends)
    server.load()
    server.start()
    try:
        assert infer(server, 2) == 6
        assert next(iter(server.repository)).on_standby
    finally:
        server.stop(Signals())


class _Whole(SumBackend):
    """Loads broken directories too."""

    def load(self, directory: Path, config: Any) -> Any:
        return super().load(directory.parent, config)


REFUSED = {
    "unknown": (FALLBACK.replace("spare", "none"), "fallback_backend is 'none', expected one of"),
    "decoupled": (FALLBACK + " model_transaction_policy { decoupled: true }", "needs a model without sequence_batching"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_fallback_that_cannot_be_is_refused_at_load(tmp_path: Path, case: str) -> None:
    config, text = REFUSED[case]
    write_model(tmp_path, config=config)
    server = start(tmp_path, Script(), Script())
    try:
        (entry,) = server.repository.index()
        assert text in entry.reason
    finally:
        server.stop(Signals())


class Recording(SumBackend):
    """Keeps the name of the model file that it was told to load."""

    told = "nothing"

    def load(self, directory: Path, config: ModelConfig) -> SumModel:
        self.told = config.message.default_model_filename
        return super().load(directory, config)


def test_the_second_backend_reads_the_file_of_its_own_name(tmp_path: Path) -> None:
    """default_model_filename names the first backend's file; the server fills it in where config.pbtxt does not."""
    write_model(tmp_path, config=FALLBACK + ' default_model_filename: "model.xclbin"')
    backends = {"sum": Recording(Script()), "spare": Recording(Script())}
    server = Server(Options((tmp_path,), grpc_port=0, http_port=0, metrics_port=0), dict(backends))
    try:
        server.load()
        assert {name: backend.told for name, backend in backends.items()} == {"sum": "model.xclbin", "spare": ""}
    finally:
        server.stop(Signals())
