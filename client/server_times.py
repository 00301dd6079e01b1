# SPDX-License-Identifier: Apache-2.0
"""Reads the times that a server itself counted for a model (ModelStatistics)."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import CallError
from hypersonic.client.pool.member import Member, Wanted

#: requests, executions, and the sums of queue, input, infer and output in ns
Sums = tuple[int, int, int, int, int, int]


def read_sums(member: Member, model: Wanted, timeout_s: float) -> Sums | None:
    """Return a server's sums for a model; None if it does not report them."""
    request = service_pb2.ModelStatisticsRequest(name=model[0], version=model[1]).SerializeToString()
    try:
        message = member.transport.unary("ModelStatistics", request, timeout_s, member.headers())
        told = service_pb2.ModelStatisticsResponse.FromString(message).model_stats
    except (CallError, DecodeError):
        return None
    sums = [0] * 6
    for one in told:
        times = one.inference_stats
        durations = (times.queue, times.compute_input, times.compute_infer, times.compute_output)
        for place, value in enumerate((times.success.count, one.execution_count, *(duration.ns for duration in durations))):
            sums[place] += value
    return (sums[0], sums[1], sums[2], sums[3], sums[4], sums[5])
