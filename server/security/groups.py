# SPDX-License-Identifier: Apache-2.0
"""Triton's protocol groups: which RPC and which HTTP path belongs to which.

Both tables are complete: what stands in neither is refused as soon as any policy is set, so that a path added later is
closed until somebody decides whose it is. Which RPC is in which group was asked of tritonserver 2.51, one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


class Group(StrEnum):
    """What `--grpc-restricted-protocol` and `--http-restricted-api` name; METRICS is ours, Triton's cannot be restricted."""

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


#: the groups that Triton's two options know
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

_MODEL = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
_REPOSITORY = ("/v2/repository", "/v2/repository/{repository}")
_SHARED_MEMORY = tuple(
    f"/v2/{kind}sharedmemory{region}/{verb}"
    for kind in ("system", "cuda")
    for region in ("", "/region/{region}")
    for verb in ("status", "register", "unregister")
)

#: HTTP: path template -> group, whatever the method; the first that fits counts, so literal segments stand before {names}
ROUTES: Mapping[str, Group] = {
    "/v2/health/live": Group.HEALTH,
    "/v2/health/ready": Group.HEALTH,
    "/v2": Group.METADATA,
    "/v2/models/stats": Group.STATISTICS,
    **{f"{path}/index": Group.MODEL_REPOSITORY for path in _REPOSITORY},
    **{f"{path}/models/{{model}}/{verb}": Group.MODEL_REPOSITORY for path in _REPOSITORY for verb in ("load", "unload")},
    **dict.fromkeys(_SHARED_MEMORY, Group.SHARED_MEMORY),
    "/v2/trace/setting": Group.TRACE,
    "/v2/models/{model}/trace/setting": Group.TRACE,
    "/v2/logging": Group.LOGGING,
    **{f"{path}/ready": Group.HEALTH for path in _MODEL},
    **{f"{path}/config": Group.MODEL_CONFIG for path in _MODEL},
    **{f"{path}/stats": Group.STATISTICS for path in _MODEL},
    **{f"{path}/{verb}": Group.INFERENCE for path in _MODEL for verb in ("infer", "generate", "generate_stream")},
    **dict.fromkeys(_MODEL, Group.METADATA),
    "/metrics": Group.METRICS,
    **dict.fromkeys(("/", "/status.json", "/status.js", "/status.css"), Group.STATISTICS),  # the status page
}


def _pattern(template: str) -> str:
    return re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))


_GROUPS = tuple(ROUTES.values())
_PATHS = re.compile("|".join(f"({_pattern(template)})" for template in ROUTES))


def group_of_path(path: str) -> Group | None:
    """Of a decoded URL path, as ASGI gives it; None for a path that is in no group."""
    found = _PATHS.fullmatch(path)
    return _GROUPS[found.lastindex - 1] if found and found.lastindex else None
