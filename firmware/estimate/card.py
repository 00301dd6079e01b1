# SPDX-License-Identifier: Apache-2.0
"""Simulates a card that is always busy: compute units, memory banks, the PCIe link, and the host's threads.

Each unit has some runs, each of which a thread of the host does again and again: its inputs are transferred to the card, the
unit computes, its results are transferred back. TRANSFERS_IN_FLIGHT are in flight in each direction, and a unit computes one
run at a time.

What is active at the same time shares the parts of the card, so that each gets the same bytes per second until a part is full
or its own rate is reached (max-min fairness). A transfer is no faster than one alone, a run no faster than its clocks. A byte
takes time of a memory bank as memory.py says: rows are missed where streams interrupt each other, the bus turns around
between reads and writes, and the bank refreshes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from hypersonic.firmware.estimate.memory import BURST_BYTES, BankTiming, bank_timing
from hypersonic.firmware.platform import TRANSFERS_IN_FLIGHT, Platform
from hypersonic.firmware.xclbin.connectivity import assign_banks

#: the m_axi ports of a kernel that rows pass through: one for inputs, one for results
PORTS = 2

#: a part that works for less of the time than this does not limit the card: its runs wait for each other
_BUSY = 0.95

#: runs of each thread before the rate is taken, and while it is
_WARM, _RUNS = 6, 16


#: a stream of bytes: the name of its bank, whether it writes, and its bytes
_Stream = tuple[str, bool, int]


class _Stage(IntEnum):
    TO_CARD = 0
    KERNEL = 1
    FROM_CARD = 2


@dataclass(frozen=True)
class CardLoad:
    """The work of a card.

    Attributes:
        kernel_s: seconds of a run in its unit, if the memory keeps up.
        x_bytes, y_bytes: of a run's inputs and of its results.
        units: compute units.
        runs: of each unit, that the host has in flight, each in a thread of its own.
    """

    kernel_s: float
    x_bytes: int
    y_bytes: int
    units: int
    runs: int


@dataclass(frozen=True)
class Simulated:
    """The rate of a card.

    Attributes:
        runs_per_s: of all units.
        limited_by: the part that is always busy, or `runs in flight` if there is none, because more of them would be faster.
        busy: the part of the time in which each part works.
    """

    runs_per_s: float
    limited_by: str
    busy: Mapping[str, float]


@dataclass(frozen=True)
class Way:
    """A direction of PCIe.

    Attributes:
        transfer_gb_s, total_gb_s: of one transfer, and of all that the host driver has in flight.
        source: who published the latter; empty if it is assumed.
    """

    part: str
    transfer_gb_s: float
    total_gb_s: float
    source: str


def ways(platform: Platform) -> tuple[Way, Way]:
    """PCIe to the card and from it."""
    return (
        _way(platform, "PCIe to the card", platform.h2c_transfer_gb_s or platform.h2c_gb_s, platform.h2c_gb_s),
        _way(platform, "PCIe from the card", platform.c2h_transfer_gb_s or platform.c2h_gb_s, platform.c2h_gb_s),
    )


def _way(platform: Platform, part: str, transfer_gb_s: float, total_gb_s: float) -> Way:
    few = TRANSFERS_IN_FLIGHT * transfer_gb_s
    source = platform.transfer_source if few < total_gb_s else platform.pcie_source
    return Way(part, transfer_gb_s, min(few, total_gb_s), source)


@lru_cache(maxsize=512)
def simulate(platform: Platform, load: CardLoad) -> Simulated:
    """Simulate some runs of each thread. Raises LinkError for more units than the card has memories for."""
    card = _Card(platform, load)
    for _ in range(_WARM * load.units * load.runs):
        card.finish_one()
    began_s, before = card.time_s, dict(card.busy_s)
    count = _RUNS * load.units * load.runs
    for _ in range(count):
        card.finish_one()
    seconds = card.time_s - began_s
    busy = {part: (each - before.get(part, 0.0)) / seconds for part, each in card.busy_s.items()}
    most = max(busy, key=busy.__getitem__)
    return Simulated(count / seconds, most if busy[most] >= _BUSY else "runs in flight", busy)


@dataclass(eq=False, slots=True)
class _Task:
    """A stage of a run.

    Attributes:
        left: the part of it that is still to do, 0 to 1.
    """

    unit: int
    stage: _Stage
    left: float = 1.0


class _Card:
    """The state of the card.

    Attributes:
        time_s: since the beginning.
        busy_s: for how long each part has worked.
    """

    def __init__(self, platform: Platform, load: CardLoad) -> None:
        self.time_s = 0.0
        self.busy_s: defaultdict[str, float] = defaultdict(float)
        self._load, self._ways, self._both_gb_s = load, ways(platform), platform.both_gb_s
        self._bank = None if platform.host_memory else bank_timing(platform.memory[0])
        self._one_bank = self._bank is not None and len(set(assign_banks(platform, load.units, PORTS)[0])) == 1
        every = [_Task(unit, _Stage.TO_CARD) for _ in range(load.runs) for unit in range(load.units)]
        self._waiting: dict[_Stage, deque[_Task]] = {stage: deque() for stage in _Stage}
        self._waiting[_Stage.TO_CARD].extend(every)
        self._active: list[_Task] = []
        self._known: dict[tuple[tuple[int, _Stage], ...], tuple[list[float], dict[str, float]]] = {}

    def finish_one(self) -> None:
        """Let time go on until a run is over."""
        while True:
            self._begin()
            key = tuple((task.unit, task.stage) for task in self._active)
            if key not in self._known:
                self._known[key] = self._rates(self._active)
            rates, busy = self._known[key]
            step_s = min(task.left / rate for task, rate in zip(self._active, rates, strict=True))
            self.time_s += step_s
            for part, share in busy.items():
                self.busy_s[part] += share * step_s
            for task, rate in zip(self._active, rates, strict=True):
                task.left -= rate * step_s
            over = min(self._active, key=lambda task: task.left)
            self._active.remove(over)
            after = _Stage((over.stage + 1) % len(_Stage))
            self._waiting[after].append(_Task(over.unit, after))
            if over.stage is _Stage.FROM_CARD:
                return

    def _begin(self) -> None:
        """Let what waits begin where there is a place for it, and keep the order in which the same work is the same key."""
        for stage in (_Stage.TO_CARD, _Stage.FROM_CARD):
            while self._waiting[stage] and sum(task.stage is stage for task in self._active) < TRANSFERS_IN_FLIGHT:
                self._active.append(self._waiting[stage].popleft())
        computing = {task.unit for task in self._active if task.stage is _Stage.KERNEL}
        later: deque[_Task] = deque()
        for task in self._waiting[_Stage.KERNEL]:
            (later if task.unit in computing else self._active).append(task)
            computing.add(task.unit)
        self._waiting[_Stage.KERNEL] = later
        self._active.sort(key=lambda task: (task.stage, task.unit))

    def _rates(self, active: list[_Task]) -> tuple[list[float], dict[str, float]]:
        """The rate of each task, in tasks per second, and the share of each part that all of them use."""
        needs = [self._needs(task, active) for task in active]
        sizes = [self._size(task) for task in active]
        most = [self._most(task) for task in active]
        rates = _share(needs, sizes, most)
        busy: defaultdict[str, float] = defaultdict(float)
        for need, rate in zip(needs, rates, strict=True):
            for part, seconds in need.items():
                busy[part] += seconds * rate
        banks = [share for part, share in busy.items() if part.startswith("bank ")]
        shares = {part: share for part, share in busy.items() if not part.startswith("bank ")}
        if self._bank:
            results = [share for part, share in busy.items() if part.startswith("bank y")]
            inputs = sum(banks) - sum(results)
            shares["memory bank"] = max(inputs, sum(results)) / self._load.units
        shares["kernel"] = sum(
            rate * self._load.kernel_s for task, rate in zip(active, rates, strict=True) if task.stage is _Stage.KERNEL
        ) / self._load.units  # fmt: skip
        return rates, shares

    def _size(self, task: _Task) -> int:
        """The bytes of a task."""
        load = self._load
        return (load.x_bytes, load.x_bytes + load.y_bytes, load.y_bytes)[task.stage]

    def _most(self, task: _Task) -> float:
        """The rate of a task alone."""
        if task.stage is _Stage.KERNEL:
            return 1 / self._load.kernel_s
        return self._way(task).transfer_gb_s * 1e9 / self._size(task)

    def _way(self, task: _Task) -> Way:
        """The direction of a transfer."""
        return self._ways[0] if task.stage is _Stage.TO_CARD else self._ways[1]

    def _needs(self, task: _Task, active: Iterable[_Task]) -> dict[str, float]:
        """The seconds for which a task occupies each part."""
        needs: dict[str, float] = {}
        if task.stage is not _Stage.KERNEL:
            way = self._way(task)
            needs[way.part] = self._size(task) / (way.total_gb_s * 1e9)
            if self._both_gb_s:
                needs["PCIe both ways"] = self._size(task) / (self._both_gb_s * 1e9)
        if self._bank:
            beside = [stream for other in active for stream in self._streams(other)]
            needs |= _banks_s(self._bank, self._streams(task), beside)
        return needs

    def _streams(self, task: _Task) -> list[_Stream]:
        return _streams(task.stage, (self._load.x_bytes, self._load.y_bytes), task.unit, one_bank=self._one_bank)


def run_bank_s(bank: BankTiming, event_bytes: tuple[int, int], *, one_bank: bool) -> float:
    """The seconds for which a run that has the card to itself occupies its memory bank; of two banks, the busier one.

    Args:
        event_bytes: of the run's inputs and of its results.
        one_bank: whether inputs and results share a bank.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    for stage in _Stage:
        streams = _streams(stage, event_bytes, 0, one_bank=one_bank)
        for name, taken in _banks_s(bank, streams, streams).items():
            seconds[name] += taken
    return max(seconds.values())


