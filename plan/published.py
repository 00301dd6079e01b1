# SPDX-License-Identifier: Apache-2.0
"""The published figures of the SONIC programme as data, and the same figures computed by the law of law.py.

FIGURES are those of the talks; each has the talk's inputs. SETS are the measured points of ProtoDUNE's jobs
(github.com/fastmachinelearning/nuSONIC at 5dd4aca, folder data/), with the constants of its own plots. `hypersonic plan
--check` prints both, and fails if a figure is off by more than its limit.

The talks: `coprocessors 2020`, the talk on SONIC's coprocessors of December 2020 (FACILE in the HLT, 16,000 channels an event);
`neutrinos 2023`, the talk of January 2023 on ProtoDUNE's jobs. The 0.600 s of an HLT job's cycle is derived: it is common to
the three numbers of clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypersonic.plan.law import saturation_jobs, throughput, time_per_event

#: the largest deviation of a computed figure of the talks, and of a time per event of the set that is checked, as fractions
FIGURE_LIMIT, POINT_LIMIT = 0.07, 0.10
#: points of that set are checked from this number of jobs; below, the processors of the workers scatter by more
HELD_FROM_JOBS = 80

_HLT_TALK, _NEUTRINO_TALK = "coprocessors 2020", "neutrinos 2023"

#: seconds between two calls of an HLT job; rows of an event of FACILE; round trip of ProtoDUNE's jobs to the cloud in s
_HLT_S, _ROWS, _PING_S = 0.600, 16_000, 0.0117


@dataclass(frozen=True)
class Figure:
    """A published figure.

    Attributes:
        talk: its short name.
        inputs, formula: in words.
        published, computed: in `unit`.
    """

    name: str
    talk: str
    inputs: str
    formula: str
    unit: str
    published: float
    computed: float

    @property
    def deviation(self) -> float:
        """(computed - published) / published."""
        return self.computed / self.published - 1

    @property
    def holds(self) -> bool:
        """True if the deviation is within FIGURE_LIMIT."""
        return abs(self.deviation) <= FIGURE_LIMIT


@dataclass(frozen=True)
class PublishedPoint:
    """A measured point of nuSONIC's data.

    Attributes:
        event_s, module_s: time of an event, and of its ML module, in seconds.
    """

    jobs: int
    event_s: float
    module_s: float


@dataclass(frozen=True)
class MeasuredSet:
    """Measured points of one setting, and the constants of the law for it.

    Attributes:
        own_s: the job's own work for an event.
        fixed_s: transfer and travel.
        service_s: of one GPU for an event.
        held: True if the check fails when a point from HELD_FROM_JOBS deviates by more than POINT_LIMIT.
    """

    name: str
    gpus: int
    own_s: float
    fixed_s: float
    service_s: float
    points: tuple[PublishedPoint, ...]
    held: bool = False

    @property
    def ideal_s(self) -> float:
        """The time of an event without queueing, in seconds."""
        return self.own_s + self.fixed_s + self.service_s

    def event_s(self, jobs: float) -> float:
        """Return the law's time per event with `jobs` jobs, in seconds."""
        return time_per_event(jobs, self.ideal_s, [self.gpus / self.service_s])

    def deviation(self, point: PublishedPoint) -> float:
        """Return (law - measured) / measured of a point's time per event."""
        return self.event_s(point.jobs) / point.event_s - 1

    def is_held(self, point: PublishedPoint) -> bool:
        """Return whether the check depends on this point."""
        return self.held and point.jobs >= HELD_FROM_JOBS

    def holds(self, point: PublishedPoint) -> bool:
        """Return whether a point is within POINT_LIMIT, or is not checked."""
        return not self.is_held(point) or abs(self.deviation(point)) <= POINT_LIMIT


def _points(*values: tuple[int, float, float]) -> tuple[PublishedPoint, ...]:
    return tuple(PublishedPoint(*each) for each in values)


