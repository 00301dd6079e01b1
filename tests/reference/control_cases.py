# SPDX-License-Identifier: Apache-2.0
"""Models that do not load, and model control: what is asked of a server that serves repository.BROKEN in explicit mode.

Every case leaves `good` as it found it, so that cases do not depend on each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tritonclient.grpc import service_pb2

from tests.reference.batching import wait_until
from tests.reference.conftest import Side
from tests.reference.infer_cases import good
from tests.reference.repository import BROKEN, MODELS
from tests.reference.wire import Wire, message

Case = Callable[[Side], Any]
_SOURCE = (MODELS / "addsub.py").read_bytes()
#: a whole configuration in JSON: other than the file's, the largest batch is 2
_CONFIG = json.dumps({
    "backend": "python", "max_batch_size": 2,
    "input": [{"name": n, "data_type": "TYPE_FP32", "dims": [16]} for n in ("INPUT0", "INPUT1")],
    "output": [{"name": n, "data_type": "TYPE_FP32", "dims": [16]} for n in ("OUTPUT0", "OUTPUT1")],
})  # fmt: skip


def cases() -> dict[str, Case]:
    """All of them, by name."""
    broken = {f"state of {name}": _state(name) for name in BROKEN}
    refused = {f"infer on {name}": _infer(name) for name in BROKEN}
    return broken | refused | _asked() | _loads()


def _state(name: str) -> Case:
    """Versions and states; the reasons are each server's own words."""

    def ask(side: Side) -> Any:
        models = side.wire.rpc("RepositoryIndex").get("models", [])
        found = [m for m in models if m["name"] == name]
        return [(m.get("version"), m.get("state"), bool(m.get("reason"))) for m in found]

    return ask


def _infer(name: str) -> Case:
    return lambda side: _short(side.wire.infer(message(name, good())))


def _short(answer: Any) -> Any:
    """A refusal, or that there was none."""
    return answer if "code" in answer else "answered"


def _load(wire: Wire, model: str, **parameters: str | bytes) -> Any:
    request = service_pb2.RepositoryModelLoadRequest(model_name=model)
    for key, value in parameters.items():
        setattr(request.parameters[key], "bytes_param" if isinstance(value, bytes) else "string_param", value)
    return wire.call("RepositoryModelLoad", request)


def _asked() -> dict[str, Case]:
    return {
        "ready": lambda side: side.wire.rpc("ServerReady"),
        "health": lambda side: side.wire.check_health(""),
        "HTTP ready": lambda side: side.wire.http("GET", "/v2/health/ready").status,
        "model ready": lambda side: side.wire.rpc("ModelReady", name="raising"),
        "metadata of a broken model": lambda side: side.wire.rpc("ModelMetadata", name="raising"),
        "statistics of a broken model": lambda side: side.wire.rpc("ModelStatistics", name="raising"),
        "index of what is ready": lambda side: side.wire.rpc("RepositoryIndex", ready=True),
        "load nothing": lambda side: side.wire.rpc("RepositoryModelLoad"),
        "load an unknown model": lambda side: side.wire.rpc("RepositoryModelLoad", model_name="nope"),
        "load by a path": lambda side: side.wire.rpc("RepositoryModelLoad", model_name="../models/good"),
        "load a broken model": lambda side: side.wire.rpc("RepositoryModelLoad", model_name="raising").get("code"),
        "unload an unknown model": lambda side: side.wire.rpc("RepositoryModelUnload", model_name="nope"),
        "unload nothing": lambda side: side.wire.rpc("RepositoryModelUnload"),
        "load what is loaded": lambda side: side.wire.rpc("RepositoryModelLoad", model_name="good"),
        "unknown parameter": lambda side: _load(side.wire, "good", nothing="x"),
        "config that is no text": lambda side: _load(side.wire, "good", config=b"x"),
        "config that is no JSON": lambda side: _load(side.wire, "good", config="{").get("code"),
        "file without config": lambda side: _load(side.wire, "good", **{"file:1/model.py": b"x"}),
        "HTTP load an unknown model": lambda side: side.wire.http("POST", "/v2/repository/models/nope/load")[::2],
        "HTTP load": lambda side: side.wire.http("POST", "/v2/repository/models/good/load")[::2],
        "HTTP unload an unknown model": lambda side: side.wire.http("POST", "/v2/repository/models/nope/unload")[::2],
    }


def _loads() -> dict[str, Case]:
    def unloaded(side: Side) -> Any:
        seen = [side.wire.rpc("RepositoryModelUnload", model_name="good"), _short(side.wire.infer(message("good", good())))]
        seen += [side.wire.rpc("ModelReady", name="good"), _settled(side.wire)]
        return [
            *seen,
            side.wire.rpc("RepositoryModelLoad", model_name="good"),
            _short(side.wire.infer(message("good", good()))),
        ]

    def overridden(side: Side) -> Any:
        seen = [_load(side.wire, "good", config=_CONFIG), side.wire.rpc("ModelConfig", name="good")["config"]["max_batch_size"]]
        return [*seen, side.wire.rpc("RepositoryModelLoad", model_name="good"), side.wire.rpc("ModelConfig", name="good")]

    def with_file(side: Side) -> Any:
        seen = [_load(side.wire, "sent", config=_CONFIG, **{"file:1/model.py": _SOURCE})]
        seen += [_short(side.wire.infer(message("sent", good()))), side.wire.rpc("RepositoryModelUnload", model_name="sent")]
        return [*seen, side.wire.rpc("RepositoryModelLoad", model_name="sent").get("code")]

    return {"unload and load": unloaded, "load with another configuration": overridden, "load a model that is sent": with_file}


def _settled(wire: Wire) -> Any:
    """The index of `good` once it says it is unloaded."""

    def entry() -> list[dict[str, str]]:
        return [m for m in wire.rpc("RepositoryIndex").get("models", []) if m["name"] == "good"]

    wait_until(lambda: any(m.get("reason") == "unloaded" for m in entry()))
    return entry()