def _streams(stage: _Stage, event_bytes: tuple[int, int], unit: int, *, one_bank: bool) -> list[_Stream]:
    """The streams of a stage of a run."""
    x_bytes, y_bytes = event_bytes
    x = f"bank x{unit}"
    y = x if one_bank else f"bank y{unit}"
    return [
        [(x, True, x_bytes)],
        [(x, False, x_bytes), (y, True, y_bytes)],
        [(y, False, y_bytes)],
    ][stage]


def _banks_s(bank: BankTiming, streams: Iterable[_Stream], active: Iterable[_Stream]) -> dict[str, float]:
    """The seconds that the bytes of streams take of each of their banks, beside all that are active, these included."""
    seconds: defaultdict[str, float] = defaultdict(float)
    beside: defaultdict[str, list[_Stream]] = defaultdict(list)
    for stream in active:
        beside[stream[0]].append(stream)
    for stream in streams:
        seconds[stream[0]] += _bank_s(bank, stream, beside[stream[0]])
    return dict(seconds)


def _bank_s(bank: BankTiming, stream: _Stream, active: list[_Stream]) -> float:
    """The seconds that a stream's bytes take of its bank, beside the others that are active in it."""
    _, writes, size = stream
    others = sum(each for _, _, each in active) - size
    misses = max(size / bank.row_bytes, min(size, others) / BURST_BYTES)
    miss_ns = bank.write_miss_ns if writes else bank.read_miss_ns
    written, read = (sum(each for _, way, each in active if way is which) for which in (True, False))
    fewer = written <= read if writes else read < written  # turns of the bus are those of the direction with fewer bytes
    turns = size / BURST_BYTES if fewer and written and read else 0.0
    return ((size * bank.byte_ns + misses * miss_ns) / (1 - bank.refresh) + turns * bank.turnaround_ns) / 1e9


def _share(needs: list[dict[str, float]], sizes: list[int], most: list[float]) -> list[float]:
    """The tasks' rates if all get the same bytes per second, until a part is full or a task at its own rate."""
    rates = [0.0] * len(needs)
    left = set(range(len(needs)))
    free = {part: 1.0 for need in needs for part in need}
    while left:
        steps = [((most[task] - rates[task]) * sizes[task], task, "") for task in left]
        for part, share in free.items():
            used = sum(needs[task].get(part, 0.0) / sizes[task] for task in left)
            steps += [(share / used, -1, part)] if used else []
        step, full, part = min(steps)
        for task in left:
            rates[task] += step / sizes[task]
            for name, seconds in needs[task].items():
                free[name] = max(0.0, free[name] - step / sizes[task] * seconds)
        left -= {full} if full >= 0 else {task for task in left if part in needs[task]}
    return rates
