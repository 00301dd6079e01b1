# SPDX-License-Identifier: Apache-2.0
"""Converts the server's objects into Triton's protobuf messages, for all RPCs other than inference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tritonclient.grpc import service_pb2

from hypersonic.server.config.schema import TensorConfig
from hypersonic.server.inference.model import Model
from hypersonic.server.inference.repository import IndexEntry, ModelState
from hypersonic.server.inference.shm import Region
from hypersonic.server.statistics.duration import Duration
from hypersonic.server.statistics.model import Snapshot
from hypersonic.server.statistics.responses import ResponseDurations


def model_metadata(model: Model, versions: Iterable[int]) -> service_pb2.ModelMetadataResponse:
    """Return a model's metadata. Shapes begin with -1 if the model has a batch dimension. versions: those to list."""
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
            inference_stats=_inference_statistics(figures),
        )
        for rows, durations in sorted(figures.batches.items()):
            message.batch_stats.add(
                batch_size=rows,
                compute_input=_duration(durations.compute_input),
                compute_infer=_duration(durations.compute_infer),
                compute_output=_duration(durations.compute_output),
            )
        for index, each in sorted(figures.responses.by_index.items()):
            message.response_stats[str(index)].CopyFrom(_response_statistics(each))
    return response


def _response_statistics(figures: ResponseDurations) -> service_pb2.InferResponseStatistics:
    return service_pb2.InferResponseStatistics(
        compute_infer=_duration(figures.compute_infer),
        compute_output=_duration(figures.compute_output),
        success=_duration(figures.success),
        fail=_duration(figures.fail),
        empty_response=_duration(figures.empty_response),
        cancel=_duration(figures.cancel),
    )


def _inference_statistics(figures: Snapshot) -> service_pb2.InferStatistics:
    return service_pb2.InferStatistics(
        success=_duration(figures.success),
        fail=_duration(figures.failed),
        queue=_duration(figures.queue),
        compute_input=_duration(figures.compute_input),
        compute_infer=_duration(figures.compute_infer),
        compute_output=_duration(figures.compute_output),
        cache_hit=_duration(Duration()),
        cache_miss=_duration(Duration()),
    )


def _duration(duration: Duration) -> service_pb2.StatisticDuration:
    return service_pb2.StatisticDuration(count=duration.count, ns=duration.ns)


def repository_index(entries: Iterable[IndexEntry], *, ready_only: bool) -> service_pb2.RepositoryIndexResponse:
    """Return the index as a message. ready_only: leave out the versions that are not READY."""
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
