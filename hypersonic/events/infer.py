# SPDX-License-Identifier: Apache-2.0
"""Events through a running server: every answer compared with csim as integers, and the figures a physicist asks for."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.client.load import InferError, Model, Tensors, describe_model, send_events
from hypersonic.events.golden import load_golden
from hypersonic.events.outcome import ON_U250, SERVED, Merit, OnCard, Outcome
from hypersonic.firmware.estimate.rates import card_rate
from hypersonic.firmware.platform import find_platform
from hypersonic.hls.spec import DATATYPES
from hypersonic.hls.zoo.facile.report import (
    EmptyChannels,
    Resolution,
    baselines,
    empty_channels,
    float_predict,
    resolution_table,
)
from hypersonic.hls.zoo.task import Outputs, Sample, Task, task_of
from hypersonic.progress import Step

#: an event's answer may take so long: csim of a large image takes a quarter of a minute, and other clients' come before it
ANSWER_TIMEOUT_S = 900.0

#: of a compute unit's metrics
_CARD = re.compile(r'gpu_uuid="([^"]*)"')


class NoEventsError(ValueError):
    """No events can be sent: how many were asked for."""


def infer(
    model: str,
    *,
    url: str,
    metrics_url: str,
    events: int,
    clients: int,
    seed: int,
    check: bool,
    progress: Step,
    name: str = "",
    event_rows: int = 0,
    on: OnCard = ON_U250,
) -> Outcome:
    """Send `events` generated events to the model at `url`; with `check`, compare each answer with csim as integers.

    name: what the server calls the model, "" = as the zoo does. event_rows: of an event, which is one request; 0: as the
    model's task has them. on: the card whose rate is predicted.

    Raises NoTaskError, NoEventsError, PlatformError, client.load.InferError, WrongAnswerError.
    """
    task, platform = task_of(model), find_platform(on.platform, retired_too=True)
    if events < 1 or clients < 1 or event_rows < 0:
        got = f"--events is {events}, --clients is {clients} and --event-rows is {event_rows}"
        raise NoEventsError(f"{got}, expected 1 or more of each")
    rows = event_rows or task.event_rows
    progress(f"events: {events} of {rows} rows, seed {seed}")
    sample = task.sample(events * rows, seed)
    if sample.rows != events * rows:
        raise NoEventsError(
            f"--event-rows is {rows}: for {events} of them the generator of {model} makes {sample.rows} rows, expected "
            f"{events * rows}; leave it out for events of {task.event_rows} rows"
        )
    served = describe_model(url, name or model)
    golden = None if served.travels_as_float32 and not check else load_golden(model, served)
    inputs: Tensors = golden.travelling(sample.inputs) if golden else sample.inputs
    requests = list(zip(*(np.array_split(x, events) for x in inputs), strict=True))
    progress(f"infer: {events} events from {clients} clients")
    before = read_kernel_clocks(metrics_url, served.name)
    load = send_events(url, served, requests, clients=clients, timeout_s=ANSWER_TIMEOUT_S)
    worked = Counter(read_kernel_clocks(metrics_url, served.name))
    worked.subtract(before)
    clocks = worked.total()
    answers: Tensors = tuple(np.concatenate(parts) for parts in zip(*load.outputs, strict=True))
    compared = 0
    if check and golden:
        progress(f"check: {sample.rows} answers against csim as integers")
        compared = golden.compare(inputs, answers)
    progress(f"figures: {task.figure}")
    real = golden.real(answers) if golden else tuple(np.asarray(y, np.float64).reshape(len(y), -1) for y in answers)
    tables = compare_methods(sample, real[0].reshape(-1)) if model == "facile" else ((), ())
    rate = None
    if clocks:
        event_bytes = rows * row_bytes(served, "inputs"), rows * row_bytes(served, "outputs")
        units = count_units(worked)
        rate = card_rate(
            platform, clocks / events, event_bytes, units=units, network_gbps=on.network_gbps, kernel_mhz=on.kernel_mhz
        )
    return Outcome(model, load, clients, clocks, compared, rows, merit(task, sample, real), *tables, rate)


def merit(task: Task, sample: Sample, served: Outputs) -> Merit:
    """The figure of the served answers, and of the float network's; None for what there is not."""
    before = task.measured(task.float_predict(sample.inputs), sample.truth) if task.float_predict else None
    return Merit(task.figure, task.measured(served, sample.truth), before)


def compare_methods(sample: Sample, served: NDArray[np.float64]) -> tuple[tuple[Resolution, ...], tuple[EmptyChannels, ...]]:
    """FACILE's served energies beside the float network's and the simple methods', on the same channels."""
    (rows,) = sample.inputs
    predictions: dict[str, ArrayLike] = {**baselines(rows), "float network": float_predict(rows), SERVED: served}
    return tuple(resolution_table(predictions, sample.truth)), tuple(empty_channels(predictions, sample.truth))


def row_bytes(served: Model, side: str) -> int:
    """Of a row's inputs or outputs on the wire."""
    return sum(prod(tensor.shape) * DATATYPES[tensor.datatype].bytes for tensor in getattr(served, side))


def read_kernel_clocks(metrics_url: str, model: str) -> dict[str, int]:
    """Clocks in which a compute unit of the model had a run in flight, by the unit's labels; raises InferError."""
    try:
        with urllib.request.urlopen(metrics_url, timeout=10) as answer:  # noqa: S310 - the operator's own address
            text = answer.read().decode()
    except (OSError, ValueError) as error:
        raise InferError(f"no metrics from {metrics_url}: {error}; give the server's address as --metrics-url") from error
    name, label = "fpga_compute_unit_busy_cycles_total{", f'model="{model}"'
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(name) and label in line]
    return {labels: int(float(value)) for labels, value in lines}


def count_units(worked: Mapping[str, int]) -> int:
    """How many compute units of one card worked, where several cards did of the one with most."""
    cards = Counter(match[1] for labels, clocks in worked.items() if clocks and (match := _CARD.search(labels)))
    return max(cards.values(), default=1)
