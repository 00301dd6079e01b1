# SPDX-License-Identifier: Apache-2.0
"""Several tritonservers with the fpga backend behind the real Envoy, with the configuration that is shipped for them."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from hypersonic.client import Client
from tests.deploy.envoy import farm
from tests.server.backends.fpga.repositories import Repository, linked
from tests.support import environments
from tests.support.server_program import Program
from tests.support.triton_program import triton_program
from tests.triton.rows import ask, expected, rows_of

pytestmark = pytest.mark.whole("triton", "client", "deploy/envoy", "sim/emu", "tests/deploy/envoy/farm.py")

#: of each kind of client
REQUESTS = 800
CLIENTS = 8


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, image: bytes) -> Path:
    """A repository with the test kernel on two compute units."""
    environments.envoy()
    repository = Repository(tmp_path_factory.mktemp("models"))
    repository.publish("m", linked(image, 2))
    return repository.place


@contextmanager
def servers(place: Path, count: int) -> Iterator[list[Program]]:
    with ExitStack() as stack:
        yield [stack.enter_context(triton_program(f"--model-repository={place}")) for _ in range(count)]


def crowd(address: str, at: int, fault: Callable[[], object]) -> tuple[int, list[str]]:
    """Send REQUESTS with tritonclient, which never retries, and cause the fault after `at` answers.

    Each request has other rows, and its answer is compared with them. Returns the answers and the texts of the failures.
    """
    seeds, answered, failures = itertools.count(), itertools.count(1), []

    def client() -> int:
        right = 0
        with grpc.InferenceServerClient(address) as connected:
            while (seed := next(seeds)) < REQUESTS:
                x = rows_of(1 + seed % 40, seed)
                try:
                    np.testing.assert_array_equal(ask(connected, x), expected(x))
                except InferenceServerException as error:
                    failures.append(str(error))
                    continue
                right += 1
                if next(answered) == at:
                    fault()
        return right

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(each.result() for each in [pool.submit(client) for _ in range(CLIENTS)]), failures


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_of_two_that_ends_under_load_loses_almost_no_request_and_none_of_our_client(
    place: Path, tmp_path: Path, how: signal.Signals, record_property: Callable[[str, object], None]
) -> None:
    """A request whose answer had begun cannot be sent again by Envoy."""
    with (
        servers(place, 2) as running,
        farm.envoy(tmp_path / "envoy", [each.grpc for each in running], options=("--server", "triton")) as edge,
        Client(edge.address) as client,
    ):
        with ThreadPoolExecutor(1) as pool:
            events = [rows_of(20, 10_000 + seed) for seed in range(REQUESTS)]
            ours = pool.submit(lambda: list(client.model("m").map(events)))
            answered, failures = crowd(edge.address, REQUESTS // 3, lambda: running[0].process.send_signal(how))
            results = ours.result()
        counts = edge.requests()
        retries = edge.stat("cluster.servers.upstream_rq_retry")
    record_property("noteworthy", f"{len(failures)} of {REQUESTS} failed with tritonclient; {retries} retries by Envoy")
    assert answered + len(failures) == REQUESTS
    assert len(failures) <= 2, failures
    for event, result in zip(events, results, strict=True):
        np.testing.assert_array_equal(result.output, expected(event))
    assert min(counts.values()) > 0, counts
