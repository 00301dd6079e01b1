# SPDX-License-Identifier: Apache-2.0
"""Envoy's limits: large requests, retries, requests in flight and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import Config, Envoy, cluster, envoy, router
from tests.deploy.envoy.scripted import Infer, cancelled, hold, hold_and_fail, large_request, scripted, unavailable
from tests.support.server_program import Program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/envoy")

LARGE_ROWS = 17_500_000 // 4
INFER = "/inference.GRPCInferenceService/ModelInfer"


def default_buffer(config: Config) -> None:
    """Leave request_body_buffer_limit and the window at Envoy's defaults, to show what they are there for."""
    manager = router(config)
    (host,) = manager["route_config"]["virtual_hosts"]
    del host["request_body_buffer_limit"]
    for option in ("initial_stream_window_size", "initial_connection_window_size"):
        del manager["http2_protocol_options"][option]


@pytest.mark.parametrize("failure", [unavailable, cancelled])
def test_a_request_of_17_5_mb_is_sent_again_when_a_server_fails_it(
    failure: Infer, three: list[Program], tmp_path: Path
) -> None:
    with scripted(failure) as failing, envoy(tmp_path, [failing.address, three[0].grpc]) as edge:
        with load.connect(edge.address) as client:
            rows = load.unique_rows(LARGE_ROWS)
            while not failing.received:
                assert np.array_equal(load.infer(client, rows), load.expected(rows))
        assert edge.stat("cluster.servers.upstream_rq_retry_success") == failing.received
        assert edge.stat("cluster.servers.retry_or_shadow_abandoned") == 0


def test_with_the_default_buffer_it_is_not(three: list[Program], tmp_path: Path) -> None:
    addresses = [three[0].grpc]
    with scripted(unavailable) as failing, envoy(tmp_path, [failing.address, *addresses], change=default_buffer) as edge:
        with load.connect(edge.address) as client:
            rows = load.unique_rows(LARGE_ROWS)

            def several() -> None:
                for _ in range(50):
                    load.infer(client, rows)

            with pytest.raises(InferenceServerException, match="scripted"):
                several()
        assert edge.stat("cluster.servers.retry_or_shadow_abandoned") >= 1


@contextmanager
def calls(edge: Envoy) -> Iterator[Any]:
    """Yield a function that starts a request and returns its future."""
    with grpc.insecure_channel(edge.address, [("grpc.max_send_message_length", -1)]) as channel:
        infer: Any = channel.unary_unary(INFER)
        yield lambda message: infer.future(message, timeout=120)


def test_a_request_above_the_circuit_breaker_is_unavailable_at_once(tmp_path: Path) -> None:
    def four(config: Config) -> None:
        (limits,) = cluster(config)["circuit_breakers"]["thresholds"]
        limits["max_requests"] = 4

    with scripted(hold) as server, envoy(tmp_path, [server.address], change=four) as edge, calls(edge) as send:
        held = [send(large_request(64)) for _ in range(4)]
        wait_until(lambda: server.received == 4)
        refused = send(large_request(64)).exception()
        server.released.set()
        assert [each.exception() for each in held] == [None] * 4
        assert edge.stat("cluster.servers.upstream_rq_active_overflow") == 1
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    assert "overflow" in refused.details()


def test_retries_above_the_budget_are_not_made_and_the_client_gets_the_servers_answer(tmp_path: Path) -> None:
    def two(config: Config) -> None:
        (limits,) = cluster(config)["circuit_breakers"]["thresholds"]
        limits["retry_budget"] = {"budget_percent": {"value": 1}, "min_retry_concurrency": 2}

    with (
        scripted(hold_and_fail) as one,
        scripted(hold_and_fail) as other,
        envoy(tmp_path, [one.address, other.address], change=two) as edge,
        calls(edge) as send,
    ):
        started = [send(large_request(64)) for _ in range(20)]
        wait_until(lambda: one.received + other.received == 20)
        one.released.set()
        other.released.set()
        failures = [each.exception() for each in started]
        overflow = edge.stat("cluster.servers.upstream_rq_retry_overflow")
        attempts = sum(edge.requests().values())
    assert {(each.code(), each.details()) for each in failures} == {(grpc.StatusCode.UNAVAILABLE, "scripted")}
    assert overflow > 0
    assert attempts < 20 * 2


def test_new_requests_are_refused_before_the_memory_is_full(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The bodies are kept for a retry until an answer begins; held requests fill the memory with them."""
    limit = 200_000_000
    message = large_request(17_500_000)

    def small(config: Config) -> None:
        config["overload_manager"]["resource_monitors"][0]["typed_config"]["max_heap_size_bytes"] = limit

    with scripted(hold) as server, envoy(tmp_path, [server.address], change=small) as edge, calls(edge) as send:
        pressure = "overload.envoy.resource_monitors.fixed_heap.pressure"
        sent: list[Any] = []
        while not (sent and sent[-1].done()) and len(sent) < 20:
            sent.append(send(message))
            wait_until(lambda: server.received == len(sent) or sent[-1].done())
            wait_until(lambda: edge.stat(pressure) >= 80 or edge.stat(pressure) * limit // 100 > 17_000_000 * server.received)
        refused = sent[-1].exception()
        record_property("noteworthy", f"{len(sent) - 1} requests of 17.5 MB were taken within {limit} bytes")
        assert edge.stat(pressure) < 100
        server.released.set()
        assert [each.exception() for each in sent[:-1]] == [None] * (len(sent) - 1)
        wait_until(lambda: edge.stat("overload.envoy.overload_actions.stop_accepting_requests.active") == 0)
        assert send(large_request(64)).exception() is None
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    assert "overloaded" in refused.details()
