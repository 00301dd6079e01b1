# SPDX-License-Identifier: Apache-2.0
"""The results of a simulation. Unless a docstring says otherwise, they are of the time after the warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A distribution of times in seconds.

    Attributes:
        count: of the observations; with none, all times are 0.
    """

    count: int
    mean_s: float
    p50_s: float
    p99_s: float


@dataclass(frozen=True)
class Utilisation:
    """The share of time, 0 to 1, for which each resource was busy, as a mean over the resources of a kind.

    Attributes:
        link_requests, link_answers: the site's link in each direction, of the rate that its background traffic leaves.
        server_link_requests, server_link_answers: the links of the servers.
        server_cpu: cores.
        units: compute units, of those in service.
    """

    link_requests: float
    link_answers: float
    server_link_requests: float
    server_link_answers: float
    server_cpu: float
    units: float


@dataclass(frozen=True)
class Counts:
    """Requests and how they ended, over the whole run, the warm-up included.

    requests = answered + refused + expired + unfinished.

    Attributes:
        attempts: first ones and retries.
        refused: ended with a refusal or a failed server, with no retry left.
        expired: past their deadline.
        unfinished: still under way at the end.
        wasted: requests that units finished although the client no longer waited.
        dropped: attempts that left a queue past their deadline, without an execution.
    """

    requests: int
    attempts: int
    answered: int
    refused: int
    expired: int
    unfinished: int
    wasted: int
    dropped: int


@dataclass(frozen=True)
class Second:
    """One second of the run, the warm-up included; what Prometheus would derive from the servers' counters.

    Attributes:
        start_s: its beginning.
        requests_per_s: new ones.
        attempts_per_s: first ones and retries.
        throughput_per_s: answers that clients got in time.
        refused_per_s: attempts that were refused or failed.
        p99_s: of the waits of the calls that were answered, 0 if none was.
        busy_share: `rate(fpga_compute_unit_busy_seconds_total)` per unit in service, 0 to 1.
        queue_ms_per_execution: SuperSONIC's metric, `rate(nv_inference_queue_duration_us) / rate(nv_inference_exec_count)` in
            ms, 0 without an execution.
    """

    start_s: float
    requests_per_s: float
    attempts_per_s: float
    throughput_per_s: float
    refused_per_s: float
    p99_s: float
    busy_share: float
    queue_ms_per_execution: float


@dataclass(frozen=True)
class Result:
    """A simulation's results.

    Attributes:
        measured_s: the length of the measured time.
        throughput_per_s: requests per second that units finished, in time or not.
        goodput_per_s: answers per second that clients received within their deadline.
        refused_per_s: requests per second that ended refused.
        events_per_s: events per second that were finished.
        event_s: time of an event, in an open loop that of its calls; of an asynchronous job with the waits for its others.
        call_s: the wait of a call that was answered, from its first attempt to its answer.
        queue_s: the time that a request waited on the server for a unit, in the queue and in slots.
        model_s: call_s by model.
        attempts_per_request: 1 without retries.
        refused_share: requests that ended refused, of those that ended.
        queue_ms_per_execution, requests_per_execution: sum of the queue times, and number of requests, over the number of
            executions of all loads.
        series: the whole run, second by second.
    """

    measured_s: float
    throughput_per_s: float
    goodput_per_s: float
    refused_per_s: float
    events_per_s: float
    event_s: Spread
    call_s: Spread
    queue_s: Spread
    model_s: Mapping[str, Spread]
    attempts_per_request: float
    refused_share: float
    queue_ms_per_execution: float
    requests_per_execution: float
    utilisation: Utilisation
    counts: Counts
    series: tuple[Second, ...]


@dataclass(frozen=True)
class ServerUse:
    """The share of time, 0 to 1, for which the parts of one server were busy.

    Attributes:
        link_requests, link_answers: its link.
        cpu: its cores.
        transfers: the links between host and cards.
        units: by model, the compute units on all cards.
        present: by model, the share of time for which these units were in service; below 1 for models that take turns.
    """

    link_requests: float
    link_answers: float
    cpu: float
    transfers: float
    units: Mapping[str, float]
    present: Mapping[str, float]


@dataclass(frozen=True)
class Mix:
    """The results of several loads on one farm.

    Attributes:
        loads: in the order of the loads.
        servers: in the order of the servers.
        proxy: the share of time for which the busiest part of the proxies works.
    """

    loads: tuple[Result, ...]
    servers: tuple[ServerUse, ...]
    proxy: float
