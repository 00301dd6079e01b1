# SPDX-License-Identifier: Apache-2.0
"""Streams that do nothing hold no thread, and those that end leave none behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.large_answers import write_models
from tests.faults.raw import RawGrpc, request
from tests.faults.site import Site, X, infer, site

STREAMS = 200


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Site]:
    with site(write_models(tmp_path / "models")) as started:
        yield started


def threads(running: Site) -> int:
    return len(list(Path(f"/proc/{running.program.process.pid}/task").iterdir()))


def streams(running: Site) -> float:
    return running.metrics()["hypersonic_streams"]


def test_streams_that_idle_or_have_ended_hold_no_thread(running: Site) -> None:
    """Half of them have had an answer, a quarter has sent half a message."""
    with running.client() as client:
        for _ in range(20):
            infer(client, "triple", X)
        assert streams(running) == 0  # as a thread of HTTP has answered
        base = threads(running)
        with ExitStack() as stack:
            for n in range(STREAMS):
                raw = stack.enter_context(RawGrpc(running.address("GRPCInferenceService")))
                if n % 4 == 0:
                    raw.begin("ModelStreamInfer")
                elif n % 4 == 1:
                    raw.half("ModelStreamInfer")
                else:
                    raw.message(raw.begin("ModelStreamInfer"), request("triple", X))
            running.wait_for(lambda: streams(running) == STREAMS)
            running.wait_for(lambda: answered(running) == 20 + STREAMS / 2)
            running.program.wait_for(lambda: threads(running) < base + 20, 60)
            infer(client, "triple", X)
        running.wait_for(lambda: streams(running) == 0)
        running.program.wait_for(lambda: threads(running) < base + 20, 60)


def answered(running: Site) -> float:
    metrics = running.metrics()
    return sum(value for name, value in metrics.items() if name.startswith("nv_inference_request_success{"))