#: a job's own work of 330 s of CPU time, with 67 % or 65 % of it accelerated: the constants of the plots 1b and 1c
_OWN_1B_S, _OWN_1C_S = (1 - 0.67) * 330, (1 - 0.65) * 330
#: transfer, and travel with small and with big batches
_TRANSMIT_S, _TRAVEL_SMALL_S, _TRAVEL_BIG_S = 2.05, 2.6, 0.38

SETS = (
    MeasuredSet(
        "4 GPUs, no dynamic batching, small batch", 4, _OWN_1B_S, 0.0, 2.5,
        _points((4, 129.7, 13.8), (16, 134.5, 15.6), (40, 145.5, 15.7), (64, 126.4, 15.9), (80, 122.2, 15.8),
                (189, 128.7, 18.1), (301, 180.9, 49.5), (486, 298.0, 188.4)),
        held=True,
    ),
    MeasuredSet(
        "4 GPUs, no dynamic batching, big batch", 4, _OWN_1C_S, _TRANSMIT_S + _TRAVEL_BIG_S, 1.77,
        _points((1, 176.5, 17.2), (20, 135.3, 12.9), (64, 98.6, 11.7), (120, 99.0, 12.4), (160, 110.9, 12.6),
                (200, 112.6, 15.0), (243, 147.0, 13.8), (268, 127.5, 17.5), (295, 160.5, 27.7), (348, 143.1, 42.6),
                (400, 185.9, 89.2)),
    ),
    MeasuredSet(
        "4 GPUs, dynamic batching, small batch", 4, _OWN_1C_S, _TRANSMIT_S + _TRAVEL_SMALL_S, 1.77,
        _points((80, 123.6, 15.8), (144, 138.9, 15.8), (232, 153.5, 17.6), (300, 164.0, 24.1)),
    ),
    MeasuredSet(
        "4 GPUs, dynamic batching, big batch", 4, _OWN_1C_S, _TRANSMIT_S + _TRAVEL_BIG_S, 1.77,
        _points((200, 142.2, 15.7), (300, 149.8, 20.2), (393, 177.6, 73.1), (400, 177.3, 81.3)),
    ),
    MeasuredSet(
        "1 GPU, dynamic batching, small batch", 1, _OWN_1C_S, _TRANSMIT_S + _TRAVEL_SMALL_S, 1.77,
        _points((32, 124.0, 15.2), (64, 130.2, 18.7), (80, 133.3, 19.9), (96, 154.4, 28.3), (144, 204.3, 82.6)),
    ),
)  # fmt: skip


