# SPDX-License-Identifier: Apache-2.0
"""The published binary perf_analyzer 2.51 against our server: every way to send requests, and the server's counts in its report."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tritonclient.grpc as triton

from tests.clients.conftest import Asked
from tests.clients.networks import WAIT_S, Network
from tests.clients.perf_report import CSV_PARTS, Analyzer, Counted, Measurement, analyze
from tests.reference import environment
from tests.reference.servers import Served
from tests.support.environments import Program
from tests.support.waiting import holds_within

REQUESTS = 40
MODES = {"sync": ("--sync",), "async": ("-a",), "streaming": ("-a", "--streaming")}
TWO_AT_ONCE = ("--concurrency-range", "2", "--request-count", str(REQUESTS))


@pytest.fixture(scope="session")
def published_binary() -> Program:
    return environment.perf_analyzer()


@pytest.fixture
def perf_analyzer(published_binary: Program, record_property: Callable[[str, object], None]) -> Analyzer:
    return Analyzer(published_binary, record_property, [])


def grpc(server: Served, model: str) -> tuple[str, ...]:
    return ("-i", "grpc", "-u", server.grpc, "-m", model)


def http(server: Served, model: str) -> tuple[str, ...]:
    return ("-i", "http", "-u", server.http, "-m", model)


@contextmanager
def growing(analyzer: Analyzer, server: Served, model: str, requests: int, batch: int = 1) -> Iterator[None]:
    """The model's statistics grow by so many requests and their inferences, and those of runs that hung; no more and no less."""
    with triton.InferenceServerClient(server.grpc) as client:
        before = _counts(client, model)
        yield

        most = requests * (1 + len(analyzer.hung))

        def as_expected() -> bool:
            count, inferences = _counts(client, model)
            return requests <= count - before[0] <= most and inferences - before[1] == (count - before[0]) * batch

        holds_within(as_expected, WAIT_S)  # a decoupled model's run may end after its answers
        assert as_expected(), (
            f"{requests} to {most} requests, {batch} inferences each: {before} before, {_counts(client, model)} after"
        )


def _counts(client: triton.InferenceServerClient, model: str) -> tuple[int, int]:
    (statistics,) = client.get_inference_statistics(model).model_stats
    return statistics.inference_stats.success.count, statistics.inference_count


def check(measured: Measurement, requests: int, batch: int = 1) -> None:
    """Requests are in the report as the client saw them and as the server did, and the server's times lie within the client's."""
    assert measured.requests == requests, measured.text
    check_counted(measured.server, requests, batch, measured.text)
    assert measured.server.latency_us <= 1.5 * measured.latency_us, measured.text  # means of not quite the same requests
    assert float(measured.row["Inferences/Second"]) > 0
    for part, column in CSV_PARTS.items():
        assert int(measured.row[column]) == measured.server.parts_us[part], measured.text


def check_counted(server: Counted, requests: int, batch: int, text: str) -> None:
    """perf_analyzer asks for the statistics when its first requests are under way: some may be over (the real server's, too)."""
    assert requests // 2 <= server.successes <= requests, text
    assert requests // 2 * batch <= server.inferences <= requests * batch, text
    assert 1 <= server.executions <= requests, text
    assert set(server.parts_us) == {"overhead", *CSV_PARTS}, text
    assert abs(sum(server.parts_us.values()) - server.latency_us) <= len(server.parts_us), text  # each is rounded down
    assert server.parts_us["compute infer"] > 0, text


@pytest.mark.parametrize("mode", MODES)
def test_grpc(perf_analyzer: Analyzer, network: Network, tmp_path: Path, mode: str) -> None:
    options = (*grpc(network.server, network.model), "-b", "100", *TWO_AT_ONCE, *MODES[mode])
    with growing(perf_analyzer, network.server, network.model, REQUESTS, batch=100):
        (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, REQUESTS, batch=100)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_http(perf_analyzer: Analyzer, network: Network, tmp_path: Path, mode: str) -> None:
    options = (*http(network.server, network.model), "-b", "100", *TWO_AT_ONCE, *MODES[mode])
    with growing(perf_analyzer, network.server, network.model, REQUESTS, batch=100):
        (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, REQUESTS, batch=100)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_tensors_in_system_shared_memory(perf_analyzer: Analyzer, network: Network, tmp_path: Path, protocol: str) -> None:
    asked = (grpc if protocol == "grpc" else http)(network.server, network.model)
    options = (*asked, "-b", "100", "--shared-memory", "system", *TWO_AT_ONCE)
    (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, REQUESTS, batch=100)
    with triton.InferenceServerClient(network.server.grpc) as client:
        assert not client.get_system_shared_memory_status().regions, "it takes its regions away"


def test_requests_of_several_threads_are_batched(perf_analyzer: Analyzer, network: Network, tmp_path: Path) -> None:
    options = (*grpc(network.server, network.model), "-b", "1000", "--concurrency-range", "8", "--request-count", "80", "-a")
    (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, 80, batch=1000)
    assert measured.server.executions < 80


