# SPDX-License-Identifier: Apache-2.0
"""Models of backend python, in a few lines each, and runs of them without a server."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.backends.python.slot import PythonInstance
from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.parameters import ParameterValue, SequenceMark
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.inference.responses import Responses
from hypersonic.server.core.inference.strings import pack_strings
from hypersonic.server.errors import ServerError

HEAD = """
import json, os, sys, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

def x_of(request):
    return pb_utils.get_input_tensor_by_name(request, "x").as_numpy()

def y(array):
    return pb_utils.InferenceResponse([pb_utils.Tensor("y", array)])

def text(words):
    return y(np.array([str(words).encode()], np.object_))

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
"""
#: y = 2 x
DOUBLE = "return [y(2 * x_of(request)) for request in requests]"
FLOATS = """
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
"""
WORDS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_STRING dims: [ 1 ] } ]
"""
DECOUPLED = """
model_transaction_policy { decoupled: true }
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def source(execute: str, initialize: str = "pass", more: str = "") -> str:
    """Return the text of a model.py with the given function bodies; `more` is added to the class."""
    parts = (
        "class TritonPythonModel:\n",
        "    def initialize(self, args):\n        self.args = args\n" + textwrap.indent(textwrap.dedent(initialize), " " * 8),
        "\n    def execute(self, requests):\n" + textwrap.indent(textwrap.dedent(execute), " " * 8) + "\n",
        textwrap.indent(textwrap.dedent(more), " " * 4),
    )
    return HEAD + "".join(parts)


def write_python(repository: Path, name: str, code: str, config: str = FLOATS) -> Path:
    """A model directory of backend python; its version directory."""
    directory = repository / name / "1"
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(code)
    (directory.parent / "config.pbtxt").write_text(f'backend: "python"\n{config}')
    return directory


class Stream:
    """Where a decoupled model's answers go. ended: set after the last one."""

    def __init__(self, respond: Callable[[], None] = lambda: None) -> None:
        self.answers: list[Any] = []
        self.error: ServerError | None = None
        self.ended = threading.Event()
        self._hook = respond

    def respond(self, framed: Any) -> None:
        self._hook()
        self.answers.append(framed)

    def respond_error(self, error: ServerError) -> None:
        self.answers.append(error)

    def end(self, error: ServerError | None) -> None:
        self.error = error
        self.ended.set()

    def wait(self) -> list[list[float]]:
        assert self.ended.wait(60)
        return [answer["y"].tolist() for answer in self.answers]


@dataclass
class Loaded:
    """A model in its process, without a scheduler."""

    config: ModelConfig
    instance: PythonInstance
    shares: list[Share] = field(default_factory=list)

    def share(self, x: np.ndarray, *, stream: Stream | None = None, **fields: Any) -> Share:
        """A whole request, checked like a client's. fields: of InferRequest."""
        data = pack_strings(x.reshape(-1).tolist()) if x.dtype == object else x.tobytes()
        tensor = InputTensor("x", self.config.inputs[0].datatype, x.shape, memoryview(data))
        request = InferRequest(fields.pop("id", ""), fields.pop("inputs", (tensor,)), **fields)
        checked = check(request, self.config)
        done = (lambda _: None) if stream is None else lambda pending: stream.end(pending.error)
        responses = None if stream is None else Responses(stream)
        pending = PendingRequest(checked, lambda _, answer: self.arrays(answer), 0, on_done=done, responses=responses)
        return Share(pending, 0, checked.rows)

    def start(self, *shares: Share) -> None:
        self.shares = list(shares)
        self.instance.slots[0].start(self.shares)

    def finish(self) -> list[dict[str, np.ndarray]]:
        self.instance.slots[0].finish()
        return [self.arrays(self.instance.slots[0].answer(index)) for index in range(len(self.shares))]

    def run(self, *xs: np.ndarray) -> list[np.ndarray]:
        """y of each request of one run."""
        self.start(*(self.share(x) for x in xs))
        return [arrays["y"] for arrays in self.finish()]

    def stream(self, x: np.ndarray) -> Stream:
        """Start and finish a run of a decoupled model; its answers come when they come."""
        stream = Stream()
        self.instance.slots[0].start([self.share(x, stream=stream)])
        self.instance.slots[0].finish()
        return stream

    def arrays(self, answer: Answer) -> dict[str, np.ndarray]:
        return {self.config.output_names[o.position]: array_of(b"".join(o.chunks), o.datatype, o.shape) for o in answer.outputs}


def array_of(data: bytes, datatype: str, shape: tuple[int, ...]) -> np.ndarray:
    """BYTES as objects."""
    if datatype != "BYTES":
        return np.frombuffer(data, DATATYPES[datatype].numpy).reshape(shape)
    elements, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        elements.append(data[at + 4 : end])
        at = end
    return np.array(elements, np.object_).reshape(shape)


def config_of(config: str, name: str = "m") -> ModelConfig:
    return check_config(message_of(config, name))


def message_of(config: str, name: str = "m") -> model_config_pb2.ModelConfig:
    return text_format.Parse(config, model_config_pb2.ModelConfig(name=name, backend="python"))


@contextmanager
def loaded(repository: Path, code: str, config: str = FLOATS, backend: PythonBackend | None = None) -> Iterator[Loaded]:
    """Model "m", loaded; its process ends with the context."""
    directory = write_python(repository, "m", code, config)
    checked = config_of(config)
    model = (backend or PythonBackend()).load(directory, checked)
    try:
        yield Loaded(checked, model.instances[0])
    finally:
        for instance in model.instances:
            instance.close()
        model.close()


def parameters(**values: ParameterValue) -> Mapping[str, ParameterValue]:
    return values


def mark(sequence_id: int | str, *, start: bool = False, end: bool = False) -> SequenceMark:
    return SequenceMark(sequence_id, start, end)


def wanted(*names: str) -> tuple[WantedOutput, ...]:
    return tuple(WantedOutput(name) for name in names)
