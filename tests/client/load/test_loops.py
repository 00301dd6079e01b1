# SPDX-License-Identifier: Apache-2.0
"""Closed and open loops against a real gRPC server. Nothing here depends on how fast this machine is."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import Client, InputError
from hypersonic.client.load import Closed, LoadError, Open, Window, load_settings, loops, measure, random_requests, sweep
from tests.support.scripted_server import Script, fail, scripted_server, wait
from tests.support.waiting import wait_until


class Service:
    """Answers after `seconds`; remembers how many requests it had at a time, and what it was sent.

    gather: the first answers wait until so many requests are there at a time.
    """

    def __init__(self, seconds: float, gather: int = 1) -> None:
        self.seconds, self.gather = seconds, gather
        self.gathered = threading.Event()
        self.now = self.most = 0
        self.sent: Counter[bytes] = Counter()
        self.lock = threading.Lock()

    def __call__(self, request: Any, _context: grpc.ServicerContext) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.sent[request.raw_input_contents[0]] += 1
            if self.now == self.gather:
                self.gathered.set()
        self.gathered.wait(30)
        time.sleep(self.seconds)
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_a_closed_loop_keeps_exactly_its_requests_in_flight(concurrency: int) -> None:
    service = Service(0.02, gather=concurrency)
    with scripted_server(Script(infer=service)) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        requests = random_requests(model.spec, 2, count=5)
        point = measure(client, model, requests, Closed(concurrency), Window(requests=30, warm_up_s=0.1))
    assert service.most == concurrency
    assert (point.answered, point.failed, point.rows) == (30, 0, 2)
    assert point.latency.p50 >= 20
    assert point.answered - concurrency <= concurrency * point.seconds / 0.02, "the first answers are to requests from before"
    assert point.rate == pytest.approx(30 / point.seconds)
    assert sum(service.sent.values()) >= 30 + concurrency - 1
    # the requests are sent in turn
    assert set(service.sent) == {request["x"].tobytes() for request in requests}
    assert max(service.sent.values()) - min(service.sent.values()) <= 1


@pytest.mark.parametrize("arrivals", ["poisson", "constant"])
def test_an_open_loop_sends_every_request_of_its_schedule(arrivals: Any) -> None:
    service = Service(0.01)
    with scripted_server(Script(infer=service)) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        point = measure(client, model, random_requests(model.spec, 1), Open(200, arrivals), Window(requests=50, warm_up_s=0))
    assert sum(service.sent.values()) == 50
    assert point.answered + point.failed == 50
    assert point.failed == 0
    assert point.latency.p50 >= 10


def test_a_rate_above_the_services_is_not_kept_and_ends_the_sweep() -> None:
    one_at_a_time = threading.Lock()

    def infer(_request: object, _context: object) -> None:
        with one_at_a_time:
            time.sleep(0.05)

    with scripted_server(Script(infer=infer)) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        begun: list[str] = []
        window = Window(requests=60, warm_up_s=0)
        offers = [Open(200, "constant"), Open(400, "constant")]
        points = list(sweep(client, model, random_requests(model.spec, 1), offers, window, lambda o: begun.append(str(o))))
    assert begun == ["200 requests/s"]
    (point,) = points
    assert not point.kept
    assert (point.answered, point.failed) == (60, 0)
    assert point.rate <= 20.5
    # the k-th request was due at k / 200 s, and its answer came after k turns of 50 ms
    assert point.latency.p99 >= 59 * (50 - 5) * 0.9


def test_an_open_loop_ends_when_too_many_requests_have_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MOST_OUTSTANDING", 5)
    go = threading.Event()

    def infer(_request: object, _context: object) -> None:
        go.wait(30)

    def release() -> None:
        wait_until(lambda: script.calls["ModelInfer"] >= 5)
        go.set()

    script = Script(infer=infer)
    with scripted_server(script) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        requests = random_requests(model.spec, 1)
        threading.Thread(target=release, daemon=True).start()
        point = measure(client, model, requests, Open(1000, "constant"), Window(requests=500, warm_up_s=0))
    assert not point.kept
    assert script.calls["ModelInfer"] < 500


def test_failures_are_counted_and_are_not_in_the_latencies() -> None:
    turn = Counter[str]()

    def infer(_request: object, context: grpc.ServicerContext) -> None:
        turn["all"] += 1
        if turn["all"] % 3 == 0:
            context.abort(grpc.StatusCode.INTERNAL, "every third fails")
        time.sleep(0.005)

    with scripted_server(Script(infer=infer)) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        point = measure(client, model, random_requests(model.spec, 1), Closed(1), Window(requests=30, warm_up_s=0))
    assert (point.answered, point.failed) == (20, 10)
    assert "INTERNAL: every third fails" in point.error
    assert point.latency.p50 >= 5


def test_a_request_is_sent_once_and_a_load_that_only_fails_ends_the_sweep() -> None:
    script = Script(infer=fail(grpc.StatusCode.INVALID_ARGUMENT, "no such thing"))
    with scripted_server(script) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        requests = random_requests(model.spec, 1)
        (point,) = sweep(client, model, requests, [Closed(1), Closed(2)], Window(requests=5, warm_up_s=0))
        (server,) = client.statistics().servers
    assert (point.answered, point.failed, point.rate) == (0, 5, 0)
    assert (server.retried, server.sent) == (0, script.calls["ModelInfer"])


def test_several_servers_share_the_requests() -> None:
    scripts = [Script(infer=wait(0.01)), Script(infer=wait(0.01))]
    with (
        scripted_server(scripts[0]) as first,
        scripted_server(scripts[1]) as second,
        Client([first, second], load_settings()) as client,
    ):
        model = client.model("double")
        point = measure(client, model, random_requests(model.spec, 1), Closed(8), Window(requests=80, warm_up_s=0.1))
    assert point.answered == 80
    assert all(script.calls["ModelInfer"] > 0 for script in scripts)


def test_a_fault_of_the_sender_is_raised() -> None:
    with scripted_server(Script()) as url, Client(url, load_settings()) as client:
        model = client.model("double")
        for offer in (Closed(2), Open(100)):
            with pytest.raises(InputError, match="has shape"):
                measure(client, model, [{"x": np.zeros((1, 5), np.float32)}], offer, Window(requests=3, warm_up_s=0))
        with pytest.raises(LoadError, match="no requests"):
            measure(client, model, [], Closed(1), Window())
