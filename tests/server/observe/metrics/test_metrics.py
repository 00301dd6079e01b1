# SPDX-License-Identifier: Apache-2.0
"""/metrics: Triton's families as tritonserver 2.51 publishes them, ours beside them, all at zero from load."""

from __future__ import annotations

import math
import queue
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.observe.metrics.host import memory_bytes, processor_counters
from hypersonic.server.statistics.exposition import Family, Sample, render
from tests.server.conftest import Running, Script, Serve, SumSlot, tensor, write_model
from tests.support.waiting import wait_until

#: name -> (type, HELP) of tritonserver 2.51's /metrics, in its order; started with a python model
TRITON = {
    "nv_inference_request_success": ("counter", "Number of successful inference requests, all batch sizes"),
    "nv_inference_request_failure": ("counter", "Number of failed inference requests, all batch sizes"),
    "nv_inference_count": ("counter", "Number of inferences performed (does not include cached requests)"),
    "nv_inference_exec_count": ("counter", "Number of model executions performed (does not include cached requests)"),
    "nv_inference_request_duration_us": (
        "counter",
        "Cumulative inference request duration in microseconds (includes cached requests)",
    ),
    "nv_inference_queue_duration_us": (
        "counter",
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
    ),
    "nv_inference_compute_input_duration_us": (
        "counter",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
    ),
    "nv_inference_compute_infer_duration_us": (
        "counter",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
    ),
    "nv_inference_compute_output_duration_us": (
        "counter",
        "Cumulative inference compute output duration in microseconds (does not include cached requests)",
    ),
    "nv_inference_pending_request_count": (
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
    ),
    "nv_pinned_memory_pool_total_bytes": ("gauge", "Pinned memory pool total memory size, in bytes"),
    "nv_pinned_memory_pool_used_bytes": ("gauge", "Pinned memory pool used memory size, in bytes"),
    "nv_cpu_utilization": ("gauge", "CPU utilization rate [0.0 - 1.0]"),
    "nv_cpu_memory_total_bytes": ("gauge", "CPU total memory (RAM), in bytes"),
    "nv_cpu_memory_used_bytes": ("gauge", "CPU used memory (RAM), in bytes"),
}
#: what it adds with summary_latencies=true
SUMMARIES = {
    "nv_inference_request_summary_us": "Summary of inference request duration in microseconds (includes cached requests)",
    "nv_inference_queue_summary_us": "Summary of inference queuing duration in microseconds (includes cached requests)",
    "nv_inference_compute_input_summary_us": (
        "Cumulative compute input duration in microseconds (does not include cached requests)"
    ),
    "nv_inference_compute_infer_summary_us": (
        "Cumulative compute inference duration in microseconds (does not include cached requests)"
    ),
    "nv_inference_compute_output_summary_us": (
        "Cumulative inference compute output duration in microseconds (does not include cached requests)"
    ),
}
#: what it adds for a model with response_cache { enable: true }
CACHE = (
    "nv_cache_num_hits_per_model",
    "nv_cache_hit_duration_per_model",
    "nv_cache_num_misses_per_model",
    "nv_cache_miss_duration_per_model",
)
MODEL = 'gpu_uuid="FPGA-test",model="m",version="1"'
LOOSE = 'model="m",version="1"'


def exposition(running: Running) -> str:
    with urllib.request.urlopen(running.metrics, timeout=20) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text: str = answer.read().decode()
    return text


def samples(running: Running) -> dict[str, float]:
    lines = (line for line in exposition(running).splitlines() if line[0] != "#")
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def families(text: str) -> dict[str, tuple[str, str]]:
    heads = re.findall(r"# HELP (\S+) (.*)\n# TYPE (\S+) (\w+)\n", text)
    assert all(name == again for name, _, again, _ in heads)
    return {name: (kind, help_text) for name, help_text, _, kind in heads}


