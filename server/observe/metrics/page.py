# SPDX-License-Identifier: Apache-2.0
"""/metrics: the complete page, read whenever it is requested. Nothing runs in between.

So --metrics-interval-ms is only the shortest time over which utilization is averaged. nv_pinned_memory_pool_* are always zero:
there is no such pool, because cards map their own buffers. docs/metrics.md lists all metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypersonic.server.observe.facts import Moment, read_moment
from hypersonic.server.observe.metrics.device import busy_counters, device_families
from hypersonic.server.observe.metrics.host import host_families, read_processors
from hypersonic.server.observe.metrics.models import inference_families
from hypersonic.server.observe.metrics.traffic import server_families
from hypersonic.server.observe.served import Served
from hypersonic.server.observe.window import Reading, ReadingsWindow
from hypersonic.server.statistics.exposition import Family, plain, render
from hypersonic.server.statistics.latency_options import MetricsConfig


@dataclass(frozen=True)
class MetricsOptions:
    """The command line's options for metrics.

    Attributes:
        interval_ms: the shortest time to average over.
        gpu, cpu: whether to show those.
    """

    config: MetricsConfig = field(default_factory=MetricsConfig)
    interval_ms: int = 2000
    gpu: bool = True
    cpu: bool = True


class Metrics:
    """The metrics page of one service. Any thread may use it."""

    def __init__(
        self,
        service: Served,
        options: MetricsOptions | None = None,
        custom: Sequence[Callable[[], Iterable[Family]]] = (),
    ) -> None:
        """Take the first readings.

        Args:
            custom: functions that return the families that models define.
        """
        self._custom = custom
        self._service = service
        self._options = options or MetricsOptions()
        interval_ns = self._options.interval_ms * 1_000_000
        moment = read_moment(service.repository)
        self._busy = ReadingsWindow(interval_ns, Reading(moment.at_ns, busy_counters(moment)))
        self._processors = ReadingsWindow(interval_ns, read_processors(time.monotonic_ns()))

    def text(self) -> str:
        """Return the page in Prometheus' text format. This may take as long as reading the cards' registers."""
        return render(self._families(read_moment(self._service.repository, self._options.interval_ms / 1000)))

    def _families(self, moment: Moment) -> Iterator[Family]:
        yield from inference_families(moment, self._options.config)
        yield plain("nv_pinned_memory_pool_total_bytes", "gauge", "Pinned memory pool total memory size, in bytes", 0)
        yield plain("nv_pinned_memory_pool_used_bytes", "gauge", "Pinned memory pool used memory size, in bytes", 0)
        if self._options.gpu:
            yield from device_families(moment, self._busy.rates(Reading(moment.at_ns, busy_counters(moment))))
        if self._options.cpu:
            yield from host_families(self._processors.rates(read_processors(time.monotonic_ns())))
        yield from server_families(self._service, moment)
        for families in self._custom:
            yield from families()
