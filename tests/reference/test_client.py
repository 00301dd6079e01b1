# SPDX-License-Identifier: Apache-2.0
"""This project's client gets the same answers from the real server and from ours, and loses none when servers fail."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from bench.client_faults import failing, proxy_of, send
from hypersonic.client import Client, InputError, UnknownModelError
from tests.reference import repository, servers
from tests.reference.pair import Pair, Pairs

pytestmark = pytest.mark.whole("client", "server", "tests/reference")

SIDES = ("triton", "hypersonic")


@pytest.mark.parametrize("side", SIDES)
def test_arrays_of_all_kinds_come_back(pair: Pairs, side: str) -> None:
    address = getattr(_running(pair), side).wire.served.grpc
    rng = np.random.default_rng(4)
    with Client(address) as client:
        identity = client.model("identity")
        for tensor in identity.inputs:
            values = np.array([b"", b"abc", bytes(300)], object) if tensor.datatype == "BYTES" else None
            if values is None:
                values = rng.integers(0, 2, 5).astype(tensor.dtype)
            name = tensor.name.replace("IN_", "OUT_")
            np.testing.assert_array_equal(identity.infer({tensor.name: values}, outputs=[name]), values)


@pytest.mark.parametrize("side", SIDES)
def test_splitting_map_and_statistics(pair: Pairs, side: str) -> None:
    address = getattr(_running(pair), side).wire.served.grpc
    with Client(address) as client:
        model = client.model("addsub_int32")
        size = model.max_batch_size
        a = np.arange(16 * (3 * size + 1), dtype=np.int32).reshape(-1, 16)
        outputs = model.infer({"INPUT0": a, "INPUT1": a})
        np.testing.assert_array_equal(outputs["OUTPUT0"], 2 * a)
        for result in model.map({"INPUT0": a[n : n + 1], "INPUT1": a[:1]} for n in range(20)):
            np.testing.assert_array_equal(result.outputs["OUTPUT1"], a[result.index : result.index + 1] - a[:1])
        times = client.statistics().servers[0].models["addsub_int32"]
        assert times.requests == 4 + 20
        assert times.infer_us > 0


@pytest.mark.parametrize("side", SIDES)
def test_errors_are_of_the_same_kind(pair: Pairs, side: str) -> None:
    address = getattr(_running(pair), side).wire.served.grpc
    with Client(address) as client:
        with pytest.raises(UnknownModelError, match="has no model 'nobody'"):
            client.model("nobody").infer(np.zeros(1))
        with pytest.raises(UnknownModelError):
            client.model("addsub", "77").infer(np.zeros((1, 16), np.float32))
        with pytest.raises(InputError, match="model 'addsub' has no output 'OUTPUT7', only OUTPUT0, OUTPUT1"):
            client.model("addsub").infer({"INPUT0": np.ones((1, 16)), "INPUT1": np.ones((1, 16))}, outputs=["OUTPUT7"])


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("side", SIDES)
def test_no_request_is_lost_when_servers_fail(tmp_path_factory: pytest.TempPathFactory, side: str) -> None:
    with ExitStack() as stack:
        started = []
        for _ in range(3):
            directory = tmp_path_factory.mktemp(side)
            written = repository.write(directory / "models", {"addsub": repository.MAIN["addsub"]})
            started.append(stack.enter_context(getattr(servers, side)(directory, written)))
        addresses = [started[0].grpc, started[1].grpc, stack.enter_context(proxy_of(started[2].grpc, failing()))]
        client = stack.enter_context(Client(addresses))
        events = [dict.fromkeys(("INPUT0", "INPUT1"), np.full((3, 16), n, np.float32)) for n in range(20)]
        figures = send(client, "addsub", events, 1000, [started[0].process.kill, started[1].process.terminate])
    assert (figures["lost"], figures["answered_twice"], figures["wrong"]) == (0, 0, 0)
    assert all(failed > 0 for failed in figures["failed_attempts"])


def _running(pairs: Pairs) -> Pair:
    return pairs.running()
