# SPDX-License-Identifier: Apache-2.0
"""The inputs of a plan: workload, cost of the model, site and target, with the source of each number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from hypersonic.firmware.estimate.rates import NETWORK_GBPS
from hypersonic.plan.errors import PlanError
from hypersonic.plan.farm.service import Constant, ServiceTime
from hypersonic.plan.server_cost import COMMAND, LOCK_S, PYTHON, RequestCpu


class Basis(StrEnum):
    """The kind of a number's source."""

    MEASURED = "measured"
    PUBLISHED = "published"
    MODELLED = "modelled"
    SIMULATED = "simulated"
    READ = "read from a file"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Mark:
    """The kind of a number's source, and the source: a file, an option, a URL, or `default`."""

    basis: Basis
    source: str

    def __str__(self) -> str:
        return f"{self.basis} ({self.source})"


#: the mark of a number that was not given
BY_DEFAULT = Mark(Basis.ASSUMED, "default")


class OwnWork:
    """The part of a workload that its jobs do themselves.

    Attributes:
        cpu_s: processor time of an event if nothing is accelerated.
        share: the part of it, 0 to 1, that calls replace.
    """

    cpu_s: float
    share: float

    @property
    def own_s(self) -> float:
        """The job's own work for an event, in seconds."""
        return (1 - self.share) * self.cpu_s


@dataclass(frozen=True)
class Workload(OwnWork):
    """The jobs that call the model.

    The defaults are an HLT job: 0.667 s with a share of 0.1 leave 0.600 s between two calls, of 16,000 rows.

    Attributes:
        jobs: the number that run at the same time, each on one event.
        events_per_s: of all jobs; one of the two may be 0, which means that it follows from the other.
        cpu_s, share: as in OwnWork.
        rows: per call.
        calls: per event, one after the other; 0.5 = a call of two events, which only a change of a site is.
    """

    jobs: int = 0
    events_per_s: float = 0.0
    cpu_s: float = 0.667
    share: float = 0.1
    rows: int = 16_000
    calls: float = 1


@dataclass(frozen=True)
class Service:
    """A measured distribution of executions, from a server's histogram.

    Attributes:
        bounds_s: upper bounds of the buckets, the last may be infinite.
        counts: cumulative.
        mean_s: of an execution as requests saw it.
        rows: mean rows of an execution.
        requests: mean requests of an execution.
        transfer_s: mean time of a request's transfers outside of the execution.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    mean_s: float
    rows: float
    requests: float
    transfer_s: float = 0.0


@dataclass(frozen=True)
class ModelCost:
    """The cost of a row of the model.

    Attributes:
        input_bytes, output_bytes: of a row on the wire.
        ii: clocks between two rows in the core, which may be a fraction; a row takes its bytes / 64 clocks at least.
        units: compute units per card.
        half_bytes, packed_bytes: (input, output) of a row in FP16, and with each number in the smallest whole number of bytes
            that holds the network's own type; None if it is not known or not smaller.
        service_ms: time of a call on a compute unit, 0 = it follows from the clocks.
        measured: a server's executions, or those of service_ms, which then replace clocks, PCIe and memory bank.
    """

    name: str
    input_bytes: int
    output_bytes: int
    ii: float = 1
    units: int = 1
    half_bytes: tuple[int, int] | None = None
    packed_bytes: tuple[int, int] | None = None
    service_ms: float = 0.0
    measured: Service | None = None

    @property
    def row_bytes(self) -> tuple[int, int]:
        """Bytes of a row's inputs and results."""
        return self.input_bytes, self.output_bytes


@dataclass(frozen=True)
class Site:
    """The servers and the network between them and the jobs.

    Attributes:
        platform: a name of firmware/platforms.
        cards: 0 = as many as the target needs.
        kernel_mhz: 0 = the platform's default.
        server_gbps: link of a server, Gb/s (10**9 bits per second) in each direction.
        switch_gbps: link that all servers share; 0 = it never limits.
        background_gbps: other traffic on that link.
        rtt_ms: round trip between job and server.
        server: `python` (hypersonic serve) or `triton` (tritonserver with the fpga backend).
        cores: of a server.
        request_cpu_ms: time that a core works on a request, 0 = as measured for that server and the request's bytes.
    """

    platform: str = "u250"
    cards: int = 0
    cards_per_server: int = 1
    kernel_mhz: float = 0.0
    server_gbps: float = NETWORK_GBPS
    switch_gbps: float = 0.0
    background_gbps: float = 0.0
    rtt_ms: float = 0.5
    server: str = PYTHON
    cores: int = 16
    request_cpu_ms: float = 0.0

    def request_cpu(self, row_bytes: int) -> ServiceTime:
        """Return the time that a core works on a request, by its rows.

        Args:
            row_bytes: of a row's inputs.
        """
        return Constant(self.request_cpu_ms / 1e3) if self.request_cpu_ms else RequestCpu(self.server, row_bytes)

    @property
    def lock_s(self) -> float:
        """The part of it in which the server works on no other request."""
        return LOCK_S if self.server == PYTHON else 0.0


@dataclass(frozen=True)
class Target:
    """The target of a plan.

    Attributes:
        added_percent: most time that queueing may add to an event.
        p99_ms: of a call, 0 = not asked.
        event_s: time per event, 0 = not asked.
        headroom: the part of every capacity that may be used, above 0 and at most 1.
    """

    added_percent: float = 3.0
    p99_ms: float = 0.0
    event_s: float = 0.0
    headroom: float = 0.8


