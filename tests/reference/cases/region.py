# SPDX-License-Identifier: Apache-2.0
"""System shared memory: regions registered over gRPC and HTTP, requests that read and write them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from tests.reference.cases.infer import Case, good
from tests.reference.wire import Tensor, Value, Wire, message
from tests.support.waiting import holds_within

SIZE_BYTES = 256
_HTTP = "/v2/systemsharedmemory"
#: where a tensor lies: region, bytes, offset
Place = tuple[str, int, int]


def _view(segment: SharedMemory) -> memoryview:
    assert segment.buf is not None, "it is None once the segment is closed"
    return segment.buf


@contextmanager
def _segment() -> Iterator[SharedMemory]:
    """Two rows of 16 floats at 0 and 64; the rest is zero."""
    segment = SharedMemory(f"reference-{uuid.uuid4().hex}", create=True, size=SIZE_BYTES)
    try:
        _view(segment)[:128] = np.arange(32, dtype=np.float32).tobytes()
        yield segment
    finally:
        segment.close()
        segment.unlink()


def cases() -> dict[str, Case]:
    """All of them, by name. Each has a segment of its own, registered as `r` with SIZE_BYTES, and none when it ends."""
    asked: dict[str, Callable[[Wire, str], Any]] = {
        "status": lambda wire, key: wire.rpc("SystemSharedMemoryStatus"),
        "status of one": lambda wire, key: wire.rpc("SystemSharedMemoryStatus", name="r"),
        "HTTP status": lambda wire, key: wire.http("GET", f"{_HTTP}/status")[::2],
        "HTTP status of one": lambda wire, key: wire.http("GET", f"{_HTTP}/region/r/status")[::2],
        "registered twice": _register,
        "registered twice over HTTP": _http_register,
        "registered under another name": lambda wire, key: [_register(wire, key, "s"), _names(wire)],
        "registered over HTTP": lambda wire, key: [_http_register(wire, key, "s"), _names(wire)],
        "part of a segment": lambda wire, key: [_again(wire, key, 64, 64), _names(wire), _infer(wire, ("r", 64, 0), ("r", 64, 0))],
        "larger than its segment": lambda wire, key: _again(wire, key, 1 << 20),
        "offset past its segment": lambda wire, key: _again(wire, key, 64, 1 << 20),
        "of no bytes": lambda wire, key: _again(wire, key, 0),
        "unregistered": lambda wire, key: [wire.rpc("SystemSharedMemoryUnregister", name="r"), _names(wire), _infer(wire, ("r", 64, 0), ("r", 64, 64))],
        "unregistered over HTTP": lambda wire, key: [wire.http("POST", f"{_HTTP}/region/r/unregister")[::2], _names(wire)],
        "all unregistered over HTTP": lambda wire, key: [wire.http("POST", f"{_HTTP}/unregister")[::2], _names(wire)],
        "inputs from it": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 64)),
        "an output to it": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 64), ("r", 64, 128)),
        "an output to more than it needs": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 64), ("r", 128, 128)),
        "an output that does not fit": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 64), ("r", 60, 128)),
        "an output past its end": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 64), ("r", 64, 224)),
        "an input past its end": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 224)),
        "an input far past its end": lambda wire, key: _infer(wire, ("r", 64, 0), ("r", 64, 1 << 40)),
        "an input of too few bytes": lambda wire, key: _infer(wire, ("r", 60, 0), ("r", 64, 64)),
        "an input of too many bytes": lambda wire, key: _infer(wire, ("r", 68, 0), ("r", 64, 64)),
        "an input of no size": lambda wire, key: _infer_with(wire, {"shared_memory_region": "r"}),
        "an input of a negative size": lambda wire, key: _infer_with(wire, {"shared_memory_region": "r", "shared_memory_byte_size": -64}),
        "an input of a negative offset": lambda wire, key: _infer_with(wire, {"shared_memory_region": "r", "shared_memory_byte_size": 64, "shared_memory_offset": -64}),
        "an input's region no text": lambda wire, key: _infer_with(wire, {"shared_memory_region": 7, "shared_memory_byte_size": 64}),
        "an input's size a text": lambda wire, key: _infer_with(wire, {"shared_memory_region": "r", "shared_memory_byte_size": "64"}),
        "an input's size alone": lambda wire, key: _infer_with(wire, {"shared_memory_byte_size": 64}),
        "contents beside a region": lambda wire, key: wire.infer(message("addsub", [
            Tensor("INPUT0", "FP32", [1, 16], None, ("fp32_contents", [1.0] * 16), _where(("r", 64, 0))), good()[1],
        ])),
        "raw contents beside a region": lambda wire, key: wire.infer(message("addsub", [good()[0]._replace(parameters=_where(("r", 64, 0))), good()[1]])),
        "one input from it, one raw": lambda wire, key: wire.infer(message("addsub", [good()[0]._replace(data=None, parameters=_where(("r", 64, 0))), good()[1]])),
        "over HTTP": lambda wire, key: _http_infer(wire, ("r", 64, 0), ("r", 64, 128)),
        "over HTTP, past its end": lambda wire, key: _http_infer(wire, ("r", 64, 224), ("r", 64, 128)),
        "over HTTP, an output that does not fit": lambda wire, key: _http_infer(wire, ("r", 64, 0), ("r", 60, 128)),
        "in a stream": lambda wire, key: wire.stream([_request(("r", 64, 0), ("r", 64, 64), ("r", 64, 128))]),
        "classes to it": lambda wire, key: wire.infer(_classes(("r", 128, 128))),
    }  # fmt: skip
    return {f"region: {name}": _with_region(ask) for name, ask in asked.items()}


def _with_region(ask: Callable[[Wire, str], Any]) -> Case:
    """The answer, and the contents of the segment's output part afterwards."""

    def case(wire: Wire) -> Any:
        with _segment() as segment:
            key = f"/{segment.name}"
            try:
                _register(wire, key)
                reply = ask(wire, key)
                _await_output(reply, segment)
                return _nameless(reply, key), bytes(_view(segment)[128:SIZE_BYTES]).rstrip(b"\0")
            finally:
                wire.rpc("SystemSharedMemoryUnregister")

    return case


