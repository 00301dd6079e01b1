# SPDX-License-Identifier: Apache-2.0
"""Triton's protocol groups, and the group of each RPC. An HTTP route names its own group (asgi.py).

The table is complete: as soon as any policy is set, an RPC that is not in it is refused, so that a new RPC stays closed until
it is given a group. The group of each RPC was determined by querying tritonserver 2.51.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Group(StrEnum):
    """The groups that `--grpc-restricted-protocol` and `--http-restricted-api` name. METRICS exists only in this server."""

    HEALTH = "health"
    METADATA = "metadata"
    INFERENCE = "inference"
    SHARED_MEMORY = "shared-memory"
    MODEL_CONFIG = "model-config"
    MODEL_REPOSITORY = "model-repository"
    STATISTICS = "statistics"
    TRACE = "trace"
    LOGGING = "logging"
    METRICS = "metrics"


#: the groups that Triton's two options accept
RESTRICTABLE = tuple(group for group in Group if group is not Group.METRICS)

_BY_GROUP = {
    Group.HEALTH: ("ServerLive", "ServerReady", "ModelReady"),
    Group.METADATA: ("ServerMetadata", "ModelMetadata"),
    Group.INFERENCE: ("ModelInfer", "ModelStreamInfer"),
    Group.SHARED_MEMORY: tuple(
        f"{kind}SharedMemory{verb}" for kind in ("System", "Cuda") for verb in ("Status", "Register", "Unregister")
    ),
    Group.MODEL_CONFIG: ("ModelConfig",),
    Group.MODEL_REPOSITORY: ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
    Group.STATISTICS: ("ModelStatistics",),
    Group.TRACE: ("TraceSetting",),
    Group.LOGGING: ("LogSettings",),
}

#: gRPC: `/service/method` -> group
RPCS: Mapping[str, Group] = {
    **{f"/inference.GRPCInferenceService/{name}": group for group, names in _BY_GROUP.items() for name in names},
    **dict.fromkeys(("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"), Group.HEALTH),
}