def test_tritons_families_are_there_under_their_names_types_and_texts_in_their_order(serve: Serve) -> None:
    with serve() as running:
        exposed = families(exposition(running))
    assert {name: exposed.get(name) for name in TRITON} == TRITON
    order = [name for name in exposed if name in TRITON]
    assert [name for name in order if name.startswith("nv_inference")] == [n for n in TRITON if n.startswith("nv_inference")]
    assert not exposed.keys() & {*SUMMARIES, *CACHE}


def test_every_series_is_there_at_zero_from_load(serve: Serve) -> None:
    with serve(Script(instances=2)) as running:
        values = samples(running)
    for name in (
        *("request_success", "count", "exec_count", "request_duration_us", "queue_duration_us"),
        *("compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us"),
    ):
        assert values[f"nv_inference_{name}{{{MODEL}}}"] == 0
    assert values[f"nv_inference_pending_request_count{{{LOOSE}}}"] == 0
    assert values[f"nv_model_load_duration_secs{{{LOOSE}}}"] >= 0
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        assert values[f'nv_inference_request_failure{{gpu_uuid="FPGA-test",model="m",reason="{reason}",version="1"}}'] == 0
    for phase in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        name = f"nv_inference_{phase}_duration_histogram_us"
        assert values[f'{name}_bucket{{{MODEL},le="50"}}'] == values[f'{name}_bucket{{{MODEL},le="+Inf"}}'] == 0
        assert values[f"{name}_count{{{MODEL}}}"] == values[f"{name}_sum{{{MODEL}}}"] == 0
    for unit in ("sum_1", "sum_2"):
        labels = f'{{compute_unit="{unit}",{MODEL}}}'
        for name in ("busy_cycles_total", "runs_total", "timeouts_total", "revived_total", "busy_seconds_total", "busy_ratio"):
            assert values[f"fpga_compute_unit_{name}{labels}"] == 0
        assert values[f"fpga_compute_unit_in_service{labels}"] == 1
    assert values['nv_gpu_utilization{gpu_uuid="FPGA-test"}'] == 0
    for name in ("requests_in_flight", "bytes_in_flight", "requests_refused_total"):
        assert values[f"hypersonic_server_{name}"] == 0
    assert (values["hypersonic_ready"], values[f"hypersonic_model_in_service{{{LOOSE}}}"]) == (1, 1)


def test_counters_are_the_statistics(serve: Serve) -> None:
    with serve() as running:
        for _ in range(3):
            running.infer(np.ones((5, 3), np.float32))
        values = samples(running)
    labels = f"{{{MODEL}}}"
    assert values[f"nv_inference_request_success{labels}"] == 3
    assert values[f"nv_inference_count{labels}"] == 15
    assert values[f"nv_inference_exec_count{labels}"] == 3
    assert values[f"nv_inference_request_duration_us{labels}"] >= values[f"nv_inference_compute_infer_duration_us{labels}"]
    assert values[f'fpga_compute_unit_runs_total{{compute_unit="sum_1",{MODEL}}}'] == 3
    assert values[f'fpga_compute_unit_busy_cycles_total{{compute_unit="sum_1",{MODEL}}}'] == 30


def test_a_histogram_has_every_request_once_and_its_sum_is_the_counters(serve: Serve) -> None:
    with serve(Script(run_s=0.02)) as running:
        for _ in range(3):
            running.infer(np.ones((5, 3), np.float32))
        values = samples(running)
    name = "nv_inference_request_duration_histogram_us"
    bucket = re.compile(re.escape(f'{name}_bucket{{{MODEL},le="') + r'(.*)"\}')
    cumulative = {float(m[1].replace("+Inf", "inf")): v for key, v in values.items() if (m := bucket.fullmatch(key))}
    assert list(cumulative) == sorted(cumulative)
    assert list(cumulative.values()) == sorted(cumulative.values())
    assert (cumulative[10_000.0], cumulative[10_000_000.0], cumulative[math.inf]) == (0, 3, 3)
    assert values[f"{name}_count{{{MODEL}}}"] == 3
    assert abs(values[f"{name}_sum{{{MODEL}}}"] - values[f"nv_inference_request_duration_us{{{MODEL}}}"]) <= 1


