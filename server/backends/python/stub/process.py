# SPDX-License-Identifier: Apache-2.0
"""The process of a model: loads it, and executes what the server sends."""

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
from hypersonic.server.backends.python.stub.runs import Description, Runs, Window

_LIMIT_BYTES = 1 << 31


def main(argv: Sequence[str]) -> int:
    """Load the model, execute runs until the server says stop or is gone. argv: as __main__.py has it, from RUN on."""
    run_fd, events_fd, inputs_fd, outputs_fd = (int(text) for text in argv[:4])
    _outlive_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    run = Channel(socket.socket(fileno=run_fd), _LIMIT_BYTES)
    PROCESS.calls = Calls(Channel(socket.socket(fileno=events_fd), _LIMIT_BYTES))
    try:
        _serve(run, PROCESS.calls, (Window(inputs_fd), Window(outputs_fd)))
    except ChannelClosedError:
        return 1
    return 0


def _outlive_signals() -> None:
    """The server drains on SIGTERM and SIGINT, and needs its models meanwhile.

    The signals are handled, not ignored: what a model starts itself begins with the defaults.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def _serve(run: Channel, calls: Calls, windows: tuple[Window, Window]) -> None:
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
    except BaseException as error:  # noqa: BLE001 - whatever a model raises is the reason why it cannot be loaded
        run.send(["failed", describe(error, description.repository)])
        return
    run.send(["loaded"])
    runs = Runs(model, description, run, calls, windows)
    while (message := run.receive()[0])[0] == "run":
        runs.serve(message)
    if hasattr(model, "finalize"):
        model.finalize()


def _import(description: Description) -> Any:
    """TritonPythonModel, imported as Triton does: `<version>.model`, so that relative imports find the version directory."""
    file = Path(description.file)
    PROCESS.model_directory = str(file.parent)
    sys.path += [str(file.parent), str(file.parent.parent)]
    utils.__name__ = "triton_python_backend_utils"
    sys.modules["triton_python_backend_utils"] = sys.modules["c_python_backend_utils"] = utils
    module = importlib.import_module(f"{file.parent.name}.{file.stem}")
    return module.TritonPythonModel


def _complete(model_class: Any, description: Description, config: str) -> Any:
    """What auto_complete_config() makes of the configuration; None for a model without it."""
    if not hasattr(model_class, "auto_complete_config"):
        return None
    completed = model_class.auto_complete_config(ModelConfig(config))
    if not isinstance(completed, ModelConfig):
        raise Refusal(
            f"auto_complete_config function in model '{description.model}' must return a valid pb.ModelConfig object."
        )
    return completed.as_dict()
