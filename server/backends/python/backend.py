# SPDX-License-Identifier: Apache-2.0
"""Backend "python": Triton's interface, `class TritonPythonModel` in <version>/model.py.

Each instance runs in a process of its own, so that a slow or crashing model does not affect other models. config.pbtxt's
parameters: shm_max_bytes (limit of a run's inputs, and of its outputs), timeout_ms (limit of a run, 0 = none; the process is
killed after that time).
"""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.python.answer import output_names
from hypersonic.server.backends.python.arena import Arena
from hypersonic.server.backends.python.bls import Infer
from hypersonic.server.backends.python.events import Events
from hypersonic.server.backends.python.metrics import CustomMetrics
from hypersonic.server.backends.python.process import ModelProcess
from hypersonic.server.backends.python.properties import PYTHON
from hypersonic.server.backends.python.slot import PythonInstance, config_json, deadline_ns_of, load_command
from hypersonic.server.backends.python.stub.channel import ChannelClosedError, MessageError
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.links import Links
from hypersonic.server.errors import BackendError, ModelLoadError
from hypersonic.server.limits.load_timeout import too_long
from hypersonic.server.statistics.exposition import Family

_COMPLETION = b"auto_complete_config"
#: the fields that auto_complete_config() may fill in
_COMPLETED_FIELDS = ("max_batch_size", "input", "output", "dynamic_batching", "model_transaction_policy")
#: far more than a hand-written model.py needs
_MOST_SOURCE_BYTES = 16 << 20
_KINDS = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)  # fmt: skip


class PythonModel:
    """A model version and its processes."""

    standby: Sequence[PythonInstance] = ()

    def __init__(self, instances: Sequence[PythonInstance]) -> None:
        self.instances = tuple(instances)

    def card(self, instance: object) -> CardStatus | None:
        """Return None: the model runs on the host."""
        del instance
        return None

    def close(self) -> None:
        """Do nothing: the instances have released everything."""


class PythonBackend:
    """A Backend for version directories with a model.py.

    Args:
        infer: serves models' requests to other models (bls.py), None = they are refused.
        load_timeout_s: the time limit for initializing a model or completing its configuration, after which its process is
            killed; 0 = none.
        links: where a version's files may be.
    """

    def __init__(
        self,
        infer: Infer | None = None,
        *,
        load_timeout_s: float = 0.0,
        links: Links = Links(),  # noqa: B008 - immutable
    ) -> None:
        self._infer = infer
        self._links = links
        self.metrics = CustomMetrics()
        self._timeout_s = load_timeout_s
        self._loading: set[ModelProcess] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def families(self) -> list[Family]:
        """Return the metrics that models define, for /metrics."""
        return self.metrics.families()

    def stop(self) -> None:
        """Kill the processes whose models are being loaded, and those that start later."""
        with self._lock:
            self._stopped = True
            for process in self._loading:
                process.kill()

    @contextmanager
    def _watched(self, processes: Sequence[ModelProcess]) -> Iterator[None]:
        """Let stop() kill these processes while they load a model."""
        with self._lock:
            self._loading.update(processes)
            for process in processes if self._stopped else ():
                process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._loading.difference_update(processes)

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Call the model's auto_complete_config() in a process of its own. Raises ModelLoadError with the model's reason."""
        file = model_file(directory, message.default_model_filename, self._links)
        message.default_model_filename = message.default_model_filename or PYTHON.model_file
        if not any(_COMPLETION in self._head(source) for source in directory.glob("*.py")):
            return
        fields = _description(directory, file, message.name, {"decoupled": False, "inputs": [], "outputs": []})
        completed = self._ask(["complete", {**fields, "instance": message.name}, config_json(as_dict(message))], message.name)
        if completed is not None:
            _merge(completed, message)

    def load(self, directory: Path, config: ModelConfig) -> PythonModel:
        """Load a version. Raises ModelLoadError, with Triton's text, if the model does not import or initialize."""
        _refuse_environment(config)
        command = load_command(*_load_fields(directory, config, self._links))
        instances: list[PythonInstance] = []
        try:
            for name in _instance_names(config):
                events = Events(name, config, self._infer, self.metrics)
                instances.append(PythonInstance(name, config, command, events, self._timeout_s))
            with self._watched([instance.process for instance in instances]):
                for instance in instances:
                    instance.wait_loaded()
        except (BackendError, OSError) as error:
            for instance in instances:
                instance.close()
            raise ModelLoadError(str(error)) from error
        return PythonModel(instances)

    def _head(self, source: Path) -> bytes:
        with suppress(OSError, ModelLoadError):
            return self._links.read(source, source.parent.parent, source.name, _MOST_SOURCE_BYTES)
        return b""

    def _ask(self, command: list[Any], name: str) -> Any:
        """Send one command to a new process and return its answer. Raises ModelLoadError with the model's reason."""
        memory = Arena(1)
        try:
            process = ModelProcess(name, (memory.fd, memory.fd), 0, _Deaf())
            try:
                with self._watched([process]):
                    process.run.send(command)
                    (verdict, what), _ = process.run.receive(deadline_ns_of(self._timeout_s))
            finally:
                process.kill()
                process.wait()
                process.run.close()
        except TimeoutError as error:
            raise ModelLoadError(too_long(self._timeout_s)) from error
        except (ChannelClosedError, MessageError, ValueError, BackendError) as error:
            raise ModelLoadError(f"Stub process '{name}' is not healthy.") from error
        finally:
            memory.close()
        if verdict != "completed":
            raise ModelLoadError(str(what))
        return what