def test_summaries_come_with_their_option_and_know_the_last_minute(serve: Serve) -> None:
    with serve(metrics_config=("summary_latencies=true", "summary_quantiles=0.5:0.05,0.99:0.001")) as running:
        before = samples(running)
        running.infer(np.ones((5, 3), np.float32))
        text, values = exposition(running), samples(running)
    assert {name: families(text).get(name) for name in SUMMARIES} == {n: ("summary", t) for n, t in SUMMARIES.items()}
    name = f"nv_inference_request_summary_us{{{MODEL}"
    assert math.isnan(before[f'{name},quantile="0.5"}}'])
    assert values[f'{name},quantile="0.5"}}'] == values[f'{name},quantile="0.99"}}'] > 0
    assert values[f"nv_inference_request_summary_us_count{{{MODEL}}}"] == 1
    sums = values[f"nv_inference_request_summary_us_sum{{{MODEL}}}"], values[f"nv_inference_request_duration_us{{{MODEL}}}"]
    assert sums[0] == sums[1]


@pytest.mark.parametrize(
    ("options", "gone", "kept"),
    [
        ({"allow_gpu_metrics": False}, ("nv_gpu_", "fpga_"), "nv_cpu_utilization"),
        ({"allow_cpu_metrics": False}, ("nv_cpu_",), "nv_gpu_utilization"),
        ({"metrics_config": ("counter_latencies=false",)}, ("nv_inference_queue_duration_us",), "nv_inference_count"),
        ({"metrics_config": ("histogram_latencies=false",)}, ("nv_inference_queue_duration_histogram",), "nv_inference_count"),
    ],
)
def test_what_is_switched_off_is_not_there(serve: Serve, options: dict[str, Any], gone: tuple[str, ...], kept: str) -> None:
    with serve(**options) as running:
        exposed = families(exposition(running))
    assert not [name for name in exposed if name.startswith(gone)]
    assert kept in exposed


def test_a_model_that_asks_for_a_cache_has_its_counters(serve: Serve, tmp_path: Path) -> None:
    write_model(tmp_path / "models", config="response_cache { enable: true }")
    with serve(repository=tmp_path / "models") as running:
        values = samples(running)
    assert [values[f"{name}{{{MODEL}}}"] for name in CACHE] == [0] * len(CACHE)


def test_metric_tags_become_labels(serve: Serve, tmp_path: Path) -> None:
    tags = 'metric_tags { key: "site" value: "a\\"b\\\\c\\nd" } metric_tags { key: "x-y" value: "1" }'
    write_model(tmp_path / "models", config=tags)
    with serve(repository=tmp_path / "models") as running:
        text = exposition(running)
    assert f'nv_inference_count{{_site="a\\"b\\\\c\\nd",_x_y="1",{MODEL}}} 0\n' in text


