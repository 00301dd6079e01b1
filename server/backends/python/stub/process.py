# SPDX-License-Identifier: Apache-2.0
"""The process of a model: loads the model and executes the runs that the server sends."""

from __future__ import annotations

import importlib
import io
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypersonic.server.backends.python.stub import utils
from hypersonic.server.backends.python.stub.autocomplete import ModelConfig
from hypersonic.server.backends.python.stub.calls import PROCESS, Calls
from hypersonic.server.backends.python.stub.channel import Channel, ChannelClosedError
from hypersonic.server.backends.python.stub.errors import Refusal, describe
from hypersonic.server.backends.python.stub.runs import Description, MappedFile, Runs

_LIMIT_BYTES = 1 << 31


def main(argv: Sequence[str]) -> int:
    """Load the model, and execute runs until the server stops the process or is gone; return the exit code.

    Args:
        argv: the arguments of __main__.py from RUN on.
    """
    run_fd, events_fd, inputs_fd, outputs_fd = (int(text) for text in argv[:4])
    _outlive_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    run = Channel(socket.socket(fileno=run_fd), _LIMIT_BYTES)
    PROCESS.calls = Calls(Channel(socket.socket(fileno=events_fd), _LIMIT_BYTES))
    try:
        _serve(run, PROCESS.calls, (MappedFile(inputs_fd), MappedFile(outputs_fd)))
    except ChannelClosedError:
        return 1
    return 0


def _outlive_signals() -> None:
    """Handle SIGTERM and SIGINT by doing nothing: the server drains on these signals and still needs its models.

    The signals are handled rather than ignored, so that programs that the model starts have the default handlers.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def _serve(run: Channel, calls: Calls, windows: tuple[MappedFile, MappedFile]) -> None:
    (kind, fields, arguments), _ = run.receive()
    description = Description(**fields)
    try:
        model_class = _import(description)
        if kind == "complete":
            run.send(["completed", _complete(model_class, description, arguments)])
            return
        model = model_class()
        if hasattr(model, "initialize"):
            model.initialize(arguments)
    except BaseException as error:  # noqa: BLE001 - any exception of a model is the reason why it cannot be loaded
        run.send(["failed", describe(error, description.repository)])
        return
    run.send(["loaded"])
    runs = Runs(model, description, run, calls, windows)
    while (message := run.receive()[0])[0] == "run":
        runs.serve(message)
    if hasattr(model, "finalize"):
        model.finalize()


def _import(description: Description) -> Any:
    """Import TritonPythonModel as Triton does, as `<version>.model`, so that relative imports find the version directory."""
    file = Path(description.file)
    PROCESS.model_directory = str(file.parent)
    sys.path += [str(file.parent), str(file.parent.parent)]
    utils.__name__ = "triton_python_backend_utils"
    sys.modules["triton_python_backend_utils"] = sys.modules["c_python_backend_utils"] = utils
    module = importlib.import_module(f"{file.parent.name}.{file.stem}")
    return module.TritonPythonModel


def _complete(model_class: Any, description: Description, config: str) -> Any:
    """Return the configuration as completed by auto_complete_config(); None for a model without that function."""
    if not hasattr(model_class, "auto_complete_config"):
        return None
    completed = model_class.auto_complete_config(ModelConfig(config))
    if not isinstance(completed, ModelConfig):
        raise Refusal(
            f"auto_complete_config function in model '{description.model}' must return a valid pb.ModelConfig object."
        )
    return completed.as_dict()
