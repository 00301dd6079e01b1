# SPDX-License-Identifier: Apache-2.0
"""HTTP while a model is replaced in place: who asks for the model waits on a thread, everybody else is answered."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hypersonic.server.app import Server, Signals
from hypersonic.server.options import Options
from hypersonic.server.repository.registry import Registry
from tests.server.conftest import Script, write_model
from tests.server.repository.opened_repository import write_shift
from tests.server.shift_backend import ShiftBackend

BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 1, 1]}]}).encode()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released once for each who begins to wait for a replacement."""
    begun, wait = threading.Semaphore(0), Registry.wait_replaced

    def watched(registry: Registry, name: str, timeout_s: float) -> None:
        begun.release()
        wait(registry, name, timeout_s)

    monkeypatch.setattr(Registry, "wait_replaced", watched)
    return begun


def test_those_who_wait_for_a_replacement_hold_up_nobody_else(tmp_path: Path, waiting: threading.Semaphore) -> None:
    directory, script = write_model(tmp_path), Script(gate=threading.Event())
    assert script.gate is not None
    loopback: dict[str, Any] = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    options = Options((tmp_path,), model_control_mode="explicit", load_model=("m",), **loopback, **ports)
    server = Server(options, {"sum": ShiftBackend(script, cards=1)})
    server.load()
    server.start()

    def ask(path: str, data: bytes | None = None) -> Any:
        with urllib.request.urlopen(f"http://{server.addresses['HTTPService']}/v2/{path}", data, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    try:
        with ThreadPoolExecutor(5) as pool:
            last = pool.submit(ask, "models/m/infer", BODY)  # holds up the old version's end
            assert script.started.acquire(timeout=30)
            write_shift(directory, 2, 10)
            load = pool.submit(server.repository.load, "m")
            while not server.repository._registry.entry("m").replacing:
                assert not load.done()
            answers = [pool.submit(ask, *each) for each in (("models/m/infer", BODY), ("models/m",), ("models/m/config",))]
            for _ in answers:
                assert waiting.acquire(timeout=20)
            assert ask("health/live") == {}
            with pytest.raises(urllib.error.HTTPError, match="400"):
                ask("models/m/ready")
            script.gate.set()
            assert last.result(30)["outputs"][0]["data"] == [3.0]
            load.result(30)
            answer, metadata, config = (each.result(30) for each in answers)
            assert (answer["outputs"][0]["data"], metadata["versions"], config["name"]) == ([13.0], ["2"], "m")
    finally:
        script.gate.set()
        server.stop(Signals())