def test_a_model_with_a_run_in_flight_counts_as_busy_and_waiting_requests_as_pending(serve: Serve) -> None:
    script = Script(slots=1, gate=threading.Event())
    with serve(script, metrics_interval_ms=1) as running:
        threads = [threading.Thread(target=running.infer, args=(np.ones((64, 3), np.float32),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert script.started.acquire(timeout=30)
        wait_until(lambda: samples(running)[f"nv_inference_pending_request_count{{{LOOSE}}}"] == 2)
        assert samples(running)["hypersonic_server_requests_in_flight"] == 3
        assert script.gate is not None
        script.gate.set()
        for thread in threads:
            thread.join()
        values = samples(running)
    assert values[f'fpga_compute_unit_busy_seconds_total{{compute_unit="sum_1",{MODEL}}}'] > 0
    assert values[f"nv_inference_pending_request_count{{{LOOSE}}}"] == 0


def test_a_hung_compute_unit_shows(serve: Serve) -> None:
    with serve(Script(instances=2, hang_from_run={"sum_1": 1, "sum_2": 1})) as running:
        with pytest.raises(Exception, match=r"UNAVAILABLE|out of service"):
            running.infer(np.ones((5, 3), np.float32))
        # tried on both, the request is answered before it is known that neither can be brought back
        wait_until(lambda: not samples(running)[f"hypersonic_model_in_service{{{LOOSE}}}"])
        values = samples(running)
    units = [f'{{compute_unit="sum_{n}",{MODEL}}}' for n in (1, 2)]
    assert sum(values[f"fpga_compute_unit_timeouts_total{unit}"] for unit in units) == 2
    assert [values[f"fpga_compute_unit_in_service{unit}"] for unit in units] == [0, 0]
    assert (values["hypersonic_ready"], values[f"hypersonic_model_in_service{{{LOOSE}}}"]) == (0, 0)


def test_the_exposition_is_well_formed(serve: Serve) -> None:
    with serve(metrics_config=("summary_latencies=true",)) as running:
        text = exposition(running)
    types = families(text)
    line = re.compile(r'([a-z_]+?)(_bucket|_sum|_count)?(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (NaN|[0-9.e+-]+)')
    seen: list[str] = []
    for row in (row for row in text.splitlines() if row[0] != "#"):
        match = line.fullmatch(row)
        assert match, row
        name = match[1] if match[1] in types else f"{match[1]}{match[2]}"
        assert name in types
        if not seen or seen[-1] != name:
            seen.append(name)
    assert len(seen) == len(set(seen)), "the lines of a family stand together"


def test_label_values_and_help_texts_are_escaped() -> None:
    family = Family("f", "gauge", "h\\\n", (Sample({"l": 'a"b\\c\nd'}, 0.5), Sample({}, 2.0), Sample({}, math.nan)))
    assert render([family]) == '# HELP f h\\\\\\n\n# TYPE f gauge\nf{l="a\\"b\\\\c\\nd"} 0.5\nf 2\nf NaN\n'
    assert not render([Family("f", "gauge", "h", ())])


def test_the_hosts_figures_are_those_of_proc() -> None:
    text = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\nHugePages_Total:       0\n"
    assert memory_bytes(text) == (1_024_000, 614_400)
    assert processor_counters("cpu  1 2 3 40 5 6 7 8 9 10\ncpu0 1 2\n") == {"all": 72.0, "idle": 45.0}


def test_a_decoupled_models_first_answer_is_in_the_histogram_of_first_responses(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = SumSlot.finish

    def answer_twice(slot: SumSlot) -> Execution:
        launched = finish(slot)
        for index, share in enumerate(slot._shares):
            for _ in range(2):
                share.pending.respond(slot.answer(index))
            share.pending.end()
        return launched

    monkeypatch.setattr(SumSlot, "finish", answer_twice)
    write_model(tmp_path / "models", config="model_transaction_policy { decoupled: true }")
    name = "nv_inference_first_response_histogram_ms"
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()
    with serve(repository=tmp_path / "models") as running:
        before = samples(running)
        with triton.InferenceServerClient(running.grpc) as client:
            client.start_stream(lambda result, error: answers.put(error))
            for _ in range(2):
                client.async_stream_infer("m", [tensor(np.ones((2, 3), np.float32))])
            assert [answers.get(timeout=30) for _ in range(4)] == [None] * 4
            client.stop_stream()
        values = samples(running)
    assert before[f"{name}_count{{{MODEL}}}"] == before[f'{name}_bucket{{{MODEL},le="100"}}'] == 0
    assert values[f"{name}_count{{{MODEL}}}"] == values[f'{name}_bucket{{{MODEL},le="5000"}}'] == 2
