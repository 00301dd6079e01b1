# SPDX-License-Identifier: Apache-2.0
"""Backend "onnxruntime": a version directory with model.onnx, run by ONNX Runtime on the host's processors.

This is the only file that imports the onnxruntime package, and it does so when the first such model is loaded. All instances
of a model version share one session, whose run() may be called by many threads. So instances cost no memory; their number is
the number of simultaneous runs.

config.pbtxt, as in Triton's ONNX Runtime backend: optimization.graph.level (-1 basic, 0 all, 1 basic and extended, 2 none);
parameters intra_op_thread_count, inter_op_thread_count (0: the number of processors), execution_mode (0 sequential, 1
parallel), enable_mem_arena, enable_mem_pattern, memory.enable_memory_arena_shrinkage, and any session configuration entry of
ONNX Runtime by its own name (session.*). Threads do not spin while they wait for work unless session.intra_op.allow_spinning
is 1, because a server has other models to run.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.grpc import model_config_pb2

from hypersonic.installing import pip_install
from hypersonic.server.backends.onnxruntime import signature as onnx_signature
from hypersonic.server.backends.onnxruntime.properties import ONNXRUNTIME
from hypersonic.server.backends.onnxruntime.signature import Signature
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.collect import Array, collect, output_spec, split
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.core.links import Links
from hypersonic.server.errors import BackendError, InvalidRequestError, ModelConfigError, ModelLoadError, ServerError

#: protobuf's limit; larger models have their weights in separate files
_MAX_MODEL_BYTES = 2**31 - 1
#: TensorProto.DataType.BFLOAT16 in onnx.proto
_BFLOAT16 = 16
_GRAPH_LEVELS = {-1: "ORT_ENABLE_BASIC", 1: "ORT_ENABLE_EXTENDED", 2: "ORT_DISABLE_ALL"}
#: the directories of an absolute path, which are not shown to clients
_DIRECTORIES = re.compile(r"(?<![\w./])/(?:[^/\s\"']+/)+")
_ORT_ERROR = re.compile(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", re.DOTALL)


def _onnxruntime() -> Any:
    # from version 1.29 it sends telemetry, including model names, and writes files in $HOME and $TMPDIR, unless disabled
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime  # only servers with such a model need it
    except ImportError as error:
        raise ModelLoadError(
            "backend 'onnxruntime' needs the package onnxruntime, which is not installed: "
            f"{pip_install('onnxruntime')} ({error})"
        ) from error
    return onnxruntime


def _reason(error: Exception) -> str:
    """Return ONNX Runtime's error in Triton's format."""
    match = _ORT_ERROR.search(str(error))
    return f"onnx runtime error {match[1]}: {match[2]}" if match else f"onnx runtime error: {error}"


class Session:
    """A loaded ONNX model: arrays in, arrays out. Any number of threads may run it."""

    def __init__(self, path: Path, options: Any, run_entries: Mapping[str, str]) -> None:
        self._ort = _onnxruntime()
        try:
            self._session = self._ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            reason = _DIRECTORIES.sub("", _reason(error))
            raise ModelLoadError(f"failed to load {path.parent.name}/{path.name}: {reason}") from error
        self._run_options = self._ort.RunOptions()
        for key, value in run_entries.items():
            self._run_options.add_run_config_entry(key, value)
        self.signature = self._read_signature()
        self._bf16_outputs = {tensor.name for tensor in self.signature.outputs if tensor.datatype == "BF16"}
        inputs = {tensor.datatype for tensor in self.signature.inputs}
        self._bf16_inputs = {tensor.name for tensor in self.signature.inputs if tensor.datatype == "BF16"}
        if self._bf16_outputs and "BYTES" in inputs:
            raise ModelLoadError("a model with string inputs and bfloat16 outputs cannot be run: expected one or the other")

    def _read_signature(self) -> Signature:
        session = self._session
        lists = (session.get_inputs(), session.get_outputs(), session.get_overridable_initializers())
        return Signature(*(tuple(onnx_signature.tensor_info(t.name, t.type, t.shape) for t in tensors) for tensors in lists))

    def run(self, outputs: Sequence[str], feed: Mapping[str, Array]) -> list[Array]:
        """Run the model without holding the interpreter's lock; return new arrays, in the order of `outputs`.

        Raises BackendError (INTERNAL), or InvalidRequestError (INVALID_ARGUMENT) for a string that is not UTF-8.
        """
        values = {name: self._value(name, array) for name, array in feed.items()}
        try:
            if self._bf16_outputs.isdisjoint(outputs):
                arrays: list[Array] = self._session.run(outputs, values, self._run_options)
                return arrays
            return self._run_values(outputs, values)
        except Exception as error:
            raise BackendError(_reason(error)) from error

    def _value(self, name: str, array: Array) -> Any:
        if name in self._bf16_inputs:
            return self._ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _BFLOAT16)
        return _text(name, array) if array.dtype == object else array

    def _run_values(self, outputs: Sequence[str], values: Mapping[str, Any]) -> list[Array]:
        value_type = self._ort.OrtValue
        given = {k: v if isinstance(v, value_type) else value_type.ortvalue_from_numpy(v) for k, v in values.items()}
        ort_values = self._session.run_with_ort_values(outputs, given, self._run_options)
        return [_bits(v) if name in self._bf16_outputs else v.numpy() for name, v in zip(outputs, ort_values, strict=True)]


def _bits(value: Any) -> Array:
    """Return a bfloat16 tensor as uint16: numpy lacks the type, so ONNX Runtime gives only the address of the data."""
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(data, np.uint16).reshape(value.shape())


def _text(name: str, array: Array) -> Array:
    """Convert bytes to str, which is what ONNX Runtime's Python interface accepts."""
    text = np.empty(array.size, object)
    try:
        text[:] = [element.decode() for element in array.reshape(-1)]
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"input '{name}': a string is not UTF-8, as ONNX Runtime needs it: {error}") from error
    return text.reshape(array.shape)