def _await_output(said: Any, segment: SharedMemory) -> None:
    """On a loaded machine Triton was seen to answer before what it answers stood in the region: let it, for five seconds."""
    outputs = said.get("outputs", ()) if isinstance(said, dict) else ()
    elsewhere = any(not output[-1] for output in outputs)
    if elsewhere:
        holds_within(lambda: any(_view(segment)[128:SIZE_BYTES]), 5)


def _nameless(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return value.replace(key, "<key>")
    if isinstance(value, dict):
        return {k: _nameless(v, key) for k, v in value.items()}
    return type(value)(_nameless(v, key) for v in value) if type(value) in (list, tuple) else value


def _names(wire: Wire) -> Any:
    return wire.rpc("SystemSharedMemoryStatus")


def _register(wire: Wire, key: str, name: str = "r", byte_size: int = SIZE_BYTES, offset: int = 0) -> Any:
    return wire.rpc("SystemSharedMemoryRegister", name=name, key=key, byte_size=byte_size, offset=offset)


def _again(wire: Wire, key: str, byte_size: int, offset: int = 0) -> Any:
    wire.rpc("SystemSharedMemoryUnregister")
    return _register(wire, key, "r", byte_size, offset)


def _http_register(wire: Wire, key: str, name: str = "r") -> Any:
    return wire.http("POST", f"{_HTTP}/region/{name}/register", {"key": key, "offset": 0, "byte_size": SIZE_BYTES})[::2]


def _where(place: Place) -> dict[str, Value]:
    region, size_bytes, offset = place
    given: dict[str, Value] = {"shared_memory_region": region, "shared_memory_byte_size": size_bytes}
    return given | ({"shared_memory_offset": offset} if offset else {})


def _request(first: Place, second: Place, to: Place | None = None) -> Any:
    inputs = [
        Tensor(name, "FP32", [1, 16], parameters=_where(place)) for name, place in (("INPUT0", first), ("INPUT1", second))
    ]
    request = message("addsub", inputs, ["OUTPUT0"], id="shm")
    for key, value in _where(to).items() if to else ():
        setattr(request.outputs[0].parameters[key], "string_param" if isinstance(value, str) else "int64_param", value)
    return request


def _infer(wire: Wire, first: Place, second: Place, to: Place | None = None) -> Any:
    return wire.infer(_request(first, second, to))


def _infer_with(wire: Wire, parameters: dict[str, Value]) -> Any:
    return wire.infer(message("addsub", [Tensor("INPUT0", "FP32", [1, 16], parameters=parameters), good()[1]]))


def _http_infer(wire: Wire, first: Place, to: Place) -> Any:
    inputs = [{"name": n, "datatype": "FP32", "shape": [1, 16], "parameters": _where(first)} for n in ("INPUT0", "INPUT1")]
    body = {"inputs": inputs, "outputs": [{"name": "OUTPUT0", "parameters": _where(to)}]}
    return wire.http("POST", "/v2/models/addsub/infer", body)[::2]


def _classes(to: Place) -> Any:
    request = message(
        "classes", [Tensor("X", "FP32", [1, 4], np.arange(4, dtype=np.float32).tobytes())], ["Y"], classification=2
    )
    for key, value in _where(to).items():
        setattr(request.outputs[0].parameters[key], "string_param" if isinstance(value, str) else "int64_param", value)
    return request