@dataclass(frozen=True)
class Question:
    """All inputs of a plan.

    Attributes:
        marks: field such as `workload.jobs` -> its source; a field without a mark is a default.
    """

    workload: Workload
    model: ModelCost
    site: Site
    target: Target
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def request_cpu_s(self) -> float:
        """The time that a core works on a request."""
        return self.site.request_cpu(self.model.input_bytes).mean_s(self.workload.rows)

    def mark(self, name: str) -> Mark:
        """Return the source of a field's value. A clock counts as assumed even if it was given."""
        if name == "site.request_cpu_ms" and not self.site.request_cpu_ms:
            return Mark(Basis.MEASURED, COMMAND)
        if name == "site.kernel_mhz":
            of_platform = Mark(Basis.ASSUMED, f"platforms/{self.site.platform}.toml")
            return replace(self.marks.get(name, of_platform), basis=Basis.ASSUMED)
        return self.marks.get(name, BY_DEFAULT)


@dataclass(frozen=True)
class Rule:
    """The values that a field may have.

    Attributes:
        whole: whole numbers only.
        low, high: inclusive.
        above: `low` itself is excluded.
    """

    low: float
    high: float = math.inf
    whole: bool = False
    above: bool = False
    unit: str = ""

    def allows(self, value: object) -> bool:
        """Return whether the value is a number of this kind."""
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
            return False
        return self.low <= value <= self.high and not (self.above and value == self.low)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        unit = f" of {self.unit}" if self.unit else ""
        low = f"above {self.low:g}" if self.above else f"of {self.low:g} or more" if not unit else f", {self.low:g} or more"
        if math.isfinite(self.high):
            high = f"{self.high:,.12g}"
            low = f"above {self.low:g} and at most {high}" if self.above else f"from {self.low:g} to {high}"
        return f"{kind}{unit}{'' if low.startswith(',') else ' '}{low}"


#: section -> field -> its values
RULES: Mapping[str, Mapping[str, Rule]] = {
    "workload": {
        "jobs": Rule(0, 1_000_000_000, whole=True),
        "events_per_s": Rule(0),
        "cpu_s": Rule(0, above=True, unit="seconds"),
        "share": Rule(0, 1),
        "rows": Rule(1, 1 << 31, whole=True),
        "calls": Rule(1, 1 << 20, whole=True),
    },
    "model": {
        "input_bytes": Rule(1, 1 << 30, whole=True),
        "output_bytes": Rule(1, 1 << 30, whole=True),
        "ii": Rule(1, 1 << 31),
        "units": Rule(1, 1024, whole=True),
        "service_ms": Rule(0, unit="milliseconds"),
    },
    "site": {
        "cards": Rule(0, 1_000_000, whole=True),
        "cards_per_server": Rule(1, 64, whole=True),
        "kernel_mhz": Rule(0, unit="MHz"),
        "server_gbps": Rule(0, unit="Gb/s", above=True),
        "switch_gbps": Rule(0, unit="Gb/s"),
        "background_gbps": Rule(0, unit="Gb/s"),
        "rtt_ms": Rule(0, unit="milliseconds"),
        "cores": Rule(1, 4096, whole=True),
        "request_cpu_ms": Rule(0, unit="milliseconds"),
    },
    "target": {
        "added_percent": Rule(0, unit="per cent"),
        "p99_ms": Rule(0, unit="milliseconds"),
        "event_s": Rule(0, unit="seconds"),
        "headroom": Rule(0, 1, above=True),
    },
}


def check_ranges(question: Question) -> None:
    """Raise PlanError for the first number that is out of its range, with the field's name."""
    for section, rules in RULES.items():
        values = getattr(question, section)
        for name, rule in rules.items():
            check_value(f"{section}.{name}", getattr(values, name), rule)


def check_value(name: str, value: Any, rule: Rule) -> None:
    """Raise PlanError unless the rule allows the value.

    Args:
        name: section and field.
    """
    if name == "site.server_gbps" and (value is None or value == 0):
        raise PlanError(
            f"{name} is {value}, expected the Gb/s of a server's link: a plan needs a network, which is often what limits; "
            "give site.server_gbps or --network-gbps"
        )
    if not rule.allows(value):
        raise PlanError(f"{name} is {value!r}, expected {rule}; change it in the file, or with {option_of(name)}")


def check_agreement(question: Question) -> None:
    """Raise PlanError for numbers that contradict each other, with both."""
    work, site = question.workload, question.site
    if not work.jobs and not work.events_per_s:
        raise PlanError(
            "workload.jobs and workload.events_per_s are both missing or 0, expected one of them above 0; give --jobs or "
            "--events-per-s"
        )
    if work.share == 1 and not work.events_per_s:
        raise PlanError(
            "workload.share is 1, so that jobs do nothing but call, and workload.events_per_s is 0; expected a share below 1, "
            "or the events/s that are offered"
        )
    if site.background_gbps and not site.switch_gbps:
        raise PlanError(
            f"site.background_gbps is {site.background_gbps:g}, and site.switch_gbps is 0: there is no shared link that other "
            "traffic could use; give the switch's Gb/s with --switch-gbps, or leave the background out"
        )
    if site.switch_gbps and site.background_gbps >= site.switch_gbps:
        raise PlanError(
            f"site.background_gbps is {site.background_gbps:g}, expected less than site.switch_gbps, {site.switch_gbps:g}: the "
            "other traffic fills the link"
        )


def option_of(name: str) -> str:
    """Return the option of a field, such as --rtt-ms for site.rtt_ms."""
    short = name.partition(".")[2]
    return "--" + {"server_gbps": "network_gbps", "cores": "server_cores"}.get(short, short).replace("_", "-")


def field_names(section: str) -> tuple[str, ...]:
    """Return the fields that a file may give in a section."""
    if section == "model":
        return ("name", "repository", "metrics", *RULES["model"])
    kinds = {"workload": Workload, "site": Site, "target": Target}
    return tuple(each.name for each in fields(kinds[section]))
