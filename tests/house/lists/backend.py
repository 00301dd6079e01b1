# SPDX-License-Identifier: Apache-2.0
"""A backend on the host that answers with its inputs."""

from __future__ import annotations

from tests.house.lists.change import Change

_PACKAGE = '''\
# SPDX-License-Identifier: Apache-2.0
"""A backend that answers with its inputs."""
'''

_PROPERTIES = '''\
# SPDX-License-Identifier: Apache-2.0
"""The properties of backend "echo"."""

from __future__ import annotations

from hypersonic.server.core.config.backends import BackendProperties

ECHO = BackendProperties("echo", "model.echo")
'''

_BACKEND = '''\
# SPDX-License-Identifier: Apache-2.0
"""Backend "echo": each output is the input at its place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.collect import Array, collect, split
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.errors import ModelLoadError


class EchoSlot:
    """A slot that keeps its inputs."""

    def __init__(self, config: ModelConfig) -> None:
        self.capacity_rows = max(1, config.max_batch_size)
        self._config = config
        self._shares: Sequence[Share] = ()
        self._arrays: list[Array] = []
        self._launched_ns = 0

    def start(self, shares: Sequence[Share]) -> None:
        """As Slot.start."""
        self._shares, self._arrays = shares, list(collect(shares, self._config).values())
        self._launched_ns = time.monotonic_ns()

    def finish(self) -> Execution:
        """As Slot.finish."""
        return Execution(self._launched_ns, time.monotonic_ns())

    def answer(self, index: int) -> Answer:
        """As Slot.answer."""
        found = [split(array, k, self._shares, self._config)[index] for k, array in enumerate(self._arrays)]
        return Answer(tuple(output for output in found if isinstance(output, Output)))


class EchoInstance:
    """The instance of a model. It is never lost."""

    in_service = True

    def __init__(self, config: ModelConfig) -> None:
        self.name = f"{config.name}_0"
        self.slots: tuple[EchoSlot, ...] = (EchoSlot(config),)

    def busy_clocks(self) -> int:
        """Return 0: it has no kernel clock."""
        return 0

    def revive(self) -> bool:
        """Return True; never needed."""
        return True

    def close(self) -> None:
        """Drop the slots."""
        self.slots = ()


class EchoModel:
    """A model version."""

    standby: tuple[EchoInstance, ...] = ()

    def __init__(self, config: ModelConfig) -> None:
        self.instances = (EchoInstance(config),)

    def card(self, instance: object) -> CardStatus | None:  # noqa: ARG002 - as in LoadedModel
        """Return None: the model runs on the host."""
        return None

    def close(self) -> None:
        """Do nothing."""


class EchoBackend:
    """A Backend for version directories with a file model.echo."""

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Do nothing: config.pbtxt has everything."""

    def load(self, directory: Path, config: ModelConfig) -> EchoModel:
        """Load a version. Raises ModelLoadError if its outputs are not its inputs."""
        if [spec.dims for spec in config.inputs] != [spec.dims for spec in config.outputs]:
            raise ModelLoadError(f"{directory.name}: outputs differ from inputs, expected the same shapes")
        return EchoModel(config)
'''

_CHECK = """\
import tempfile
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

from hypersonic.server.app import Server, Signals
from hypersonic.server.options import Options

with tempfile.TemporaryDirectory() as directory:
    model = Path(directory) / "mirror"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.echo").write_text("")
    tensors = 'input { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }'
    (model / "config.pbtxt").write_text(f"max_batch_size: 8 {tensors}")  # the backend is known by its model file
    ports = {f"{name}_port": 0 for name in ("grpc", "http", "metrics")}
    server = Server(Options((Path(directory),), **ports, grpc_address="127.0.0.1", http_address="127.0.0.1"))
    server.load()
    server.start()
    with triton.InferenceServerClient(server.addresses["GRPCInferenceService"]) as client:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        given = triton.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        np.testing.assert_array_equal(client.infer("mirror", [given]).as_numpy("y"), x)
    server.stop(Signals())
"""


def before_fpga(there: str, added: str) -> tuple[str, str]:
    """An edit that imports a name of the new backend before one of the backend fpga."""
    old = f"from hypersonic.server.backends.fpga.{there}\n"
    return old, f"from hypersonic.server.backends.echo.{added}\n{old}"


CHANGE = Change(
    section="A backend",
    new={
        "server/backends/echo/__init__.py": _PACKAGE,
        "server/backends/echo/properties.py": _PROPERTIES,
        "server/backends/echo/backend.py": _BACKEND,
    },
    edits={
        "server/backends/known.py": [
            before_fpga("properties import FPGA", "properties import ECHO"),
            ("(ONNXRUNTIME, PYTHON, FPGA)", "(ONNXRUNTIME, PYTHON, FPGA, ECHO)"),
        ],
        "server/app.py": [
            before_fpga("backend import FpgaBackend", "backend import EchoBackend"),
            ('        return {"fpga": ', '        echo = EchoBackend()\n        return {"echo": echo, "fpga": '),
        ],
        "docs/coming-from-triton.md": [("ensembles, and `fpga` |", "ensembles, `echo`, and `fpga` |")],
    },
    unneeded={"server/core/inference/backend.py": "documents the methods"},
    check=_CHECK,
    tests=("tests/server/backends/test_known.py",),
)
