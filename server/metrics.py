# SPDX-License-Identifier: Apache-2.0
"""/metrics: Triton's nv_* figures under their own names, and the card's under fpga_*, in Prometheus' text format 0.0.4.

Written here and not by prometheus_client, which renames every counter to *_total: dashboards, autoscalers and rate limiters ask
for Triton's names. Every series exists from load on, at zero.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hypersonic.server.errors import FailureReason
from hypersonic.server.model import Model
from hypersonic.server.service import InferenceService
from hypersonic.server.statistics import Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """A metric with all its series."""

    name: str
    kind: str
    help: str
    series: tuple[tuple[Labels, float], ...]

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.series:
            text = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
            yield f"{self.name}{{{text}}} {_number(value)}" if text else f"{self.name} {_number(value)}"


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def render(families: Iterable[Family]) -> str:
    """The exposition text."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _labels(model: Model) -> dict[str, str]:
    return {"model": model.name, "version": str(model.version)}


#: (name, help, figure of a model version); durations are in microseconds, as Triton's
_INFERENCE: tuple[tuple[str, str, Callable[[Snapshot], int]], ...] = (
    ("request_success", "Number of successful inference requests, all batch sizes", lambda s: s.success.count),
    ("count", "Number of inferences performed (does not include cached requests)", lambda s: s.inference_count),
    ("exec_count", "Number of model executions performed (does not include cached requests)", lambda s: s.execution_count),
    (
        "request_duration_us",
        "Cumulative inference request duration in microseconds (includes cached requests)",
        lambda s: s.success.ns // 1000,
    ),
    (
        "queue_duration_us",
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
        lambda s: s.queue.ns // 1000,
    ),
    (
        "compute_input_duration_us",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        lambda s: s.compute_input.ns // 1000,
    ),
    (
        "compute_infer_duration_us",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        lambda s: s.compute_infer.ns // 1000,
    ),
    (
        "compute_output_duration_us",
        "Cumulative inference compute output duration in microseconds (does not include cached requests)",
        lambda s: s.compute_output.ns // 1000,
    ),
)


def inference_families(models: Iterable[Model]) -> Iterator[Family]:
    """nv_inference_* of every loaded version."""
    figures = [(model, model.statistics.snapshot()) for model in models]
    for name, text, value in _INFERENCE:
        series = tuple((_labels(model), float(value(snapshot))) for model, snapshot in figures)
        yield Family(f"nv_inference_{name}", "counter", text, series)
    yield Family(
        "nv_inference_request_failure",
        "counter",
        "Number of failed inference requests, all batch sizes",
        tuple(
            ({**_labels(model), "reason": str(reason)}, float(snapshot.failures[reason].count))
            for model, snapshot in figures
            for reason in FailureReason
        ),
    )
    yield Family(
        "nv_inference_pending_request_count",
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
        tuple((_labels(model), float(model.waiting)) for model, _ in figures),
    )
    yield Family(
        "nv_model_load_duration_secs",
        "gauge",
        "Model load time in seconds",
        tuple((_labels(model), model.load_duration_s) for model, _ in figures),
    )


def compute_unit_families(models: Iterable[Model]) -> Iterator[Family]:
    """fpga_compute_unit_* of every compute unit; the clocks are read from the cards now."""
    units = [
        ({**_labels(model), "compute_unit": name}, figures, cycles)
        for model in models
        for (name, figures), cycles in zip(model.figures.items(), model.busy_cycles().values(), strict=True)
    ]
    for name, kind, text, series in (
        ("busy_cycles_total", "counter", "Kernel clocks with a run in flight", [(unit, cycles) for unit, _, cycles in units]),
        ("runs_total", "counter", "Runs completed", [(unit, figures.runs) for unit, figures, _ in units]),
        ("timeouts_total", "counter", "Runs not completed in time", [(unit, figures.timeouts) for unit, figures, _ in units]),
        ("in_service", "gauge", "1 while it takes runs", [(unit, int(figures.in_service)) for unit, figures, _ in units]),
    ):
        yield Family(f"fpga_compute_unit_{name}", kind, text, tuple((labels, float(value)) for labels, value in series))


class Utilization:
    """The share of time each card had a run in flight, over about the last interval; any thread may ask."""

    def __init__(self, models: Iterable[Model], interval_s: float = 2.0) -> None:
        self._models = models
        self._interval_ns = int(interval_s * 1e9)
        self._lock = threading.Lock()
        now = time.monotonic_ns()
        self._before = self._after = (now, self._busy_ns())

    def _busy_ns(self) -> dict[str, float]:
        """gpu_uuid -> busy time so far, mean over the card's compute units."""
        units: defaultdict[str, list[int]] = defaultdict(list)
        for model in self._models:
            for name, card in model.cards().items():
                units[card.gpu_uuid].append(model.figures[name].busy_ns)
        return {card: sum(busy) / len(busy) for card, busy in units.items()}

    def families(self) -> Iterator[Family]:
        """nv_gpu_utilization; SuperSONIC counts servers by it, so that it is here whatever the card can tell."""
        now, busy = time.monotonic_ns(), self._busy_ns()
        with self._lock:
            if now - self._after[0] >= self._interval_ns:
                self._before, self._after = self._after, (now, busy)
            since, earlier = self._before
        series = tuple(
            ({"gpu_uuid": card}, min(1.0, max(0.0, (value - earlier.get(card, 0.0)) / max(1, now - since))))
            for card, value in busy.items()
        )
        yield Family("nv_gpu_utilization", "gauge", "GPU utilization rate [0.0 - 1.0)", series)


def host_families() -> Iterator[Family]:
    """nv_cpu_memory_*: of the host."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    total_bytes = page_bytes * os.sysconf("SC_PHYS_PAGES")
    free_bytes = page_bytes * os.sysconf("SC_AVPHYS_PAGES")
    yield Family("nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes", (({}, float(total_bytes)),))
    yield Family(
        "nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes", (({}, float(total_bytes - free_bytes)),)
    )


def server_families(service: InferenceService) -> Iterator[Family]:
    """fpga_server_*: what the server holds at this moment."""
    admission = service.admission
    requests, size_bytes = float(admission.requests), float(admission.size_bytes)
    yield Family("fpga_server_requests_in_flight", "gauge", "Inference requests in the server", (({}, requests),))
    yield Family("fpga_server_bytes_in_flight", "gauge", "Bytes of those requests", (({}, size_bytes),))


def exposition(service: InferenceService, utilization: Utilization) -> str:
    """Everything, as /metrics sends it."""
    models = list(service.repository)
    return render(
        (
            *inference_families(models),
            *utilization.families(),
            *host_families(),
            *compute_unit_families(models),
            *server_families(service),
        )
    )
