# SPDX-License-Identifier: Apache-2.0
"""Models that take turns on one emulated card, behind the server: what tritonclient, /metrics and the status page see."""

from __future__ import annotations

import json
import logging
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic import __version__
from hypersonic.server.app import Server
from tests.server.backends.fpga.repositories import Repository, linked
from tests.server.python_serving import infer, serving, tensor
from tests.support.waiting import wait_until

#: what model.c computes
PYTHON = """
import numpy as np, triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * each[:, :1] + each[:, 1:2])]) for each in x]
"""
ON_DEMAND = {"card_policy": "on_demand", "card_residency_ms": "0"}


class OneCard(Repository):
    """A repository of models that take turns on the one card that there is."""

    def __init__(self, place: Path, image: bytes) -> None:
        super().__init__(place)
        self._image = image
        self._digests = iter(range(100))

    def add(self, name: str, **parameters: str) -> Path:
        """Publish a model with an xclbin of its own."""
        xclbin = linked(self._image, digest=f"{next(self._digests):064x}")
        return self.publish(name, xclbin, parameters={**ON_DEMAND, **parameters})


@pytest.fixture
def models(tmp_path: Path, image: bytes, monkeypatch: pytest.MonkeyPatch) -> OneCard:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    return OneCard(tmp_path / "models", image)


def row(value: float) -> np.ndarray:
    x = np.zeros((1, 18), np.float32)
    x[0, 0] = value
    return x


def answer(server: Server, model: str, value: float, **keywords: object) -> float:
    with triton.InferenceServerClient(server.addresses["GRPCInferenceService"]) as client:
        return float(infer(client, row(value), model, **keywords)[0, 0])


