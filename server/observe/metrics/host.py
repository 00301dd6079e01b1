# SPDX-License-Identifier: Apache-2.0
"""Metrics nv_cpu_*: the host's processors and memory, from /proc as in Triton."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hypersonic.server.observe.window import Reading
from hypersonic.server.statistics.exposition import Family, plain

#: indices of idle and iowait in /proc/stat's first line: user nice system idle iowait irq softirq steal
_IDLE = (3, 4)
_FIELDS = 8


def processor_counters(text: str) -> dict[str, float]:
    """Parse /proc/stat; return the clock ticks of all processors since boot, all and idle."""
    ticks = [float(word) for word in text.split("\n", 1)[0].split()[1 : 1 + _FIELDS]]
    return {"all": sum(ticks), "idle": sum(ticks[index] for index in _IDLE)}


def memory_bytes(text: str) -> tuple[int, int]:
    """Parse /proc/meminfo; return (total, used) in bytes. As in Triton, used is what is not available."""
    sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in text.splitlines()) if rest}
    return sizes["MemTotal"], sizes["MemTotal"] - sizes["MemAvailable"]


def read_processors(at_ns: int) -> Reading:
    """Read the counters of the processors now."""
    return Reading(at_ns, processor_counters(Path("/proc/stat").read_text()))


def host_families(rates: dict[str, float]) -> Iterator[Family]:
    """Yield the families.

    Args:
        rates: of processor_counters(), per second; empty before there is a rate.
    """
    passed = rates.get("all", 0.0)
    busy = 1 - rates.get("idle", 0.0) / passed if passed else 0.0
    yield plain("nv_cpu_utilization", "gauge", "CPU utilization rate [0.0 - 1.0]", min(1.0, max(0.0, busy)))
    total, used = memory_bytes(Path("/proc/meminfo").read_text())
    yield plain("nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes", total)
    yield plain("nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes", used)
