# SPDX-License-Identifier: Apache-2.0
"""CMSSW's SonicTriton (sonic_triton.py) against our server: events, deadlines, shared memory, ragged batches, choice of servers."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest

from tests.clients.conftest import Asked
from tests.clients.networks import WAIT_S, Network
from tests.clients.sonic_triton import Arrays, Client, ProductError, Service, pseudo_asynchronous, retried
from tests.reference import repository, servers
from tests.reference.servers import Served
from tests.support.waiting import holds_within

WAYS = [
    ("sync", None),
    ("async", None),
    ("async", grpc.Compression.Gzip),
    ("pseudo", None),
    ("pseudo", grpc.Compression.Deflate),
]


def run(client: Client, mode: str, events: Sequence[Arrays]) -> Sequence[Arrays]:
    if mode == "async":
        return client.several(events)
    return pseudo_asynchronous(client, events) if mode == "pseudo" else [client.sync(event) for event in events]


@pytest.mark.parametrize(("mode", "compression"), WAYS)
def test_events(network: Network, mode: str, compression: grpc.Compression | None) -> None:
    """Channels of an event are the batch; what `verbose` prints is what these events cost and no more."""
    with Service({"it": network.server.grpc}, verbose=True) as service:
        stub = service.stubs[service.server_of(network.model)]
        client = Client(stub, network.model, timeout_s=WAIT_S, compression=compression)
        assert client.inputs[network.given].shape == network.rows.shape[1:]
        assert client.outputs[network.wanted].shape == (1,)
        parts = np.split(network.rows, [1, 8, 100])
        before, began_ns = client.status(), time.monotonic_ns()
        answers = run(client, mode, [{network.given: part} for part in parts])
        spent, wall_ns = client.status().since(before), time.monotonic_ns() - began_ns
    network.check(network.rows, np.concatenate([answer[network.wanted] for answer in answers]))
    assert (spent.successes, spent.failures, spent.inferences) == (len(parts), 0, len(network.rows))
    assert 1 <= spent.executions <= len(parts)
    assert 0 < spent.queue_ns + spent.compute_ns <= spent.total_ns <= len(parts) * wall_ns


def test_a_batch_larger_than_the_server_takes_is_refused_on_either_side(network: Network) -> None:
    with Service({"it": network.server.grpc}) as service:
        client = Client(service.stubs["it"], network.model, timeout_s=WAIT_S)
        too_many = {network.given: np.zeros((client.most + 1, network.rows.shape[1]), np.float32)}
        with pytest.raises(ProductError, match="batch size"):
            client.sync(too_many)
        limit, client.most = client.most, client.most + 1
        with pytest.raises(grpc.RpcError) as caught:
            client.sync(too_many)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"inference request batch-size must be <= {limit} for '{network.model}'" in str(caught.value.details())
        network.check(network.rows[:1], client.sync({network.given: network.rows[:1]})[network.wanted])


def test_an_event_past_its_deadline_leaves_the_queue(hypersonic: Served) -> None:
    """The one that runs is not stopped; the one behind it is never run, and the next finds the model as it was."""
    with Service({"it": hypersonic.grpc}) as service:
        patient, hurried = (Client(service.stubs["it"], "slow", timeout_s=t) for t in (WAIT_S, 0.2))
        before = patient.status()
        running = patient.asynchronous({"INPUT0": np.array([[2000]], np.int32)})
        patient.status()  # one round trip later it is there
        late = [{"INPUT0": np.array([[i]], np.int32)} for i in range(3)]
        for waiting in [hurried.asynchronous(event) for event in late]:
            with pytest.raises(grpc.RpcError) as caught:
                waiting.result(WAIT_S)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert running.result(WAIT_S)["OUTPUT0"].item() == 2000
        assert patient.sync({"INPUT0": np.array([[7]], np.int32)})["OUTPUT0"].item() == 7
        spent = patient.status().since(before)
    assert (spent.inferences, spent.successes, spent.failures) == (2, 2, 3)


def test_shared_memory_of_a_local_server(network: Network) -> None:
    with Service({"it": network.server.grpc}) as service:
        client = Client(service.stubs["it"], network.model, timeout_s=WAIT_S)
        sizes = {network.given: network.rows.nbytes, network.wanted: len(network.rows) * 4}
        with client.regions(sizes) as regions:
            for rows in (network.rows, network.rows[:3]):
                network.check(rows, client.by_memory({network.given: rows}, regions)[network.wanted])


def test_ragged_batches_are_a_request_for_each_entry(custom_identity_int32: Asked) -> None:
    with Service({"it": custom_identity_int32.server.grpc}) as service:
        client = Client(service.stubs["it"], custom_identity_int32.model, timeout_s=WAIT_S)
        assert client.inputs["INPUT0"].shape == (-1,)
        before = client.status()
        entries = [np.arange(n, dtype=np.int32)[None] for n in (1, 100, 0, 17)]
        for x, answer in zip(entries, client.several([{"INPUT0": x} for x in entries]), strict=True):
            np.testing.assert_array_equal(answer["OUTPUT0"], x)
        spent = client.status().since(before)
    assert (spent.inferences, spent.successes, spent.failures) == (len(entries), len(entries), 0)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_servers_are_found_by_their_index_and_one_that_is_down_is_skipped(
    hypersonic: Served, card: Served, nobody: str
) -> None:
    with Service({"down": nobody, "cpu": hypersonic.grpc, "card": card.grpc}) as service:
        assert set(service.skipped) == {"down"}
        assert service.models["card"] == ["facile"]
        assert service.server_of("facile_onnx", preferred="card") == "cpu"
        assert service.server_of("facile", preferred="card") == "card"
        assert service.server_of("facile") == "cpu"
        assert service.best_server("facile", without=["cpu"]) == "card"
        with pytest.raises(ProductError, match="no server has"):
            service.server_of("nope")


def test_failures_send_events_to_another_server(hypersonic: Served, tmp_path: Path) -> None:
    """The chain of retries: the same server, the best of the others, the fallback server, which loads the model for that."""
    models = repository.write(tmp_path / "models", {"simple_int8": repository.addsub("INT8")})
    a, b = np.ones((2, 16), np.int8), np.full((2, 16), 2, np.int8)
    event = {"INPUT0": a, "INPUT1": b}
    with (
        servers.hypersonic(tmp_path, models, "--model-control-mode=explicit") as fallback,
        Service({"it": hypersonic.grpc, "fallback": fallback.grpc}) as service,
    ):
        assert service.best_server("simple_int8") == "it"  # on the other it is not loaded
        client = Client(service.stubs["it"], "simple_int8", timeout_s=WAIT_S)
        service.unload("it", "simple_int8")
        try:
            again = partial(client.sync, event)
            with pytest.raises(ProductError, match=r"\['UNAVAILABLE', 'UNAVAILABLE'\]|\['NOT_FOUND', 'NOT_FOUND'\]"):
                retried([again, again])

            def fall_back() -> Arrays:
                service.load("fallback", "simple_int8")
                return Client(service.stubs["fallback"], "simple_int8", timeout_s=WAIT_S).sync(event)

            np.testing.assert_array_equal(retried([again, again, fall_back])["OUTPUT0"], a + b)
            service.unload("fallback", "simple_int8")
        finally:
            service.load("it", "simple_int8")
        np.testing.assert_array_equal(client.sync(event)["OUTPUT0"], a + b)


def test_cms_triton_starts_waits_and_sees_ports_that_are_taken(tmp_path: Path) -> None:
    """The options of the script, the line it waits for, the words by which it knows to try other ports, and its end."""
    config = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
    models = repository.write(tmp_path / "models", {"simple": repository.addsub("INT32", config)})
    local = [f"--{port}-address=127.0.0.1" for port in ("http", "grpc", "metrics")]  # the script leaves them as they are
    logs = [f"--log-{level}=1" for level in ("verbose", "error", "warning", "info")]

    def start(log: Path, *ports: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "hypersonic.cli", "serve", *ports, *local, f"--model-repository={models}", *logs]
        with log.open("wb") as out:
            return subprocess.Popen(argv, stdout=out, stderr=out)

    first = start(tmp_path / "first.log", "--http-port=0", "--grpc-port=0", "--metrics-port=0")
    try:
        line = wait_for(first, tmp_path / "first.log", r"Started GRPCInferenceService at \S+:(\d+)")
        port = line[1]
        second = start(tmp_path / "second.log", "--http-port=0", f"--grpc-port={port}", "--metrics-port=0")
        assert second.wait(WAIT_S) != 0
        assert "Address already in use" in (tmp_path / "second.log").read_text()
        with Service({"it": f"127.0.0.1:{port}"}) as service:
            assert service.models["it"] == ["simple"]
    finally:
        first.send_signal(signal.SIGTERM)
    assert first.wait(WAIT_S) == 0


def wait_for(process: subprocess.Popen[bytes], log: Path, pattern: str) -> re.Match[str]:
    """Return the first match in the log; fail with the log if the process ends first or nothing matches in time."""
    holds_within(lambda: process.poll() is not None or re.search(pattern, log.read_text()), WAIT_S)
    match = re.search(pattern, log.read_text())
    assert match, log.read_text()
    return match