def figures() -> tuple[Figure, ...]:
    """Return the figures of the talks, each computed from its inputs by exact arithmetic."""
    facile_bits = 15 * 32 * _ROWS
    big, small = SETS[1], SETS[0]
    big_jobs = saturation_jobs(big.ideal_s, [big.gpus / big.service_s])
    transfer_s, travel_s, gpu_s = 3.9 / 2, 32 * _PING_S, 55_000 / 20_000
    return (
        Figure("HLT jobs per T4", _HLT_TALK, "500 events/s; a job's cycle 0.600 s", "c/S * t_ideal", "jobs", 300,
               saturation_jobs(_HLT_S, [500])),
        Figure("HLT jobs per AWS F1", _HLT_TALK, "25 Gb/s; 10 Mb an event; 0.600 s", "B/b * t_ideal", "jobs", 1500,
               saturation_jobs(_HLT_S, [25e9 / 10e6])),
        Figure("HLT jobs per U250", _HLT_TALK, "86 M inferences/s; 16,000 an event; 0.600 s", "c/S * t_ideal", "jobs", 3300,
               saturation_jobs(_HLT_S, [86e6 / _ROWS])),
        Figure("time per event below saturation", _HLT_TALK, "p = 0.10, the answer is hidden; 2500 jobs", "N/X(N) / T",
               "T", 0.9, time_per_event(2500, 0.9 * _HLT_S, [86e6 / _ROWS]) / _HLT_S),
        Figure("network of 8000 events/s", _HLT_TALK, "15 FP32 * 16,000 rows = 7.68 Mb an event", "X * b", "Gb/s", 60,
               8000 * facile_bits / 1e9),
        Figure("T4s for 8000 events/s", _HLT_TALK, "500 events/s each", "X * S", "cards", 16, 8000 / 500),
        Figure("saturation, small batch", _NEUTRINO_TALK, "330 s, p = 0.67, S = 2.5 s, 4 GPUs", "t_ideal * c/S", "jobs", 190,
               saturation_jobs(small.ideal_s, [small.gpus / small.service_s])),
        Figure("saturation, big batch", _NEUTRINO_TALK, "330 s, p = 0.65, S = 1.77 s, 4 GPUs", "t_ideal * c/S", "jobs",
               270, big_jobs),
        Figure("jobs per GPU", _NEUTRINO_TALK, "the same", "t_ideal / S", "jobs", 68, big_jobs / big.gpus),
        Figure("jobs that fill the switch", _NEUTRINO_TALK, "100 Gb/s; 4.1 Gb an event; 25 s", "B/b * t_ideal", "jobs", 600,
               saturation_jobs(25, [100 / 4.1])),
        Figure("transfer of an event", _NEUTRINO_TALK, "3.9 Gb at 2 Gb/s", "b/B", "s", 1.9, transfer_s),
        Figure("travel, big batch", _NEUTRINO_TALK, "32 calls of 11.7 ms", "calls * RTT", "s", 0.4, travel_s),
        Figure("travel, small batch", _NEUTRINO_TALK, "235 calls of 11.7 ms", "calls * RTT", "s", 2.6, 235 * _PING_S),
        Figure("GPU time of an event", _NEUTRINO_TALK, "55,000 patches at 20,000/s", "rows / rate", "s", 2.7, gpu_s),
        Figure("ML module", _NEUTRINO_TALK, "7 s before it, transfer, travel, GPU", "sum", "s", 12,
               7 + transfer_s + travel_s + gpu_s),
        Figure("ML module, speed-up", _NEUTRINO_TALK, "220 s on a CPU", "220 / 12", "x", 18, 220 / 12),
        Figure("event, speed-up", _NEUTRINO_TALK, "330 s on a CPU", "330 / 122", "x", 2.7, 330 / 122),
        Figure("rate of 1000 jobs, dynamic batching", _HLT_TALK, "a job's cycle 0.1 s", "N / t_ideal", "events/s", 10_000,
               throughput(1000, 0.1, [])),
    )  # fmt: skip


def check_passes() -> bool:
    """Return whether every figure and every checked point is within its limit."""
    return all(figure.holds for figure in figures()) and all(each.holds(point) for each in SETS for point in each.points)


def check_table() -> str:
    """Return both tables as Markdown: the figures of the talks, and the points of nuSONIC's data."""
    return "\n".join((*_figure_lines(), "", *_point_lines())) + "\n"


def _figure_lines() -> Iterator[str]:
    yield "| figure | talk | inputs | formula | published | computed | deviation |"
    yield "|---|---|---|---|---|---|---|"
    for each in figures():
        out = "" if each.holds else f" **above {FIGURE_LIMIT:.0%}**"
        yield (
            f"| {each.name} | {each.talk} | {each.inputs} | {each.formula} | {each.published:,g} {each.unit} "
            f"| {_number(each.computed)} {each.unit} | {each.deviation:+.1%}{out} |"
        )


def _point_lines() -> Iterator[str]:
    yield "| nuSONIC's data | jobs | measured, s per event | law, s | deviation | |"
    yield "|---|---|---|---|---|---|"
    for each in SETS:
        for point in each.points:
            note = f"held to {POINT_LIMIT:.0%}" if each.is_held(point) else "shown"
            out = "" if each.holds(point) else ": **above it**"
            yield (
                f"| {each.name} | {point.jobs} | {point.event_s:.1f} | {each.event_s(point.jobs):.1f} "
                f"| {each.deviation(point):+.1%} | {note}{out} |"
            )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
