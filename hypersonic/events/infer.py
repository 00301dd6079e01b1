# SPDX-License-Identifier: Apache-2.0
"""Sends events to a running server, compares every answer with csim as integers, and computes rates and physics figures."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic import Client
from hypersonic.building.csim import build_csim
from hypersonic.client.describe import describe
from hypersonic.client.specs import ModelSpec
from hypersonic.events.golden import load_golden
from hypersonic.events.outcome import ON_U250, SERVED, Judged, Merit, OnCard, Outcome
from hypersonic.events.sending import ANSWER_TIMEOUT_S, NoEventsError, Tensors, closed_loop, send
from hypersonic.firmware.estimate.rates import card_rate
from hypersonic.firmware.platform import find_platform
from hypersonic.hls.spec import DATATYPES
from hypersonic.hls.tune.labels import Labels, table
from hypersonic.hls.zoo.facile.report import (
    EmptyChannels,
    Resolution,
    baselines,
    empty_channels,
    float_predict,
    resolution_table,
)
from hypersonic.hls.zoo.facile_adc.codes import channels_of
from hypersonic.hls.zoo.task import Outputs, Sample, Task, task_of
from hypersonic.own.task import OwnData, own_task
from hypersonic.progress import Step

#: the label of a compute unit's metrics that names its card
_CARD = re.compile(r'gpu_uuid="([^"]*)"')


class MetricsError(RuntimeError):
    """The server's metrics cannot be read. The message has their URL and the reason."""


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
    data: OwnData | None = None,
) -> Outcome:
    """Send `events` generated events to the server at `url`; with `check`, compare each answer with csim as integers.

    Raises NoTaskError, NoEventsError, PlatformError, ClientError, MetricsError, WrongAnswerError, and what own_task raises.

    Args:
        model: a zoo name; with data the path of a user's model file, whose rows are sent once each, in at most `events`
            requests.
        url: the gRPC address, host:port.
        metrics_url: from which the kernel's clocks are read.
        name: the model's name on the server; "" the zoo name, or that of the user's YAML.
        event_rows: the rows of an event, which is one request; 0: those of the model's task.
        on: the card whose rate is predicted.
        progress: called with one line per step.
    """
    platform = find_platform(on.platform)
    labels: tuple[Labels, ...] = ()
    if data:
        project, _ = build_csim(model, progress)
        name = name or project.name
        own = own_task(model, project, data)
        task, labels = own.task, own.labels
    else:
        task = task_of(model)
    if events < 1 or clients < 1 or event_rows < 0:
        got = f"--events is {events}, --clients is {clients} and --event-rows is {event_rows}"
        raise NoEventsError(f"{got}, expected 1 or more of each")
    rows = event_rows or task.event_rows
    if task.given:
        events = -(-task.given // event_rows) if event_rows else min(events, task.given)
        rows = -(-task.given // events)
    given = f"rows: {task.given:,} in {events:,} requests"
    progress(given if task.given else f"events: {events:,} of {rows:,} rows, seed {seed}")
    sample = task.sample(events * rows, seed)
    if not task.given and sample.rows != events * rows:
        raise NoEventsError(
            f"--event-rows is {rows}: for {events} of them the generator of {model} makes {sample.rows} rows, expected "
            f"{events * rows}; leave it out for events of {task.event_rows} rows"
        )
    with Client(url, closed_loop(clients, ANSWER_TIMEOUT_S)) as client:
        served = describe(client, name or model)
        golden = None if travels_as_float32(served) and not check else load_golden(model, served)
        inputs: Tensors = golden.travelling(sample.inputs) if golden else sample.inputs
        requests = list(zip(*(np.array_split(x, events) for x in inputs), strict=True))
        progress(f"infer: {events:,} {'requests' if data else 'events'} from {clients} clients")
        before = read_kernel_clocks(metrics_url, served.name)
        load = send(client, served.name, requests)
    worked = Counter(read_kernel_clocks(metrics_url, served.name))
    worked.subtract(before)
    clocks = worked.total()
    answers: Tensors = tuple(np.concatenate(parts) for parts in zip(*load.outputs, strict=True))
    compared = 0
    if check and golden:
        progress(f"check: {sample.rows:,} rows of answers against csim as integers")
        compared = golden.compare(inputs, answers)
    progress(f"figures: {task.figure}")
    real = golden.real(answers) if golden else tuple(np.asarray(y, np.float64).reshape(len(y), -1) for y in answers)
    tables = compare_methods(sample, real[0].reshape(-1)) if model in ("facile", "facile_adc") else ((), ())
    judged = _judge(task, labels, sample, real) if data else None
    rate = None
    if clocks:
        event_bytes = rows * row_bytes(served, "inputs"), rows * row_bytes(served, "outputs")
        units = count_units(worked)
        rate = card_rate(
            platform, clocks / events, event_bytes, units=units, network_gbps=on.network_gbps, kernel_mhz=on.kernel_mhz
        )
    return Outcome(
        served.name if data else model, load, clients, clocks, compared, rows, merit(task, sample, real), *tables, rate, judged
    )


def _judge(task: Task, labels: tuple[Labels, ...], sample: Sample, served: Outputs) -> Judged:
    trained = task.float_predict(sample.inputs) if task.float_predict else served
    off = np.abs(np.concatenate(served, axis=1) - np.concatenate(trained, axis=1))
    figures = table(labels, {"served": served, "trained": trained})
    figures.append(("from the trained model", {"served": float(off.max())}, "the largest difference of an output"))
    return Judged(served, trained, labels, tuple(figures))


def merit(task: Task, sample: Sample, served: Outputs) -> Merit:
    """Return the task's figure of merit for the served answers and for the float network; None where there is none."""
    before = task.measured(task.float_predict(sample.inputs), sample.truth) if task.float_predict else None
    got = task.measured(served, sample.truth)
    return Merit(task.figure, got, before, task.warning(got, before))


def compare_methods(sample: Sample, served: NDArray[np.float64]) -> tuple[tuple[Resolution, ...], tuple[EmptyChannels, ...]]:
    """Return the tables that compare FACILE's served energies with those of the float network and of simple methods.

    Args:
        served: (rows,) energies in GeV of the sample's channels.
    """
    (given,) = sample.inputs
    rows = channels_of(given) if given.dtype == np.uint8 else given
    predictions: dict[str, ArrayLike] = {**baselines(rows), "float network": float_predict(rows), SERVED: served}
    return tuple(resolution_table(predictions, sample.truth)), tuple(empty_channels(predictions, sample.truth))


def travels_as_float32(served: ModelSpec) -> bool:
    """Return whether all inputs and outputs are FP32, so that numbers need no conversion."""
    return all(tensor.datatype == "FP32" for tensor in (*served.inputs, *served.outputs))


def row_bytes(served: ModelSpec, side: str) -> int:
    """Return the bytes of a row on the wire.

    Args:
        side: "inputs" or "outputs".
    """
    return sum(prod(tensor.shape) * DATATYPES[tensor.datatype].bytes for tensor in getattr(served, side))


def read_kernel_clocks(metrics_url: str, model: str) -> dict[str, int]:
    """Return the clocks in which each compute unit of the model had a run in flight, by the unit's labels.

    Raises MetricsError if the metrics cannot be read.
    """
    try:
        with urllib.request.urlopen(metrics_url, timeout=10) as answer:  # noqa: S310 - the operator's own address
            text = answer.read().decode()
    except (OSError, ValueError) as error:
        raise MetricsError(f"no metrics from {metrics_url}: {error}; give the server's address as --metrics-url") from error
    name, label = "fpga_compute_unit_busy_cycles_total{", f'model="{model}"'
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(name) and label in line]
    return {labels: int(float(value)) for labels, value in lines}


def count_units(worked: Mapping[str, int]) -> int:
    """Return the number of compute units that worked, on the card with most of them. A model that takes turns is on one card.

    Args:
        worked: clocks by labels.
    """
    cards = Counter(tuple(_CARD.findall(labels)) for labels, clocks in worked.items() if clocks)
    return max(cards.values(), default=1)
