# SPDX-License-Identifier: Apache-2.0
"""Converts the server's objects into Triton's protobuf messages, for all RPCs other than inference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from hypersonic.server.core.config.schema import TensorConfig
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.repository import IndexEntry, ModelState
from hypersonic.server.core.inference.shm import Region
from hypersonic.server.statistics.duration import Duration

_NO_DURATION = Duration()


def model_metadata(model: Model, versions: Iterable[int]) -> service_pb2.ModelMetadataResponse:
    """Return a model's metadata. Shapes begin with -1 if the model has a batch dimension.

    Args:
        versions: those to list.
    """
    response = service_pb2.ModelMetadataResponse(
        name=model.name, versions=[str(version) for version in versions], platform=model.config.platform or model.config.backend
    )
    batch = [-1] if model.config.max_batch_size else []
    for tensors, into in ((model.config.inputs, response.inputs), (model.config.outputs, response.outputs)):
        _add_tensors(tensors, into, batch)
    return response


def _add_tensors(
    tensors: Sequence[TensorConfig], into: service_pb2.ModelMetadataResponse.TensorMetadata, batch: list[int]
) -> None:
    for tensor in tensors:
        into.add(name=tensor.name, datatype=tensor.datatype, shape=[*batch, *tensor.dims])


def model_statistics(models: Iterable[Model]) -> service_pb2.ModelStatisticsResponse:
    """Return the statistics of model versions, counted since each was loaded."""
    response = service_pb2.ModelStatisticsResponse()
    for model in models:
        figures = model.statistics.snapshot()
        message = response.model_stats.add(
            name=model.name,
            version=str(model.version),
            last_inference=figures.last_inference_ms,
            inference_count=figures.inference_count,
            execution_count=figures.execution_count,
            inference_stats=_durations(figures, service_pb2.InferStatistics),
        )
        for rows, durations in sorted(figures.batches.items()):
            batch = message.batch_stats.add()
            batch.MergeFrom(_durations(durations, service_pb2.InferBatchStatistics))
            batch.batch_size = rows
        for index, each in sorted(figures.responses.by_index.items()):
            message.response_stats[str(index)].MergeFrom(_durations(each, service_pb2.InferResponseStatistics))
    return response


def _durations(figures: object, message_type: Any) -> Any:
    """Return a message each of whose durations is the attribute of that name, or zero if there is none (nothing is cached)."""
    message = message_type()
    for field in message_type.DESCRIPTOR.fields:
        if field.message_type is not None:
            duration = getattr(figures, field.name, _NO_DURATION)
            getattr(message, field.name).MergeFrom(service_pb2.StatisticDuration(count=duration.count, ns=duration.ns))
            getattr(message, field.name).SetInParent()
    return message


def repository_index(entries: Iterable[IndexEntry], *, ready_only: bool) -> service_pb2.RepositoryIndexResponse:
    """Return the index as a message.

    Args:
        ready_only: leave out the versions that are not READY.
    """
    response = service_pb2.RepositoryIndexResponse()
    for entry in entries:
        if not ready_only or entry.state is ModelState.READY:
            response.models.add(name=entry.name, version=entry.version, state=str(entry.state), reason=entry.reason)
    return response


def shared_memory_status(regions: Iterable[Region]) -> service_pb2.SystemSharedMemoryStatusResponse:
    """Return the regions as a message, by name."""
    response = service_pb2.SystemSharedMemoryStatusResponse()
    for region in regions:
        into = response.regions[region.name]
        into.name, into.key, into.offset, into.byte_size = region
    return response