def test_windows_of_time_over_several_concurrencies(perf_analyzer: Analyzer, simple: Asked, tmp_path: Path) -> None:
    """As it is mostly used, but that windows are short and any spread is accepted."""
    options = ("-x", "1", "-b", "8", "--concurrency-range", "1:3", "-p", "200", "-s", "999")
    measured = analyze(perf_analyzer, tmp_path, *grpc(simple.server, simple.model), *options)
    assert [each.row["Concurrency"] for each in measured] == ["1", "2", "3"]
    for each in measured:
        assert each.server.successes > 0
        under_way = 2 * 8 * 3  # at either end of the window
        assert abs(each.server.inferences - each.server.successes * 8) <= under_way, each.text


def test_a_rate_of_requests_compressed(perf_analyzer: Analyzer, simple: Asked, tmp_path: Path) -> None:
    rate = ("--request-rate-range", "100", "--request-count", "100", "--request-distribution", "poisson")
    options = (*grpc(simple.server, simple.model), *rate, "-a", "--grpc-compression-algorithm", "gzip")
    (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, 100)


def test_json_tensors(perf_analyzer: Analyzer, simple: Asked, tmp_path: Path) -> None:
    formats = ("--input-tensor-format=json", "--output-tensor-format=json")
    (measured,) = analyze(perf_analyzer, tmp_path, *http(simple.server, simple.model), "-b", "8", *formats, *TWO_AT_ONCE)
    check(measured, REQUESTS, batch=8)


def test_strings(perf_analyzer: Analyzer, simple_string: Asked, tmp_path: Path) -> None:
    options = (*grpc(simple_string.server, simple_string.model), "-b", "8", "--string-data", "7", *TWO_AT_ONCE)
    (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, REQUESTS, batch=8)


@pytest.mark.parametrize("mode", MODES)
def test_sequences(perf_analyzer: Analyzer, simple_sequence: Asked, tmp_path: Path, mode: str) -> None:
    options = ("--sequence-length", "5", "--sequence-length-variation", "0", *TWO_AT_ONCE, *MODES[mode])
    with growing(perf_analyzer, simple_sequence.server, simple_sequence.model, REQUESTS):
        (measured,) = analyze(perf_analyzer, tmp_path, *grpc(simple_sequence.server, simple_sequence.model), *options)
    check(measured, REQUESTS)
    assert f"Sequence count: {REQUESTS // 5}" in measured.text


def test_sequences_of_the_oldest_strategy(perf_analyzer: Analyzer, simple_dyna_sequence: Asked, tmp_path: Path) -> None:
    options = ("--sequence-length", "5", "--sequence-length-variation", "0", *TWO_AT_ONCE, *MODES["streaming"])
    (measured,) = analyze(perf_analyzer, tmp_path, *grpc(simple_dyna_sequence.server, simple_dyna_sequence.model), *options)
    check(measured, REQUESTS)


def test_a_decoupled_model(perf_analyzer: Analyzer, hypersonic: Served, tmp_path: Path) -> None:
    """Its latency is the first response's, so that the server's mean may be above."""
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({"data": [{"IN": {"content": [3, 1, 4], "shape": [3]}}]}))
    options = (*grpc(hypersonic, "repeat_int32"), "--input-data", str(asked), *TWO_AT_ONCE, *MODES["streaming"])
    with growing(perf_analyzer, hypersonic, "repeat_int32", REQUESTS):
        (measured,) = analyze(perf_analyzer, tmp_path, *options)
    assert measured.requests == REQUESTS
    check_counted(measured.server, REQUESTS, 1, measured.text)
    throughput, responses = float(measured.row["Inferences/Second"]), float(measured.row["Response Throughput"])
    assert responses == pytest.approx(3 * throughput, rel=1e-3)


def test_an_ensemble_is_reported_step_by_step(perf_analyzer: Analyzer, image_channels: Asked, tmp_path: Path) -> None:
    picture = b"P6 4 4 255\n" + bytes(range(48))
    asked = tmp_path / "asked.json"
    element = base64.b64encode(struct.pack("<I", len(picture)) + picture).decode()
    asked.write_text(json.dumps({"data": [{"IMAGE": {"b64": element, "shape": [1]}}]}))
    options = (*grpc(image_channels.server, image_channels.model), "--input-data", str(asked), *TWO_AT_ONCE)
    (measured,) = analyze(perf_analyzer, tmp_path, *options)
    assert REQUESTS // 2 <= measured.server.successes <= REQUESTS
    assert set(measured.composing) == {"image", image_channels.named("channels")}
    for step in measured.composing.values():
        check_counted(step, REQUESTS, 1, measured.text)
        assert step.latency_us <= 1.5 * measured.server.latency_us


def test_the_cards_metrics(perf_analyzer: Analyzer, card: Served, tmp_path: Path) -> None:
    """It asks for four nv_gpu_* metrics by card; an emulated one has no power meter.

    The requests last for several of its readings: of forty, the first reading may see none.
    """
    requests = 20 * REQUESTS
    metrics = ("--collect-metrics", "--metrics-url", f"{card.metrics}/metrics", "--metrics-interval", "100")
    options = (*grpc(card, "facile"), "-b", "1000", "--concurrency-range", "2", "--request-count", str(requests), *metrics)
    (measured,) = analyze(perf_analyzer, tmp_path, *options)
    check(measured, requests, batch=1000)
    for column in ("Avg GPU Utilization", "Max GPU Memory Usage", "Total GPU Memory"):
        name, _, value = measured.row[column].rstrip(";").partition(":")
        assert name.startswith("FPGA-")
        assert float(value) > 0, (column, measured.row[column])
