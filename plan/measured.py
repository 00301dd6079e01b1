# SPDX-License-Identifier: Apache-2.0
"""Reads a server's measured service times from its metrics (docs/metrics.md)."""

from __future__ import annotations

import math
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypersonic.plan.errors import PlanError
from hypersonic.plan.inputs import Service

#: the most bytes of a metrics page, and the timeout of a request for one
_MAX_BYTES, _TIMEOUT_S = 64 << 20, 10.0

_HISTOGRAM = "nv_inference_compute_infer_duration_histogram_us"
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)(?: -?\d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

#: the name and labels of a series -> its value
Samples = dict[str, list[tuple[dict[str, str], float]]]


def read_service(place: str, model: str) -> Service:
    """Return the measured executions of `model`.

    Args:
        place: the URL of a metrics page, or a file with one.

    Raises:
        PlanError: If nothing answers, or the page has no observations of this model.
    """
    return parse_service(_read(place), model, place)


def parse_service(text: str, model: str, place: str) -> Service:
    """Return the measured executions of `model` in the text of a metrics page. Raises PlanError, which names the place."""
    samples = _samples(text)
    buckets = samples.get(f"{_HISTOGRAM}_bucket", [])
    known = sorted({labels.get("model", "") for labels, _ in samples.get("nv_inference_count", [])})
    if not buckets and known:
        raise PlanError(
            f"model.metrics: {place} has no {_HISTOGRAM}, expected this histogram of model {model!r}; start the server without "
            "--metrics-config histogram_latencies=false; tritonserver does not publish it"
        )
    if not any(labels.get("model") == model for labels, _ in buckets):
        got = f"the histograms of {', '.join(known)}" if known else "no metrics of an inference server"
        raise PlanError(
            f"model.metrics: {place} has {got}, expected that of model {model!r}; name the model that was measured, or the "
            "address of a server that serves it"
        )
    counts: defaultdict[float, float] = defaultdict(float)
    for labels, value in buckets:
        if labels.get("model") == model:
            counts[_bound_s(labels.get("le", ""), place)] += value
    bounds = tuple(sorted(counts))

    def total(name: str) -> float:
        return math.fsum(value for labels, value in samples.get(name, []) if labels.get("model") == model)

    seen, sum_us = total(f"{_HISTOGRAM}_count"), total(f"{_HISTOGRAM}_sum")
    requests, executions, rows = (total(f"nv_inference_{each}") for each in ("request_success", "exec_count", "count"))
    if not (seen > 0 and sum_us > 0 and requests > 0 and executions > 0 and rows > 0):
        raise PlanError(
            f"model.metrics: {place} has {seen:g} observations of model {model!r}, expected at least one; send events first, "
            f"at the load that you plan for: hypersonic load {model}"
        )
    transfers_us = (total(f"nv_inference_compute_{each}_duration_us") for each in ("input", "output"))
    return Service(
        bounds,
        tuple(int(counts[bound]) for bound in bounds),
        mean_s=sum_us / seen / 1e6,
        rows=rows / executions,
        requests=requests / executions,
        transfer_s=math.fsum(transfers_us) / requests / 1e6,
    )


def constant_service(seconds: float, rows: int) -> Service:
    """Return executions that always take that long for one request of so many rows."""
    return Service((seconds * (1 - 1e-9), seconds * (1 + 1e-9)), (0, 1), seconds, rows, 1.0)


def service_data(service: Service) -> dict[str, Any]:
    """Return measured executions as a JSON object; an infinite bound is None."""
    return {**asdict(service), "bounds_s": [bound if math.isfinite(bound) else None for bound in service.bounds_s]}


def service_of(data: object, place: str) -> Service:
    """Return the measured executions that service_data() has written. Raises PlanError, which names the place."""
    try:
        service = _parsed(data)
    except (TypeError, KeyError, ValueError, OverflowError):
        service = None
    if service is None or not _is_valid(service):
        raise PlanError(
            f"{place}: measured is {data!s:.80}, expected bounds_s and counts of equal length, ascending, with mean_s, rows, "
            "requests and transfer_s; write the file again with --metrics and --json"
        )
    return service


def _parsed(data: Any) -> Service:
    bounds = tuple(math.inf if bound is None else float(bound) for bound in data["bounds_s"])
    numbers = {name: float(data[name]) for name in ("mean_s", "rows", "requests", "transfer_s")}
    return Service(bounds, tuple(int(count) for count in data["counts"]), **numbers)


def _is_valid(service: Service) -> bool:
    bounds, counts = service.bounds_s, service.counts
    means = (service.mean_s, service.rows, service.requests)
    return (
        all(math.isfinite(mean) and mean > 0 for mean in means)
        and 0 <= service.transfer_s < math.inf
        and len(bounds) == len(counts) > 0
        and all(a < b for a, b in pairwise((0.0, *bounds)))
        and all(a <= b for a, b in pairwise((0, *counts)))
        and counts[-1] > 0
    )


def _read(place: str) -> str:
    what = "expected the metrics of a running server, such as http://localhost:8002/metrics, or a file with them"
    try:
        if _is_url(place):
            with urllib.request.urlopen(place, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the operator's own address
                raw = answer.read(_MAX_BYTES + 1)
        else:
            with Path(place).open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        if _is_url(place):
            raise PlanError(f"model.metrics: {place} does not answer: {reason}; {what}") from error
        raise PlanError(f"model.metrics: {place} cannot be read: {reason}; {what}") from error
    if len(raw) > _MAX_BYTES:
        raise PlanError(f"model.metrics: {place} has more than {_MAX_BYTES} bytes; {what}")
    return str(raw.decode(errors="replace"))


def _is_url(place: str) -> bool:
    return re.match(r"https?://", place) is not None


def _samples(text: str) -> Samples:
    samples: Samples = defaultdict(list)
    for name, labels, value in _series(text.splitlines()):
        samples[name].append((dict(_LABEL.findall(labels)), value))
    return samples


def _series(lines: Iterable[str]) -> Iterable[tuple[str, str, float]]:
    for line in lines:
        if line.startswith("nv_inference_") and (match := _SERIES.fullmatch(line.rstrip())):
            try:
                value = float(match[3])
            except ValueError:
                continue
            if math.isfinite(value) and value >= 0:
                yield match[1], match[2] or "", value


def _bound_s(text: str, place: str) -> float:
    try:
        bound = float(text) / 1e6
    except ValueError:
        bound = math.nan
    if not bound > 0:
        raise PlanError(
            f"model.metrics: {place} has a bucket with le={text!r}, expected microseconds above 0; is it Prometheus' format?"
        )
    return bound