class OnnxSlot:
    """A slot that runs the model's session, one run at a time."""

    def __init__(self, session: Session, config: ModelConfig) -> None:
        self.capacity_rows = max(1, config.max_batch_size)
        self._session = session
        self._config = config
        self._states = set(range(len(config.outputs), len(config.outputs) + _state_count(config)))
        self._scalars = _scalar_inputs(config, session.signature)
        self._shares: Sequence[Share] = ()
        self._feed: dict[str, Array] = {}
        self._launched_ns = 0
        self._answers: list[Answer | ServerError] = []

    def start(self, shares: Sequence[Share]) -> None:
        """As Slot.start; the computation itself is in finish()."""
        self._shares = shares
        self._answers = []
        self._feed = self._collect(shares)
        self._launched_ns = time.monotonic_ns()

    def _collect(self, shares: Sequence[Share]) -> dict[str, Array]:
        feed = collect(shares, self._config)
        for name in self._scalars & feed.keys():
            feed[name] = feed[name].reshape(())
        return feed

    def finish(self) -> Execution:
        """Run the model.

        If a run of several requests fails, each of them runs again by itself, so that one request's values do not fail the
        others. Raises BackendError for a single request.
        """
        shares, feed = self._shares, self._feed
        self._shares, self._feed = (), {}  # so that the requests' memory can be freed
        try:
            self._answers = list(self._run(shares, feed))
        except ServerError as error:
            if len(shares) == 1 and isinstance(error, BackendError):
                raise
            # one request's values must not fail the requests that shared its run
            self._answers = [error] if len(shares) == 1 else [self._alone(share) for share in shares]
        return Execution(self._launched_ns, time.monotonic_ns())

    def _alone(self, share: Share) -> Answer | ServerError:
        try:
            return self._run((share,), self._collect((share,)))[0]
        except ServerError as error:
            return error

    def _run(self, shares: Sequence[Share], feed: Mapping[str, Array]) -> list[Answer | ServerError]:
        config = self._config
        positions = sorted({position for share in shares for position in share.pending.request.outputs} | self._states)
        names = [output_spec(position, config).name for position in positions]
        fetched = list(dict.fromkeys(names))  # a state may also be an output
        by_name = dict(zip(fetched, self._session.run(fetched, feed), strict=True))
        arrays = [by_name[name] for name in names]
        pieces = [split(array, position, shares, config) for array, position in zip(arrays, positions, strict=True)]
        return [_answer(outputs) for outputs in zip(*pieces, strict=True)]

    def answer(self, index: int) -> Answer:
        """As Slot.answer."""
        answer = self._answers[index]
        if isinstance(answer, ServerError):
            raise answer
        return answer


def _state_count(config: ModelConfig) -> int:
    return len(config.sequence.states) if config.sequence is not None else 0


def _answer(outputs: Sequence[Output | ServerError]) -> Answer | ServerError:
    answered: list[Output] = []
    for output in outputs:
        if isinstance(output, ServerError):
            return output
        answered.append(output)
    return Answer(tuple(answered), fresh=True)


def _scalar_inputs(config: ModelConfig, signature: Signature) -> set[str]:
    """Return the inputs without dimensions: config.pbtxt cannot express that, and has dims of 1."""
    known = {tensor.name: tensor for tensor in (*signature.inputs, *signature.overridable)}
    return {spec.name for spec in config.inputs if spec.name in known and not known[spec.name].dims and not spec.ragged}


class OnnxInstance:
    """A permit for one more simultaneous run. It is never lost."""

    in_service = True

    def __init__(self, name: str, session: Session, config: ModelConfig) -> None:
        self.name = name
        self.slots: tuple[OnnxSlot, ...] = (OnnxSlot(session, config),)

    def busy_clocks(self) -> int:
        """Return 0: a model on the host has no kernel clock."""
        return 0

    def revive(self) -> bool:
        """Return True; never needed."""
        return True

    def close(self) -> None:
        """Drop the slots."""
        self.slots = ()


