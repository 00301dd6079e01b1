# SPDX-License-Identifier: Apache-2.0
"""Offers loads to the servers of a client, and measures them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from hypersonic.client.load.errors import LoadError
from hypersonic.client.load.offer import Closed, Offer, Window, schedule
from hypersonic.client.load.point import Point, ServerMeans, of_closed, of_open
from hypersonic.client.load.recorder import Recorder
from hypersonic.client.model import Model
from hypersonic.client.pool.member import State
from hypersonic.client.server_times import Sums, read_sums
from hypersonic.client.settings import Arrays, Limits, Retry, Settings, Timeout
from hypersonic.client.sync import Client

#: an open loop gives up when so many requests, or so many bytes of them, are without an answer
MOST_OUTSTANDING, MOST_OUTSTANDING_BYTES = 20_000, 1 << 30


def load_settings(timeout_s: float = 60.0) -> Settings:
    """Return the settings of a client that measures: no limits of requests in flight, and one attempt for each request.

    A request that would be sent again would hide a failure and count as a long latency.

    Args:
        timeout_s: of a request.
    """
    unlimited = Limits(in_flight=1 << 30, bytes_in_flight=1 << 62)
    return Settings(timeout=Timeout(total_s=timeout_s), limits=unlimited, retry=Retry(()))


def sweep(
    client: Client,
    model: Model,
    requests: Sequence[Arrays],
    offers: Iterable[Offer],
    window: Window,
    begin: Callable[[Offer], None] = lambda _offer: None,
) -> Iterator[Point]:
    """Yield the figures of each load; end after a rate that was not kept, and after a load of which no request was answered.

    The other arguments are those of measure().

    Args:
        begin: called with each load before it is offered.
    """
    for offer in offers:
        begin(offer)
        point = measure(client, model, requests, offer, window)
        yield point
        if not point.kept or (point.failed and not point.answered):
            return


def measure(client: Client, model: Model, requests: Sequence[Arrays], offer: Offer, window: Window) -> Point:
    """Offer one load and return its figures.

    The requests of the warm-up stay in flight when the window begins, so that the window shows the steady state. Returns after
    all requests have ended. Failed requests are counted; raises LoadError if there are no requests, and what submit() raises.

    Args:
        client: made with load_settings().
        requests: the inputs of each request, with equal numbers of rows; they are sent in turn.
    """
    if not requests:
        raise LoadError("no requests were given, expected one or more")
    rows = len(next(iter(requests[0].values()))) if model.max_batch_size else 1
    recorder = Recorder()
    wanted, timeout_s = (model.name, ""), client.settings.timeout.total_s
    if isinstance(offer, Closed):
        with _Sending(recorder, timeout_s, lambda: _send_closed(model, requests, offer, recorder)):
            recorder.enough.wait(window.warm_up_s)
            before = _sums(client, wanted)
            begin_ns = recorder.mark(window.requests)
            recorder.enough.wait(None if window.requests else window.duration_s)
            end_ns = time.perf_counter_ns()
            server = _means(before, _sums(client, wanted))
        return of_closed(offer, rows, recorder.samples(), (begin_ns, end_ns), window.requests, server)
    starts_s, end_s = schedule(offer, window)
    first_ns = time.perf_counter_ns()
    due_ns = [first_ns + int(start * 1e9) for start in starts_s]
    with _Sending(recorder, timeout_s, lambda: _send_open(model, requests, due_ns, recorder)):
        recorder.enough.wait(window.warm_up_s)
        before = _sums(client, wanted)
        recorder.enough.wait()
        server = _means(before, _sums(client, wanted))
    span_ns = first_ns + int(window.warm_up_s * 1e9), first_ns + int(end_s * 1e9)
    return of_open(offer, rows, recorder.samples(), span_ns, server, gave_up=recorder.backlog_limit_reached)


class _Sending:
    """Runs a sender on a thread of its own. Leaving the context ends it and, without an exception, waits for the answers."""

    def __init__(self, recorder: Recorder, timeout_s: float, send: Callable[[], None]) -> None:
        self._recorder, self._timeout_s, self._send = recorder, timeout_s, send
        self._thread = threading.Thread(target=self._run, name="hypersonic-load", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        recorder = self._recorder
        recorder.stop.set()
        if kind is None:
            self._thread.join()
            recorder.wait_idle(self._timeout_s + 5)
            if recorder.fault is not None:
                raise recorder.fault

    def _run(self) -> None:
        try:
            self._send()
        except BaseException as error:  # noqa: BLE001 - raised on the measuring thread
            self._recorder.fault = error
        finally:
            self._recorder.enough.set()


def _send_closed(model: Model, requests: Sequence[Arrays], offer: Closed, recorder: Recorder) -> None:
    """Keep the requests in flight until `stop`."""
    slots = threading.Semaphore(offer.concurrency)

    def follow(ended: Callable[[Future[Any]], None]) -> Callable[[Future[Any]], None]:
        def both(future: Future[Any]) -> None:
            ended(future)
            slots.release()

        return both

    for inputs in itertools.cycle(requests):
        slots.acquire()
        if recorder.stop.is_set():
            return
        _submit(model, inputs, recorder, follow)


def _send_open(model: Model, requests: Sequence[Arrays], due_ns: Sequence[int], recorder: Recorder) -> None:
    """Send each request when it is due, or at once if that time is past."""
    largest = max(sum(array.nbytes for array in inputs.values()) for inputs in requests)
    most = min(MOST_OUTSTANDING, max(1, MOST_OUTSTANDING_BYTES // max(1, largest)))
    for due, inputs in zip(due_ns, itertools.cycle(requests), strict=False):
        wait_s = (due - time.perf_counter_ns()) * 1e-9
        if recorder.stop.wait(wait_s) if wait_s > 0 else recorder.stop.is_set():
            return
        if recorder.outstanding >= most:
            recorder.backlog_limit_reached = True
            return
        _submit(model, inputs, recorder, lambda ended: ended, due)


def _submit(
    model: Model,
    inputs: Arrays,
    recorder: Recorder,
    callback: Callable[[Callable[[Future[Any]], None]], Callable[[Future[Any]], None]],
    due_ns: int | None = None,
) -> None:
    ended = recorder.begin(due_ns)
    try:
        future = model.submit(inputs, copy=False)
    except BaseException as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        ended(failed)
        raise
    future.add_done_callback(callback(ended))


def _sums(client: Client, model: tuple[str, str]) -> dict[str, Sums]:
    """The servers' own sums for the model, by the server's name; only of servers that report them."""
    up = [member for member in client.engine.pool.members if member.state is State.UP]
    told = {member.name: read_sums(member, model, client.settings.timeout.connect_s) for member in up}
    return {name: sums for name, sums in told.items() if sums is not None}


def _means(before: dict[str, Sums], after: dict[str, Sums]) -> ServerMeans | None:
    """The means of all requests between two readings; None if no server has reported both, or none has answered a request."""
    both = [name for name in before if name in after]
    added = [sum(after[name][place] - before[name][place] for name in both) for place in range(6)]
    requests, executions, queue_ns, *compute_ns = added
    if requests <= 0:
        return None
    return ServerMeans(requests, executions, queue_ns / requests * 1e-6, sum(compute_ns) / requests * 1e-6)
