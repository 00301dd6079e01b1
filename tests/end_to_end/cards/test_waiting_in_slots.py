# SPDX-License-Identifier: Apache-2.0
"""Requests that wait in a slot for a busy compute unit: what the real server's statistics, metrics and traces show."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from tests.faults.card_models import write_model
from tests.faults.site import infer, site
from tests.host.conftest import manifest_of

#: each row takes the kernel 50 ms or more; a slot holds three
SLOW = np.tile(np.eye(1, 18, dtype=np.float32) * np.float32(1e29), (3, 1))
EVENTS = [
    "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END",
]  # fmt: skip
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


def traced(file: Path) -> list[dict[str, int]]:
    """The events of each trace, in the order in which they were written."""
    stamps: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for entry in json.loads(file.read_text().removesuffix("]") + "]"):  # the server ends the array when it stops
        for stamp in entry.get("timestamps", ()):
            stamps[entry["id"]][stamp["name"]] = stamp["ns"]
    return list(stamps.values())


def test_no_more_compute_is_counted_than_the_compute_unit_can_have_done_and_the_rest_is_queue_time(
    image: bytes, tmp_path: Path
) -> None:
    xclbin = assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), image, compute_units=1)
    (tmp_path / "model.xclbin").write_bytes(xclbin)
    repository = write_model(tmp_path / "models", (tmp_path / "model.xclbin", manifest_of(xclbin)), slot_rows="3")
    options = ("--trace-config", f"triton,file={tmp_path / 'trace.json'}", "--trace-config", "level=TIMESTAMPS")
    with (
        site(repository, *options, "--trace-config", "rate=1", "--metrics-config", "summary_latencies=true") as running,
        running.client() as client,
        ThreadPoolExecutor(3) as pool,
    ):
        begin_ns = time.monotonic_ns()
        # two requests that fill a slot each, and one that needs two slots
        for answer in [pool.submit(infer, client, "facile", x) for x in (SLOW, SLOW, np.tile(SLOW, (2, 1)))]:
            answer.result()
        whole_ns = time.monotonic_ns() - begin_ns
        stats = client.get_inference_statistics("facile").model_stats[0]
        metrics = running.metrics()
    figures = stats.inference_stats
    busy_ns = sum(batch.compute_infer.ns for batch in stats.batch_stats)
    assert 4 * 3 * 40_000_000 < busy_ns <= whole_ns
    assert figures.compute_infer.ns <= whole_ns, "one compute unit cannot have worked longer than the clients waited"
    assert figures.queue.ns > figures.compute_infer.ns / 4, "of three requests at once two wait for the compute unit"
    assert sum(getattr(figures, part).ns for part in PARTS) <= figures.success.ns

    labels = next(name[name.index("{") :] for name in metrics if name.startswith("nv_inference_count"))
    for part in PARTS:
        wanted_us = getattr(figures, part).ns // 1000
        for name in (f"{part}_duration_us", f"{part}_duration_histogram_us_sum", f"{part}_summary_us_sum"):
            assert round(metrics[f"nv_inference_{name}{labels}"]) in (wanted_us, wanted_us + 1), name
    seconds = next(value for name, value in metrics.items() if name.startswith("fpga_compute_unit_busy_seconds_total"))
    assert round(seconds * 1e9) == busy_ns

    traces = traced(tmp_path / "trace.json")
    assert [list(events) for events in traces] == [EVENTS] * 3
    assert all(before <= after for events in traces for before, after in pairwise(events.values()))
    for part, (start, end) in zip(PARTS, pairwise(EVENTS[1:6]), strict=True):
        assert sum(events[end] - events[start] for events in traces) == getattr(figures, part).ns, part