def fetch(server: Server, service: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{server.addresses[service]}/{path}", timeout=20) as page:
        return str(page.read().decode())


def series(server: Server, family: str) -> dict[str, float]:
    """The values of a family of models, by model."""
    lines = [line for line in fetch(server, "Metrics Service", "metrics").splitlines() if line.startswith(family + "{")]
    return {line.split('model="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def test_a_model_that_waits_for_a_card_is_answered_by_its_fallback_backend(models: OneCard) -> None:
    """The other model keeps the card for an hour."""
    models.add("a", card_residency_ms="3600000")
    (models.add("b", fallback_backend="python") / "model.py").write_text(PYTHON)
    with serving(models.place) as server:
        assert [answer(server, "b", value) for value in range(4)] == [0, 2, 4, 6]
        assert answer(server, "a", 5) == 10
        assert series(server, "fpga_model_resident") == {"a": 1, "b": 0}
        assert series(server, "fpga_fallback_active") == {"b": 1}
        assert series(server, "fpga_fallback_runs_total") == {"b": 4}
        assert series(server, "fpga_model_card_waits_total") == {"a": 0, "b": 4}
        assert series(server, "fpga_model_card_wait_seconds_total") == {"a": 0, "b": 0}, "no request of b has to wait"


def test_a_model_with_a_fallback_backend_returns_to_the_card_when_it_has_its_turn(models: OneCard) -> None:
    models.add("a")
    (models.add("b", fallback_backend="python") / "model.py").write_text(PYTHON)
    with serving(models.place) as server:
        for _ in range(2):
            assert answer(server, "b", 3) == 6
            wait_until(lambda: series(server, "fpga_model_resident") == {"a": 0, "b": 1})
            wait_until(lambda: series(server, "fpga_fallback_active") == {"b": 0})
            before = series(server, "fpga_fallback_runs_total")
            assert answer(server, "b", 4) == 8
            assert series(server, "fpga_fallback_runs_total") == before
            assert answer(server, "a", 5) == 10
            assert series(server, "fpga_model_resident") == {"a": 1, "b": 0}
        assert series(server, "fpga_model_card_wait_seconds_total")["b"] == 0


def test_a_simulated_card_is_called_so_in_the_log_on_the_status_page_and_in_the_servers_metadata(
    models: OneCard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="hypersonic")
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    for name in "ab":
        models.add(name)
    with serving(models.place) as server:
        with triton.InferenceServerClient(server.addresses["GRPCInferenceService"]) as client:
            assert "hypersonic(simulated_cards)" in client.get_server_metadata().extensions
        assert answer(server, "b", 1) == 2
        page = fetch(server, "HTTPService", "")
        assert page.count("SIMULATED") == 1
        assert f"<h1>hypersonic {__version__} (Triton protocol) " in page
    said = [line for line in caplog.messages if "SIMULATED" in line]
    assert len(said) == 1
    assert said[0].startswith("card 0 (xilinx_u250")


def test_metrics_and_the_status_page_show_who_has_the_card(models: OneCard) -> None:
    for name in "ab":
        models.add(name)
    with serving(models.place) as server:
        assert answer(server, "b", 1) == 2
        assert series(server, "fpga_model_resident") == {"a": 0, "b": 1}
        assert series(server, "fpga_model_card_loads_total") == {"a": 1, "b": 1}
        assert series(server, "fpga_model_card_waits_total") == {"a": 0, "b": 1}
        loads, waits = (series(server, f"fpga_model_card_{what}_seconds_total") for what in ("load", "wait"))
        assert all(loads.values())
        assert (waits["a"], waits["b"] > 0) == (0, True)
        assert all(f'{model}",version="1"' in fetch(server, "Metrics Service", "metrics") for model in "ab")
        page = fetch(server, "HTTPService", "")
        in_service = ["the card", "the unit of b"]
        assert (page.count("AWAY"), page.count("IN SERVICE"), page.count("OUT OF SERVICE")) == (1, len(in_service), 0)


def test_requests_that_were_given_up_do_not_wait_for_a_card_any_more(models: OneCard) -> None:
    models.add("a", card_residency_ms="3600000")
    models.add("b")
    with serving(models.place) as server:
        with triton.InferenceServerClient(server.addresses["GRPCInferenceService"]) as client:
            asked = client.async_infer("b", [tensor(row(1))], callback=lambda _result, _error: None)
            wait_until(lambda: series(server, "fpga_model_card_wait_seconds_total")["b"] > 0)
            asked.cancel()
        wait_until(lambda: series(server, "nv_inference_pending_request_count") == {"a": 0, "b": 0})
        waited = series(server, "fpga_model_card_wait_seconds_total")
        assert waited["b"] > 0
        assert series(server, "fpga_model_card_wait_seconds_total") == waited


def labelled(page: str, family: str) -> dict[str, float]:
    """The values of a family by the labels of its series."""
    rows = (line.removeprefix(family).rsplit(" ", 1) for line in page.splitlines() if line.startswith(family + "{"))
    return {labels: float(value) for labels, value in rows}


def test_counters_of_models_that_take_turns_on_two_cards_go_on_under_the_same_labels(
    models: OneCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    for name in "abc":
        models.add(name)
    with serving(models.place) as server:
        cards: dict[str, set[str]] = {name: set() for name in "abc"}
        before: dict[str, dict[str, float]] = {}
        for turn in range(12):
            name = "abcacbbac"[turn % 9]
            assert answer(server, name, turn) == 2 * turn
            cards[name] |= {
                unit["gpu_uuid"] for unit in instances(server) if unit["model"].startswith(name) and unit["gpu_uuid"]
            }
            page = fetch(server, "Metrics Service", "metrics")
            counters = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE") and line.endswith("counter")]
            now = {family: labelled(page, family) for family in counters if family.startswith(("nv_inf", "fpga_"))}
            for family, values in before.items():
                assert values.keys() == now[family].keys(), family
                assert all(now[family][labels] >= value for labels, value in values.items()), family
            before = now
        assert max(map(len, cards.values())) == 2, "a model was on both cards"
        success = before["nv_inference_request_success"]
        assert success.keys() == {f'{{model="{name}",version="1"}}' for name in "abc"}
        assert sum(success.values()) == sum(before["fpga_compute_unit_runs_total"].values()) == 12


def instances(server: Server) -> list[dict[str, Any]]:
    """The compute units on the status page."""
    units: list[dict[str, Any]] = json.loads(fetch(server, "HTTPService", "status.json"))["instances"]
    return units


def test_a_sequence_goes_on_when_its_model_returns_to_the_card(models: OneCard) -> None:
    models.add("a")
    config = models.add("b").parent / "config.pbtxt"
    text = config.read_text()
    start = text.index("dynamic_batching")
    config.write_text(
        text[:start] + "sequence_batching { max_sequence_idle_microseconds: 60000000 }" + _after_block(text[start:])
    )
    with serving(models.place) as server:
        for step in range(4):
            ends = {"sequence_start": step == 0, "sequence_end": step == 3}
            assert answer(server, "b", step, sequence_id=7, **ends) == 2 * step
            assert answer(server, "a", 1) == 2
        assert series(server, "fpga_model_card_loads_total") == {"a": 5, "b": 4}


def _after_block(text: str) -> str:
    """The text after the first block in braces."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "}" and not depth:
            return text[at + 1 :]
    raise AssertionError(text)


def test_clients_of_models_that_take_turns_see_no_error(models: OneCard) -> None:
    for name in "abc":
        models.add(name, card_residency_ms="10")
    with serving(models.place) as server, ThreadPoolExecutor(6) as clients:
        asked = [clients.submit(answer, server, "abc"[value % 3], value) for value in range(120)]
        assert [each.result(120) for each in asked] == [2 * value for value in range(120)]
