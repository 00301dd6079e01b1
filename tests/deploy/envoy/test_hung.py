# SPDX-License-Identifier: Apache-2.0
"""Servers that hang or die with hundreds of requests in flight, and servers that are only short of processor time."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import envoy, servers, write_rows
from tests.server.python_serving import serving
from tests.support.server_program import Program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/envoy")

JOBS = 400
REQUESTS = 2400
#: eight requests at a time on three servers, each 80 ms: with 400 jobs, every server is saturated all the time
CONFIG = "instance_group [ { count: 8 kind: KIND_CPU } ]"
RUN_MS = 80
LONG_MS = 30_000
Record = Callable[[str, object], None]


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_of_400_jobs_none_loses_a_request_when_one_of_three_saturated_servers_stops(
    how: signal.Signals, tmp_path: Path, record_property: Record
) -> None:
    """A server that hangs keeps its connections, and soon has a request of nearly every job: only a ping tells."""
    repository = write_rows(tmp_path / "models", RUN_MS, CONFIG)
    with (
        servers(repository, repository, repository) as running,
        envoy(tmp_path / "e", [each.grpc for each in running], options=("--jobs", str(JOBS))) as edge,
    ):
        stop = {REQUESTS // 3: lambda: running[0].process.send_signal(how)}
        outcome = load.jobs(edge.address, JOBS, REQUESTS, stop)
        retries, pings = (edge.stat(f"cluster.servers.{name}") for name in ("upstream_rq_retry", "http2.keepalive_timeout"))
    record_property("noteworthy", f"{how.name}: {len(outcome.failures)} of {outcome.asked} failed, {retries} retries by Envoy")
    assert (outcome.asked, outcome.failures, outcome.strangers) == (REQUESTS, [], 0)
    assert retries > 0
    assert (pings > 0) is (how is signal.SIGSTOP)


@contextmanager
def starved(server: Program, stopped_s: float, running_s: float) -> Iterator[None]:
    """Give a server the processor for `running_s` at a time, and then not for `stopped_s`, until the context ends."""
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            server.process.send_signal(signal.SIGSTOP)
            over.wait(stopped_s)
            server.process.send_signal(signal.SIGCONT)
            over.wait(running_s)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_server_that_gets_the_processor_only_a_tenth_of_the_time_is_not_taken_for_hung(tmp_path: Path) -> None:
    """A run of 30 s is in flight all the time: two pings come, and each is answered when the server runs again."""
    with (
        servers(write_rows(tmp_path / "models", LONG_MS)) as (server,),
        envoy(tmp_path / "e", [server.grpc]) as edge,
        load.connect(edge.address) as client,
        starved(server, 1.35, 0.15),
    ):
        rows = load.unique_rows()
        assert np.array_equal(load.infer(client, rows), load.expected(rows))
        assert edge.stat("cluster.servers.http2.keepalive_timeout") == 0
        assert edge.stat("cluster.servers.upstream_rq_retry") == 0


def test_a_server_whose_python_stands_still_for_15_s_answers_pings(tmp_path: Path) -> None:
    """The server is in this process, where one thread keeps the interpreter's lock: between two pings are 13 s at most."""
    with (
        serving(write_rows(tmp_path / "models", LONG_MS)) as server,
        envoy(tmp_path / "e", [server.addresses["GRPCInferenceService"]]) as edge,
        load.connect(edge.address) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        rows = load.unique_rows()
        asked = pool.submit(load.infer, client, rows)
        wait_until(lambda: any(model.working for model in server.repository))
        ctypes.PyDLL(None).usleep(15_000_000)
        assert np.array_equal(asked.result(), load.expected(rows))
        assert edge.stat("cluster.servers.http2.keepalive_timeout") == 0
        assert edge.stat("cluster.servers.upstream_rq_retry") == 0
