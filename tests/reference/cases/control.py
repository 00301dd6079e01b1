# SPDX-License-Identifier: Apache-2.0
"""Models that do not load, and model control: what is asked of a server that serves repository.BROKEN in explicit mode.

Every case leaves `good` as it found it, so that cases do not depend on each other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2

from tests.reference.cases.infer import good
from tests.reference.pair import Side
from tests.reference.repository import BROKEN, MODELS
from tests.reference.wire import Wire, given, message
from tests.support.waiting import wait_until

Case = Callable[[Side], Any]
_SOURCE = (MODELS / "addsub.py").read_bytes()
#: a whole configuration in JSON: other than the file's, the largest batch is 2
_CONFIG = json.dumps({
    "backend": "python", "max_batch_size": 2,
    "input": [{"name": n, "data_type": "TYPE_FP32", "dims": [16]} for n in ("INPUT0", "INPUT1")],
    "output": [{"name": n, "data_type": "TYPE_FP32", "dims": [16]} for n in ("OUTPUT0", "OUTPUT1")],
})  # fmt: skip
_REPOSITORYS = json.dumps(json.loads(_CONFIG) | {"max_batch_size": 8})


def cases() -> dict[str, Case]:
    """All of them, by name."""
    broken = {f"state of {name}": _state(name) for name in BROKEN}
    refused = {f"infer on {name}": _infer(name) for name in BROKEN}
    return broken | refused | _asked() | _loads() | _overrides() | _dependents()


def _state(name: str) -> Case:
    """Versions and states; the reasons are each server's own words."""

    def ask(side: Side) -> Any:
        models = side.wire.rpc("RepositoryIndex").get("models", [])
        entries = [m for m in models if m["name"] == name]
        return [(m.get("version"), m.get("state"), bool(m.get("reason"))) for m in entries]

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
        "config that is not text": lambda side: _load(side.wire, "good", config=b"x"),
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

    def in_base64(text: str) -> Case:
        def ask(side: Side) -> Any:
            parameters = {"config": _CONFIG, "file:1/model.py": text}
            seen = [side.wire.http("POST", "/v2/repository/models/sent/load", {"parameters": parameters})[::2]]
            return [
                *seen,
                _short(side.wire.infer(message("sent", good()))),
                side.wire.rpc("RepositoryModelUnload", model_name="sent"),
            ]

        return ask

    text = base64.b64encode(_SOURCE + b"#" * ((1 - len(_SOURCE)) % 3)).decode()
    lines = [text[start : start + 72] for start in range(0, len(text), 72)]
    return {
        "unload and load": unloaded,
        "load with another configuration": overridden,
        "load a model that is sent": with_file,
        "HTTP load of a file in lines of base64": in_base64("\r\n".join(lines) + "\n"),
        "HTTP load of a file in base64 without its end": in_base64(text.rstrip("=")),
        "HTTP load of a file that is not base64": in_base64("!" + text),
    }


def _settled(wire: Wire) -> Any:
    """The index of `good` once it says it is unloaded."""

    def entry() -> list[dict[str, str]]:
        return [m for m in wire.rpc("RepositoryIndex").get("models", []) if m["name"] == "good"]

    wait_until(lambda: any(m.get("reason") == "unloaded" for m in entry()))
    return entry()


def _tried(**parameters: str | bytes) -> Case:
    """The answer to such a load of `good`, and whether it serves as before; then it is loaded as the repository has it."""

    def ask(side: Side) -> Any:
        try:
            reply = _load(side.wire, "good", **parameters)
            config = side.wire.rpc("ModelConfig", name="good").get("config", {})
            return reply, config.get("max_batch_size"), _short(side.wire.infer(message("good", good())))
        finally:
            _load(side.wire, "good", config=_REPOSITORYS)
            _load(side.wire, "good")

    return ask


def _changed(**fields: Any) -> str:
    return json.dumps(json.loads(_CONFIG) | fields)


