# SPDX-License-Identifier: Apache-2.0
"""Everything but inference, over gRPC: metadata, configuration, readiness, repository, shared memory, settings, health."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.reference.cases.infer import Case
from tests.reference.repository import MAIN
from tests.reference.wire import Wire

#: model and version as asked
ASKED = (
    ("addsub", ""),
    ("addsub", "1"),
    ("addsub", "2"),
    ("addsub", "x"),
    ("versions", ""),
    ("versions", "1"),
    ("nope", ""),
    ("", ""),
)


def cases() -> dict[str, Case]:
    """All of them, by name."""
    cases: dict[str, Case] = {}
    for model in MAIN:
        cases[f"metadata of {model}"] = _rpc("ModelMetadata", name=model)
        cases[f"config of {model}"] = _rpc("ModelConfig", name=model)
    for model, version in ASKED:
        for rpc in ("ModelReady", "ModelMetadata", "ModelConfig"):
            cases[f"{rpc} of {model!r} {version!r}"] = _rpc(rpc, name=model, version=version)
    for model, version in (("addsub", "2"), ("addsub", "x"), ("nope", "")):
        cases[f"ModelStatistics of {model!r} {version!r}"] = _rpc("ModelStatistics", name=model, version=version)
    cases |= {
        "live": _rpc("ServerLive"), "ready": _rpc("ServerReady"), "server": _server, "index": _index(),
        "index of what is ready": _index(ready=True), "index of a repository": _index(repository_name="x"),
        "load": _rpc("RepositoryModelLoad", model_name="addsub"), "unload": _rpc("RepositoryModelUnload", model_name="addsub"),
        "load nothing": _rpc("RepositoryModelLoad"), "load from a repository": _rpc("RepositoryModelLoad", repository_name="x", model_name="addsub"),
        "cuda regions": _rpc("CudaSharedMemoryStatus"), "cuda region nowhere": _rpc("CudaSharedMemoryStatus", name="nowhere"),
        "unregister cuda": _rpc("CudaSharedMemoryUnregister"), "unregister one cuda": _rpc("CudaSharedMemoryUnregister", name="nowhere"),
        "regions": _rpc("SystemSharedMemoryStatus"), "region nowhere": _rpc("SystemSharedMemoryStatus", name="nowhere"),
        "unregister": _rpc("SystemSharedMemoryUnregister"), "unregister one": _rpc("SystemSharedMemoryUnregister", name="nowhere"),
        "register nothing": _rpc("SystemSharedMemoryRegister"),
        "register what is not there": _rpc("SystemSharedMemoryRegister", name="r", key="/no_such_segment", byte_size=64),
        "register the backend's": _rpc("SystemSharedMemoryRegister", name="r", key="/triton_python_backend_shm_region_x", byte_size=64),
        "trace settings": _rpc("TraceSetting"), "trace settings of a model": _rpc("TraceSetting", model_name="addsub"),
        "trace settings of no model": _rpc("TraceSetting", model_name="nope"), "log settings": _rpc("LogSettings"),
    }  # fmt: skip
    for service in ("", "inference.GRPCInferenceService", "another"):
        cases[f"health of {service!r}"] = partial(Wire.check_health, service=service)
    return cases


def _rpc(rpc: str, /, **fields: Any) -> Case:
    return lambda wire: wire.rpc(rpc, **fields)


def _index(**fields: Any) -> Case:
    """Its models are in no order."""

    def ask(wire: Wire) -> Any:
        answer = wire.rpc("RepositoryIndex", **fields)
        return sorted(map(str, answer.get("models", []))) or answer

    return ask


def _server(wire: Wire) -> Any:
    """The version is each one's own."""
    answer = wire.rpc("ServerMetadata")
    return {**answer, "version": bool(answer["version"])}