class OnnxModel:
    """A model version: one session, and as many instances as its instance groups have."""

    standby: tuple[OnnxInstance, ...] = ()

    def __init__(self, instances: Sequence[OnnxInstance]) -> None:
        self.instances = tuple(instances)

    def card(self, instance: object) -> CardStatus | None:  # noqa: ARG002 - as in LoadedModel
        """Return None: the model runs on the host."""
        return None

    def close(self) -> None:
        """Drop the instances, and with them the session."""
        self.instances = ()


class OnnxRuntimeBackend:
    """A Backend for version directories with an ONNX model.

    Args:
        links: where a version's files may be.
    """

    def __init__(self, links: Links = Links()) -> None:  # noqa: B008 - immutable
        self._links = links

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Fill in, as Triton does, what config.pbtxt leaves out. Raises ModelLoadError.

        If inputs or outputs are missing, they are filled in together with max_batch_size and dynamic_batching. A missing
        instance_group is always filled in.
        """
        onnx_signature.complete_instances(message)
        if not onnx_signature.is_complete(message):
            options = _onnxruntime().SessionOptions()
            options.graph_optimization_level = _onnxruntime().GraphOptimizationLevel.ORT_DISABLE_ALL
            path = _model_path(directory, message.default_model_filename, self._links)
            onnx_signature.complete(message, Session(path, options, {}).signature)

    def load(self, directory: Path, config: ModelConfig) -> OnnxModel:
        """Load a version.

        Raises ModelLoadError if ONNX Runtime refuses the model, if it does not match config.pbtxt, or if a link leads outside
        the permitted directories (external data included: ONNX Runtime reads it only from the directory of model.onnx).
        """
        _refuse_custom_operations(config)
        path = _model_path(directory, config.message.default_model_filename, self._links)
        session = Session(path, _session_options(config), _run_entries(config))
        onnx_signature.check(config, session.signature)
        return OnnxModel([OnnxInstance(name, session, config) for name in _instance_names(config)])


def _model_path(directory: Path, filename: str, links: Links) -> Path:
    """Return the path of <version>/model.onnx, which may be a link; ONNX Runtime looks for external data in its directory.

    Raises ModelLoadError.
    """
    name = filename or ONNXRUNTIME.model_file
    path = directory / name
    links.follow(path, directory.parent, f"{directory.name}/{name}")
    if not path.is_file():
        raise ModelLoadError(f"{directory.name}/{name} is missing, or is not a file")
    size_bytes = path.stat().st_size
    if not 0 < size_bytes <= _MAX_MODEL_BYTES:
        raise ModelLoadError(f"{directory.name}/{name} has {size_bytes} bytes, expected 1 to {_MAX_MODEL_BYTES}")
    return path


def _refuse_custom_operations(config: ModelConfig) -> None:
    if config.message.model_operations.op_library_filename:
        raise ModelConfigError(
            f"model '{config.name}': model_operations names op libraries; this server loads no native code of a repository"
        )


def _session_options(config: ModelConfig) -> Any:
    """Return ONNX Runtime's session options. Raises ModelConfigError for invalid values."""
    ort = _onnxruntime()
    options = ort.SessionOptions()
    level = _GRAPH_LEVELS.get(config.message.optimization.graph.level, "ORT_ENABLE_ALL")
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.execution_mode = (ort.ExecutionMode.ORT_SEQUENTIAL, ort.ExecutionMode.ORT_PARALLEL)[_execution_mode(config)]
    options.intra_op_num_threads = config.integer("intra_op_thread_count", 0)
    options.inter_op_num_threads = config.integer("inter_op_thread_count", 0)
    options.enable_cpu_mem_arena = _switch(config, "enable_mem_arena", default=True)
    options.enable_mem_pattern = _switch(config, "enable_mem_pattern", default=True)
    entries = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0", **config.parameters}
    for key, value in entries.items():
        if key.startswith("session."):
            options.add_session_config_entry(key, value)
    return options


def _execution_mode(config: ModelConfig) -> int:
    mode = config.integer("execution_mode", 0)
    if mode > 1:
        raise ModelConfigError(
            f"Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got {mode} ."
        )
    return mode


def _switch(config: ModelConfig, parameter: str, *, default: bool) -> bool:
    text = config.parameters.get(parameter, str(int(default))).lower()
    if text not in ("0", "1", "true", "false"):
        raise ModelConfigError(f"model '{config.name}': parameter {parameter} is {text!r}, expected true or false")
    return text in ("1", "true")


def _run_entries(config: ModelConfig) -> dict[str, str]:
    return {key: value for key, value in config.parameters.items() if key.startswith("memory.")}


def _instance_names(config: ModelConfig) -> list[str]:
    """Return the names that Triton gives the instances: <group>_<n>."""
    groups = [(g.name, g.count * max(1, len(g.devices))) for g in config.instance_groups] or [(config.name, 1)]
    return [f"{name}_{index}" for name, count in groups for index in range(count)]