def model_file(directory: Path, name: str, links: Links) -> Path:
    """Return the path of the model's source.

    Raises ModelLoadError if it is missing or a link leads outside the permitted directories.
    """
    name = name or PYTHON.model_file
    file = directory / name
    links.follow(file, directory.parent, f"{directory.name}/{name}")
    if Path(name).name != name:
        raise ModelLoadError(f"{directory.name}/{name} leads out of the version's directory")
    if not file.is_file():
        what = f"{directory.parent.name}/{directory.name}/{name} is {_instead(file)}"
        raise ModelLoadError(f"{what}: backend 'python' expects a file with class TritonPythonModel")
    return file


def _instead(file: Path) -> str:
    """Describe what is in place of an expected file, without saying where links lead."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return "a link to a file that is missing" if file.is_symlink() else "missing"
    return next((f"{kind}, not a file" for is_kind, kind in _KINDS if is_kind(mode)), "not a file")


def _refuse_environment(config: ModelConfig) -> None:
    if "EXECUTION_ENV_PATH" in config.parameters:
        raise ModelLoadError(
            f"model '{config.name}': EXECUTION_ENV_PATH is not supported: models run in the server's own Python environment; "
            "install what the model needs there and remove the parameter"
        )


def _instance_names(config: ModelConfig) -> list[str]:
    """Return the instances' names as in Triton, <group>_<index>; a model's only group has the model's name."""
    names = [f"{group.name}_{index}" for group in config.instance_groups for index in range(group.count)]
    return names or [f"{config.name}_0"]


def _load_fields(directory: Path, config: ModelConfig, links: Links) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    file = model_file(directory, config.message.default_model_filename, links)
    signature = {
        "decoupled": config.decoupled,
        "inputs": [[tensor.name, tensor.datatype] for tensor in config.inputs],
        "outputs": output_names(config),
    }
    arguments = {
        "model_config": config_json(as_dict(config.message)),
        "model_instance_kind": "MODEL" if any(g.kind == "KIND_MODEL" for g in config.instance_groups) else "CPU",
        "model_instance_device_id": "0",
        "model_repository": str(directory.parent),
        "model_version": directory.name,
        "model_name": config.name,
    }
    return _description(directory, file, config.name, signature), arguments


def _description(directory: Path, file: Path, model: str, signature: Mapping[str, Any]) -> dict[str, Any]:
    repository = str(directory.parent.parent)
    return {"model": model, "version": int(directory.name), "file": str(file), "repository": repository, **signature}


class _Deaf:
    """A listener for a process that only completes a configuration; such a process sends no other messages."""

    def heard(self, process: ModelProcess, message: list[Any], payload: memoryview) -> None: ...

    def ended(self) -> None: ...


def _merge(completed: Any, message: model_config_pb2.ModelConfig) -> None:
    wanted = {key: completed[key] for key in _COMPLETED_FIELDS if key in completed}
    try:
        parsed = json_format.ParseDict(wanted, model_config_pb2.ModelConfig())
    except json_format.ParseError as error:
        raise ModelLoadError(
            f"model '{message.name}': auto_complete_config does not return a valid configuration: {error}"
        ) from error
    for key in wanted:
        if key != "dynamic_batching" or message.WhichOneof("scheduling_choice") is None:
            message.ClearField(key)
    if message.WhichOneof("scheduling_choice") is not None:
        parsed.ClearField("dynamic_batching")
    message.MergeFrom(parsed)


def as_dict(message: Message) -> dict[str, Any]:
    """Convert a message to Triton's JSON: names as in the .proto, every field without presence, 64-bit integers as numbers."""
    result: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            result[field.name] = {str(key): _value(of, value[key]) for key in value}
        elif field.is_repeated:
            result[field.name] = [_value(field, item) for item in value]
        else:
            result[field.name] = _value(field, value)
    return result


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return as_dict(value)
    return field.enum_type.values_by_number[value].name if field.enum_type is not None else value
