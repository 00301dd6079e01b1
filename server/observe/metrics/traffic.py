# SPDX-License-Identifier: Apache-2.0
"""Metrics hypersonic_*: the server's state, the requests it holds, its connections, and refused clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hypersonic.server.core.inference.repository import ModelState
from hypersonic.server.limits.sockets import open_connections
from hypersonic.server.observe.facts import Moment
from hypersonic.server.observe.served import Served
from hypersonic.server.statistics.exposition import Family, Sample, plain
from hypersonic.server.statistics.refusals import Protocol, Refusal


class Traffic(NamedTuple):
    """The connections at one moment.

    Attributes:
        connections: front end -> open connections.
        cut_off: fault -> clients.
    """

    connections: Mapping[str, int]
    streams: int
    refused: Mapping[tuple[Protocol, Refusal], int]
    cut_off: Mapping[str, int]


def read_traffic(service: Served) -> Traffic:
    """Read the present counts; takes a few microseconds per connection."""
    counted = open_connections(service.ports.values())
    return Traffic(
        {front_end: counted[port] for front_end, port in service.ports.items() if port in counted},
        len(service.streams),
        service.refusals.counts,
        {str(fault): count for fault, count in service.clients.counts.items()},
    )


def server_families(service: Served, moment: Moment) -> Iterator[Family]:
    """Yield all hypersonic_* families of the server."""
    admission = service.admission
    yield plain("hypersonic_ready", "gauge", "1 while the server is ready", service.ready)
    states = service.repository.states()
    yield Family(
        "hypersonic_model_versions",
        "gauge",
        "Model versions by their state in the repository's index",
        [Sample({"state": str(state)}, states[state]) for state in ModelState if state is not ModelState.UNKNOWN],
    )
    in_service = [Sample(model.labels, model.in_service) for model in moment.models]
    yield Family("hypersonic_model_in_service", "gauge", "1 while the model takes requests", in_service)
    for name, kind, text, value in (
        ("requests_in_flight", "gauge", "Inference requests in the server", admission.requests),
        ("bytes_in_flight", "gauge", "Bytes of those requests", admission.size_bytes),
        ("bytes_in_flight_limit", "gauge", "Most bytes of requests held at once, 0 = no limit", admission.limit_bytes),
        ("requests_refused_total", "counter", "Requests refused for their bytes", admission.refused),
    ):
        yield plain(f"hypersonic_server_{name}", kind, text, value)
    yield from _budget_families(service)
    yield from _traffic_families(read_traffic(service))


def _budget_families(service: Served) -> Iterator[Family]:
    budgets = service.saturation.budgets
    for name, kind, text, values in (
        ("used", "gauge", "What is in use of what clients share", {b: s.used for b, s in budgets.items()}),
        ("limit", "gauge", "How much there is to share, 0 = no limit", {b: s.limit for b, s in budgets.items()}),
        ("refusals_total", "counter", "Requests for a share that were refused", {b: s.refusals for b, s in budgets.items()}),
        (
            "saturated", "gauge", "1 while a client of a new address would be refused",
            {b: s.full_since is not None for b, s in budgets.items()},
        ),
    ):  # fmt: skip
        samples = [Sample({"budget": budget}, value) for budget, value in values.items()]
        yield Family(f"hypersonic_budget_{name}", kind, text, samples)


def _traffic_families(traffic: Traffic) -> Iterator[Family]:
    yield Family(
        "hypersonic_server_clients_cut_off_total",
        "counter",
        "Clients cut off because they did not send the rest of a request or read their answers",
        [Sample({"fault": fault}, count) for fault, count in traffic.cut_off.items()],
    )
    yield Family(
        "hypersonic_connections",
        "gauge",
        "Open connections by front end",
        [Sample({"front_end": front_end}, count) for front_end, count in traffic.connections.items()],
    )
    yield plain("hypersonic_streams", "gauge", "Open ModelStreamInfer streams", traffic.streams)
    yield Family(
        "hypersonic_calls_refused_total",
        "counter",
        "Calls refused before a model saw them",
        [Sample({"protocol": protocol, "reason": reason}, count) for (protocol, reason), count in traffic.refused.items()],
    )
