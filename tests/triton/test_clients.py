# SPDX-License-Identifier: Apache-2.0
"""Programs of the SONIC programme in front of tritonserver with the fpga backend: our client, and perf_analyzer."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc

from hypersonic.client import (
    AsyncClient,
    Client,
    Fallback,
    InputError,
    LocalServer,
    OtherServer,
    RequestError,
    SameServer,
    UnknownModelError,
    WrongAnswersError,
)
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.hls.row import Row
from tests.clients.perf_report import Analyzer, analyze
from tests.host.conftest import manifest_of
from tests.reference import environment
from tests.server.backends.fpga.repositories import Repository, linked
from tests.support import environments
from tests.support.server_program import Program
from tests.support.triton_program import triton_program
from tests.support.waiting import wait_until
from tests.triton.rows import COLUMNS, POISON, Rows, expected, rows_of

pytestmark = pytest.mark.whole("triton", "client", "host/errors.py", "sim/emu", "tests/clients/perf_report.py")

#: rows of a slot; larger requests are split
SLOT_ROWS = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, image: bytes) -> Iterator[Program]:
    repository = Repository(tmp_path_factory.mktemp("models"))
    repository.publish("m", linked(image, 2))
    with triton_program(f"--model-repository={repository.place}") as running:
        yield running


def test_our_client_gets_the_answer_to_each_event_of_a_map(server: Program) -> None:
    sizes = [1, 2, SLOT_ROWS, SLOT_ROWS + 1, 500] * 20
    with Client(server.grpc) as client:
        model = client.model("m")
        assert (model.inputs[0].name, model.inputs[0].datatype, model.inputs[0].shape) == ("x", "FP32", (COLUMNS,))
        events = [rows_of(size, seed) for seed, size in enumerate(sizes)]
        results = list(model.map(events))
        (counted,) = client.statistics().servers
    for event, result in zip(events, results, strict=True):
        np.testing.assert_array_equal(result.output, expected(event))
    assert {result.server for result in results} == {server.grpc}
    assert (counted.sent, counted.failed) == (len(sizes), 0)
    assert "m" in counted.models, "tritonserver's own times of the model"


def test_our_asyncio_client_gets_its_answers(server: Program) -> None:
    async def events() -> None:
        async with AsyncClient(server.grpc) as client:
            model = client.model("m")
            given = [rows_of(40, seed) for seed in range(20)]
            answers = await asyncio.gather(*(model.infer(x) for x in given))
        for x, answer in zip(given, answers, strict=True):
            np.testing.assert_array_equal(answer, expected(x))

    asyncio.run(events())


def test_our_client_s_streams_get_their_answers(server: Program) -> None:
    with Client(server.grpc) as client:
        for seed in range(3):
            x = rows_of(SLOT_ROWS + 1, seed)
            (result,) = client.model("m").stream(x)
            np.testing.assert_array_equal(result.output, expected(x))


def test_our_client_refuses_rows_that_do_not_fit_and_names_the_server_s_errors(server: Program) -> None:
    poison = rows_of(3, 1)
    poison[1, 0] = POISON
    with Client(server.grpc) as client:
        model = client.model("m")
        with pytest.raises(InputError, match=r"has shape \(3, 17\), expected \(rows, 18\)"):
            model.infer(rows_of(3, 1)[:, 1:])
        with pytest.raises(UnknownModelError, match="nobody"):
            client.model("nobody").infer({"x": rows_of(3, 1)})
        with pytest.raises(RequestError, match="the memory responded to a read with an error") as error:
            model.infer(poison)
        assert error.value.server == server.grpc
        np.testing.assert_array_equal(model.infer(rows_of(3, 2)), expected(rows_of(3, 2)))


def test_events_of_a_server_that_is_killed_are_computed_by_the_fallback_from_the_same_repository(
    image: bytes, tmp_path: Path
) -> None:
    """The fallback is `hypersonic serve` on this host."""
    repository = Repository(tmp_path / "models")
    repository.publish("m", linked(image))
    retry = (SameServer(tries=1), OtherServer(tries=1), Fallback(LocalServer(repository.place)))
    events = [rows_of(20, seed) for seed in range(60)]
    with triton_program(f"--model-repository={repository.place}") as server, Client(server.grpc, retry=retry) as client:

        def given() -> Iterator[Rows]:
            for number, event in enumerate(events):
                if number == len(events) // 2:
                    server.process.kill()
                yield event

        results = list(client.model("m").map(given()))
        statistics = client.statistics()
    for event, result in zip(events, results, strict=True):
        np.testing.assert_array_equal(result.output, expected(event))
    assert {result.server for result in results} == {server.grpc, "fallback"}
    assert statistics.answered + statistics.fallback == len(events)
    assert statistics.fallback >= len(events) // 2


def test_our_client_notices_an_answer_that_does_not_fit_the_model(image: bytes, tmp_path: Path) -> None:
    """The model is replaced by one whose output has another name."""
    repository = Repository(tmp_path / "models")
    repository.publish("m", linked(image))
    options = ("--model-control-mode=explicit", "--load-model=m")
    x = rows_of(20, 1)
    with (
        triton_program(f"--model-repository={repository.place}", *options) as server,
        Client(server.grpc, retry=(SameServer(tries=1),)) as client,
        grpc.InferenceServerClient(server.grpc) as control,
    ):
        model = client.model("m")
        np.testing.assert_array_equal(model.infer(x), expected(x))
        xclbin = linked(image)
        manifest = manifest_of(xclbin)
        (output,) = manifest.outputs.tensors
        renamed = replace(manifest, model="m", outputs=Row((replace(output, name="z"),)))
        shutil.rmtree(repository.place / "m")
        publish(repository.place, xclbin, renamed, config_pbtxt(renamed))
        control.load_model("m")
        with pytest.raises(WrongAnswersError, match="has the outputs 'z', expected 'y'"):
            model.infer(x)


@pytest.fixture(scope="module")
def published_binary() -> environments.Program:
    return environment.perf_analyzer()


WAYS = {
    "async": ("-i", "grpc", "-a"),
    "streaming": ("-i", "grpc", "-a", "--streaming"),
    "http": ("-i", "http", "--sync"),
    "shared memory": ("-i", "grpc", "--shared-memory", "system", "--output-shared-memory-size", "4096"),
}


@pytest.mark.parametrize("way", WAYS)
def test_perf_analyzer_measures_a_model_on_a_card(
    server: Program, published_binary: environments.Program, tmp_path: Path, record_property: Callable[[str, object], None],
    way: str,
) -> None:  # fmt: skip
    """tritonserver counts each of its requests, and each row, on the cards."""
    url = server.ports["HTTPService" if "http" in WAYS[way] else "GRPCInferenceService"]
    options = ("-m", "m", "-u", url, "-b", "20", "--concurrency-range", "2", "--request-count", "40", *WAYS[way])
    with grpc.InferenceServerClient(server.grpc) as client:
        before = counts(client)
        (measured,) = analyze(Analyzer(published_binary, record_property, []), tmp_path, *options)
        wait_until(lambda: counts(client) == (before[0] + 40, before[1] + 40 * 20), 60)
    assert measured.requests == 40
    assert 20 <= measured.server.successes <= 40, measured.text
    assert measured.server.parts_us["compute infer"] > 0, measured.text


def counts(client: grpc.InferenceServerClient) -> tuple[int, int]:
    """The model's requests and rows since its load."""
    (statistics,) = client.get_inference_statistics("m").model_stats
    return statistics.inference_stats.success.count, statistics.inference_count
