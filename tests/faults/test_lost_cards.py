# SPDX-License-Identifier: Apache-2.0
"""Emulated cards that hang, leave the bus, are reset and come back, under a real server: who can be served is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests.faults.card_models import X, ask, runs, units, write_model
from tests.faults.site import Site, infer, site
from tests.host.conftest import Build, Cards


@pytest.fixture
def events(tmp_path: Path) -> Cards:
    """The cards of the server, whose failures a test can cause."""
    return Cards(tmp_path / "cards")


@contextmanager
def load(running: Site, clients: int = 4) -> Iterator[None]:
    """Clients that send one request after the other. Anything but the right answer to any of them fails the test."""
    stopping = threading.Event()

    def work(seed: int) -> int:
        with running.client() as client:
            for n in range(seed, 1_000_000):
                if stopping.is_set():
                    return n - seed
                ask(client, n % 100)
        return 0

    with ThreadPoolExecutor(clients) as pool:
        working = [pool.submit(work, 1000 * seed) for seed in range(clients)]
        try:
            yield
        finally:
            stopping.set()
        assert sum(work.result(60) for work in working) > clients


def in_service(running: Site) -> set[str]:
    return {unit for unit, value in units(running, "in_service").items() if value}


ALL = {"facile_1@0", "facile_2@0", "facile_1@1", "facile_2@1"}
OF_1 = {"facile_1@1", "facile_2@1"}


def refused(running: Site) -> str:
    """Return the error of a client that cannot be served now."""
    with running.client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, 0)
    assert caught.value.status() == "StatusCode.UNAVAILABLE"
    return str(caught.value)


def test_a_card_that_is_unplugged_under_load_is_missed_by_nobody_and_used_again_when_it_is_back(
    build: Build, tmp_path: Path, events: Cards
) -> None:
    repository = write_model(tmp_path / "models", build, "0, 1")
    with site(repository, environment=events.environment) as running, running.client() as client:
        with load(running):
            for turn in range(2):
                running.wait_for(lambda: in_service(running) == ALL)
                before = runs(running, *OF_1)
                running.wait_for(lambda before=before: runs(running, *OF_1) > before)
                events.unplug(1)
                running.wait_for(lambda: in_service(running) == ALL - OF_1)
                before = runs(running, "facile_1@0", "facile_2@0")
                running.wait_for(lambda before=before: runs(running, "facile_1@0", "facile_2@0") > before + 10)
                assert client.is_server_ready()
                events.plug(1)
                running.wait_for(lambda: in_service(running) == ALL)
                assert {unit: units(running, "revived_total")[unit] for unit in OF_1} == dict.fromkeys(OF_1, turn + 1)
        metrics = running.metrics()
        assert not [name for name, value in metrics.items() if "request_failure" in name and value]
        assert sorted(value for name, value in metrics.items() if name.startswith("fpga_card_xclbin_reloads")) == [0, 2]
        assert sum(units(running, "timeouts_total").values()) == 0
        assert running.program.stop() == 0


def test_a_request_in_flight_on_a_card_that_leaves_the_bus_is_answered_by_another(
    build: Build, tmp_path: Path, events: Cards
) -> None:
    repository = write_model(tmp_path / "models", build, "0, 1", timeout_ms="600000")
    hang = {"HYPERSONIC_EMU_HANG": "facile_1@0:1"}
    with site(repository, environment={**events.environment, **hang}) as running, ThreadPoolExecutor(1) as pool:
        with running.client() as client:
            stuck = pool.submit(ask, client, 1)
            running.wait_for(lambda: running.metrics()["hypersonic_server_requests_in_flight"] == 1)
            assert in_service(running) == ALL
            events.unplug(0)
            stuck.result(60)
        assert in_service(running) == OF_1
        assert sum(units(running, "timeouts_total").values()) == 0
        assert runs(running, *OF_1) == 1


def test_without_its_only_card_a_model_refuses_at_once_and_serves_again_when_the_card_is_back(
    build: Build, tmp_path: Path, events: Cards
) -> None:
    repository = write_model(tmp_path / "models", build)
    environment = {**events.environment, "HYPERSONIC_EMU_DEVICES": "1"}
    with site(repository, environment=environment) as running, running.client() as client:
        ask(client, 1)
        events.unplug(0)
        for _ in range(2):
            assert "no compute unit is in service" in refused(running)
        assert (client.is_server_live(), client.is_server_ready(), client.is_model_ready("facile")) == (True, False, False)
        assert "No such device" in client.get_model_repository_index().models[0].reason
        events.plug(0)
        running.wait_for(lambda: client.is_model_ready("facile"))
        ask(client, 2)
        assert client.is_server_ready()


def test_a_server_whose_card_is_gone_ends_when_it_is_told_to(build: Build, tmp_path: Path, events: Cards) -> None:
    repository = write_model(tmp_path / "models", build)
    with site(repository, environment=events.environment) as running:
        events.unplug(0)
        refused(running)
        assert running.program.stop() == 0


def test_a_model_whose_card_is_gone_is_unloaded_and_loaded_again(build: Build, tmp_path: Path, events: Cards) -> None:
    repository = write_model(tmp_path / "models", build, "0")
    options = ("--model-control-mode", "explicit", "--load-model", "facile")
    with site(repository, *options, environment=events.environment) as running, running.client() as client:
        events.unplug(0)
        refused(running)
        client.unload_model("facile")
        with pytest.raises(InferenceServerException, match="card 0 cannot be opened: there is no such card"):
            client.load_model("facile")
        events.plug(0)
        client.load_model("facile")
        ask(client, 3)


def test_a_hung_unit_is_back_in_service_after_its_card_was_reset_and_not_before(
    build: Build, tmp_path: Path, events: Cards
) -> None:
    repository = write_model(tmp_path / "models", build, "0, 1", timeout_ms="300")
    hang = {"HYPERSONIC_EMU_HANG": "facile_1@1:3,facile_2@1:2"}
    with site(repository, environment={**events.environment, **hang}) as running:
        with load(running):
            running.wait_for(lambda: in_service(running) == ALL - OF_1)
            # it is opened again and again meanwhile, and found not to be idle
            running.wait_for(lambda: "is not idle before its first run" in running.program.log)
            assert in_service(running) == ALL - OF_1
            events.reset(1)
            running.wait_for(lambda: in_service(running) == ALL)
            before = runs(running, *OF_1)
            running.wait_for(lambda: runs(running, *OF_1) > before)
        assert units(running, "timeouts_total") == {**dict.fromkeys(ALL, 0), **dict.fromkeys(OF_1, 1)}
        assert units(running, "revived_total") == {**dict.fromkeys(ALL, 0), **dict.fromkeys(OF_1, 1)}
        assert not [name for name, value in running.metrics().items() if "request_failure" in name and value]


def test_a_hung_unit_stays_out_while_its_sibling_works_until_the_card_is_reset(
    build: Build, tmp_path: Path, events: Cards
) -> None:
    repository = write_model(tmp_path / "models", build, "0", timeout_ms="300")
    hang = {"HYPERSONIC_EMU_HANG": "facile_1:1"}
    with site(repository, environment={**events.environment, **hang}) as running, running.client() as client:
        for n in range(20):
            ask(client, n)
        running.wait_for(lambda: "facile_1 can be recovered once facile_2 of the same card" in running.program.log)
        assert in_service(running) == {"facile_2"}
        events.reset(0)
        with load(running, clients=1):
            running.wait_for(lambda: in_service(running) == {"facile_1", "facile_2"})
        assert units(running, "revived_total") == {"facile_1": 1, "facile_2": 1}


def test_a_run_whose_memory_answered_with_an_error_fails_and_its_unit_is_used_no_more(
    build: Build, tmp_path: Path, events: Cards
) -> None:
    repository = write_model(tmp_path / "models", build, "0")
    with site(repository, environment=events.environment) as running, running.client() as client:
        bad = X.copy()
        bad[50, 0] = 1e30
        with pytest.raises(
            InferenceServerException, match=r"the memory responded to a read with an error \(AXI_ERROR\)"
        ) as caught:
            infer(client, "facile", bad)
        assert caught.value.status() == "StatusCode.INTERNAL"
        running.wait_for(lambda: len(in_service(running)) == 1)
        for n in range(5):
            ask(client, n)
        assert len(in_service(running)) == 1