def _overrides() -> dict[str, Case]:
    file = _SOURCE
    tried: dict[str, dict[str, str | bytes]] = {
        "numbers as texts": {"config": _changed(max_batch_size="3")},
        "another name": {"config": _changed(name="other")},
        "its own name": {"config": _changed(name="good")},
        "an unknown field": {"config": _changed(nothing=1)},
        "a field of another type": {"config": _changed(max_batch_size="x")},
        "an unknown backend": {"config": _changed(backend="nosuch")},
        "a largest batch below 0": {"config": _changed(max_batch_size=-1)},
        "an empty text": {"config": ""},
        "an empty object": {"config": "{}"},
        "a list": {"config": "[]"},
        "a version that is not there": {"config": _changed(version_policy={"specific": {"versions": ["5"]}})},
        "a file": {"config": _CONFIG, "file:1/model.py": file},
        "a file of another version": {"config": _CONFIG, "file:2/model.py": file},
        "a file of no version": {"config": _CONFIG, "file:model.py": file},
        "a file above": {"config": _CONFIG, "file:../model.py": file},
        "a file above its version": {"config": _CONFIG, "file:1/../../model.py": file},
        "a file by its absolute path": {"config": _CONFIG, "file:/1/model.py": file},
        "a file without a name": {"config": _CONFIG, "file:": file},
        "a file in a directory of its version": {"config": _CONFIG, "file:1/model.py": file, "file:1/more/x.txt": b"x"},
        "a file that is a text": {"config": _CONFIG, "file:1/model.py": "x"},
        "a file that does not load": {"config": _CONFIG, "file:1/model.py": b"x ="},
    }
    return {f"override: {name}": _tried(**parameters) for name, parameters in tried.items()}


def _dependents() -> dict[str, Case]:
    names = ("base", "dependent")

    def states(wire: Wire) -> Any:
        return {
            m["name"]: (m.get("state"), m.get("reason")) for m in wire.rpc("RepositoryIndex")["models"] if m["name"] in names
        }

    def unloaded(wire: Wire, *which: str) -> Any:
        wait_until(lambda: all(states(wire)[name][1] == "unloaded" for name in which))
        return states(wire)

    def asked(wire: Wire) -> Any:
        return [(_short(wire.infer(_request(name))), wire.rpc("ModelReady", name=name)) for name in names]

    def unload(wire: Wire, value: bool | str | None) -> Any:
        request = service_pb2.RepositoryModelUnloadRequest(model_name="base")
        if value is not None:
            setattr(request.parameters["unload_dependents"], "bool_param" if isinstance(value, bool) else "string_param", value)
        return wire.call("RepositoryModelUnload", request)

    def together(side: Side) -> Any:
        wire = side.wire
        seen = [states(wire), unload(wire, True), unloaded(wire, *names), asked(wire)]
        return [*seen, wire.rpc("RepositoryModelLoad", model_name="dependent"), states(wire), asked(wire)]

    def alone(side: Side) -> Any:
        wire = side.wire
        seen = [unload(wire, False), unloaded(wire, "base")["base"], asked(wire)[0]]
        return [
            *seen,
            wire.rpc("RepositoryModelLoad", model_name="base"),
            wire.rpc("RepositoryModelLoad", model_name="dependent"),
            asked(wire),
        ]

    def over_http(side: Side) -> Any:
        wire = side.wire
        seen = [
            wire.http("POST", "/v2/repository/models/base/unload", {"parameters": {"unload_dependents": True}})[::2],
            unloaded(wire, *names),
        ]
        return [*seen, wire.http("POST", "/v2/repository/models/dependent/load")[::2], asked(wire)]

    return {
        "dependents: unloaded together": together,
        "dependents: unloaded alone": alone,
        "dependents: unloaded over HTTP": over_http,
        "dependents: told by a text": lambda side: unload(side.wire, "true"),
    }  # fmt: skip


def _request(model: str) -> Any:
    row = np.zeros((1, 16), np.int32)
    return message(
        model, [given(name, row, "INT32") for name in (("A", "B") if model == "dependent" else ("INPUT0", "INPUT1"))]
    )
