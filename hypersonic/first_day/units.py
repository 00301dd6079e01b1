# SPDX-License-Identifier: Apache-2.0
"""The steps with the model's kernel: on one unit, on all units, and with several runs in flight on each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hypersonic.firmware.estimate.rates import card_rate
from hypersonic.firmware.kernel import registers
from hypersonic.first_day.day import Built, Day, find_build, kernel_mhz
from hypersonic.first_day.kernels import check_clocks, loaded
from hypersonic.first_day.work import EVENTS, Work, make_work, run_events
from hypersonic.host.device import Device
from hypersonic.host.instance import ModelInstance

#: runs of each unit in the step `streams`, in the rehearsal and on a card, and how many of them are in flight at once
REHEARSED_RUNS, RUNS, SLOTS = 8, 1000, 2

_EVERY_EVENT = range(EVENTS)


def run_one_unit(day: Day) -> None:
    """Run the events on the first unit, one at a time. Raises WrongRowsError, DeviceError."""
    built = find_build(day, day.model)
    work, name = make_work(day, built.manifest), built.manifest.compute_units[0]
    with loaded(day, built, 1, work.rows, (name,)) as (device, (instance,)):
        _run_together(day, device, built, work, (instance,), _EVERY_EVENT)
        unit = device.compute_unit(name)
        check_clocks(day, built.manifest, name, unit.read_register(registers.RUN_CYCLES), work.events[-1].rows, unit)


def run_all_units(day: Day) -> None:
    """Run an event on each unit in turn, then every event on all units at once. Raises WrongRowsError, DeviceError."""
    built = find_build(day, day.model)
    work = make_work(day, built.manifest)
    with loaded(day, built, 1, work.rows) as (device, instances):
        for instance in instances:
            work.compare(instance.name, [0], run_events(day, work, instance.slots, [0]))
            day.record.say(f"{instance.name}: equal to csim while the other units are idle")
        _run_together(day, device, built, work, instances, _EVERY_EVENT)


def run_streams(day: Day) -> None:
    """Keep several runs in flight on each unit. Raises WrongRowsError, DeviceError."""
    built = find_build(day, day.model)
    work = make_work(day, built.manifest)
    runs = REHEARSED_RUNS if day.rehearsal else RUNS
    with loaded(day, built, SLOTS, work.rows) as (device, instances):
        _run_together(day, device, built, work, instances, [run % EVENTS for run in range(runs)])


def _run_together(
    day: Day, device: Device, built: Built, work: Work, instances: Sequence[ModelInstance], events: Sequence[int]
) -> None:
    """Run the events on each unit, on all units at the same time; compare them, and print the rate beside the prediction."""
    units = [device.compute_unit(instance.name) for instance in instances]
    before = [unit.read_register(registers.BUSY_CYCLES) for unit in units]
    began = time.perf_counter()
    with ThreadPoolExecutor(len(instances)) as pool:
        answers = list(pool.map(lambda instance: run_events(day, work, instance.slots, events), instances))
    seconds = time.perf_counter() - began
    busy = [(unit.read_register(registers.BUSY_CYCLES) - then) & 0xFFFF_FFFF for unit, then in zip(units, before, strict=True)]
    for instance, got, clocks in zip(instances, answers, busy, strict=True):
        equal = work.compare(instance.name, events, got)
        day.record.say(f"{instance.name}: {equal:,} answers equal csim; {clocks / len(events):,.0f} clocks per event")
    rate = card_rate(
        day.platform, max(busy) / len(events), work.event_bytes, units=len(instances), network_gbps=day.network_gbps,
        kernel_mhz=kernel_mhz(day, built),
    )  # fmt: skip
    limit = next(limit for limit in rate.limits if limit.part != "network")
    day.record.say(
        f"{len(events) * len(instances) / seconds:,.1f} events/s with {len(instances)} of the compute units, {day.where}"
    )
    day.record.say(day.predicted(f"at most {limit.events_per_s:,.0f} events/s, limited by the {limit.part}: {limit}"))
