# SPDX-License-Identifier: Apache-2.0
"""/metrics: everything, each time somebody asks. Nothing runs in between, whatever --metrics-interval-ms says: it is the least
time over which utilization is averaged.

Not there: nv_pinned_memory_pool_* beyond zero (there is no such pool; cards map their own buffers), nv_gpu_memory_*,
nv_gpu_power_*, nv_energy_consumption (see device.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypersonic.server.observe.device import busy_counters, device_families
from hypersonic.server.observe.exposition import Family, Sample, plain, render
from hypersonic.server.observe.facts import Moment, look
from hypersonic.server.observe.host import host_families, read_processors
from hypersonic.server.observe.inference import inference_families
from hypersonic.server.observe.metrics_config import MetricsConfig
from hypersonic.server.observe.window import Reading, Window
from hypersonic.server.service import InferenceService


@dataclass(frozen=True)
class MetricsOptions:
    """What the command line says of metrics."""

    config: MetricsConfig = field(default_factory=MetricsConfig)
    interval_ms: int = 2000
    gpu: bool = True
    cpu: bool = True


class Metrics:
    """The exposition of one service. Any thread may ask."""

    def __init__(
        self,
        service: InferenceService,
        options: MetricsOptions | None = None,
        custom: Sequence[Callable[[], Iterable[Family]]] = (),
    ) -> None:
        """custom: what models count themselves."""
        self._custom = custom
        self._service = service
        self._options = options or MetricsOptions()
        interval_ns = self._options.interval_ms * 1_000_000
        moment = look(service.repository)
        self._busy = Window(interval_ns, Reading(moment.at_ns, busy_counters(moment)))
        self._processors = Window(interval_ns, read_processors(time.monotonic_ns()))

    def text(self) -> str:
        """Prometheus' text format. It may take as long as the cards' registers do."""
        return render(self._families(look(self._service.repository)))

    def _families(self, moment: Moment) -> Iterator[Family]:
        yield from inference_families(moment, self._options.config)
        yield plain("nv_pinned_memory_pool_total_bytes", "gauge", "Pinned memory pool total memory size, in bytes", 0)
        yield plain("nv_pinned_memory_pool_used_bytes", "gauge", "Pinned memory pool used memory size, in bytes", 0)
        if self._options.gpu:
            yield from device_families(moment, self._busy.rates(Reading(moment.at_ns, busy_counters(moment))))
        if self._options.cpu:
            yield from host_families(self._processors.rates(read_processors(time.monotonic_ns())))
        yield from _server_families(self._service, moment)
        for families in self._custom:
            yield from families()


def _server_families(service: InferenceService, moment: Moment) -> Iterator[Family]:
    """hypersonic_*: what the server holds, and how it stands."""
    admission = service.admission
    yield plain("hypersonic_ready", "gauge", "1 while the server is ready", service.ready)
    yield Family(
        "hypersonic_model_in_service",
        "gauge",
        "1 while the model takes requests",
        [Sample(model.labels, model.in_service) for model in moment.models],
    )
    for name, kind, text, value in (
        ("requests_in_flight", "gauge", "Inference requests in the server", admission.requests),
        ("bytes_in_flight", "gauge", "Bytes of those requests", admission.size_bytes),
        ("bytes_in_flight_limit", "gauge", "Most bytes of requests held at once, 0 = no limit", admission.limit_bytes),
        ("requests_refused_total", "counter", "Requests refused for their bytes", admission.refused),
    ):
        yield plain(f"hypersonic_server_{name}", kind, text, value)
