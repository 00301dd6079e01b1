# SPDX-License-Identifier: Apache-2.0
"""A model with a second backend, which takes over when no instance of the first is left, or none was available at load.

::

  parameters { key: "fallback_backend" value { string_value: "onnxruntime" } }

Both backends read the same version directory (for example model.xclbin and manifest.json together with model.onnx). The second
one is loaded together with the first, so that it can take over at once. The log, fpga_fallback_active, fpga_fallback_runs_total
and the status page show where it is in use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.backend import Backend, Instance, LoadedModel, TakesTurns, TurnQueue
from hypersonic.server.core.inference.card import CardStatus, Residency
from hypersonic.server.errors import ModelBusyError, ModelConfigError, ModelLoadError

_LOG = logging.getLogger(__name__)


def with_fallback(backend: Backend, config: ModelConfig, backends: Mapping[str, Backend], *, insist: bool = False) -> Backend:
    """Return the backend combined with the one that `config` names as its fallback, or `backend` alone if it names none.

    Args:
        insist: if True, a first backend that is merely busy raises ModelBusyError at load, so that the caller can free the card
            and try again.

    Raises:
        ModelConfigError: If the fallback is unknown or the model keeps state.
    """
    if not config.fallback:
        return backend
    second = backends.get(config.fallback)
    if second is None:
        raise ModelConfigError(
            f"model '{config.name}': fallback_backend is '{config.fallback}', expected one of {sorted(backends)}"
        )
    if config.sequence is not None or config.decoupled:
        raise ModelConfigError(
            f"model '{config.name}': fallback_backend needs a model without sequence_batching and decoupled transactions: "
            "their state would stay behind in the backend that is lost"
        )
    return FallbackBackend(backend, second, config.fallback, insist=insist)


class FallbackBackend:
    """Two backends as one.

    Args:
        name: the second one's name.
    """

    def __init__(self, first: Backend, second: Backend, name: str, *, insist: bool = False) -> None:
        self._first = first
        self._second = second
        self._name = name
        self._insist = insist

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Complete the configuration with the first backend alone."""
        self._first.complete(directory, message)

    def load(self, directory: Path, config: ModelConfig) -> FallbackModel:
        """Load the version with both backends.

        Raises ModelLoadError if the second cannot load it, since it must be available when it is needed.
        """
        with ExitStack() as opened:
            first = self._load_first(directory, config)
            if first is not None:
                opened.callback(close, first)
            try:
                second = self._second.load(directory, _own_file(config))
            except ModelLoadError as error:
                raise ModelLoadError(f"fallback backend '{self._name}': {error}") from error
            opened.pop_all()
            return FallbackModel(first, second, self._name)

    def _load_first(self, directory: Path, config: ModelConfig) -> LoadedModel | None:
        try:
            return self._first.load(directory, config)
        except ModelLoadError as error:
            if self._insist and isinstance(error, ModelBusyError):
                raise
            _LOG.warning("%r version %s: fallback backend %r serves it, as %s", config.name, directory.name, self._name, error)
            return None


def _own_file(config: ModelConfig) -> ModelConfig:
    """Return the configuration without default_model_filename: it names the first backend's file, the second reads its own."""
    message = model_config_pb2.ModelConfig()
    message.CopyFrom(config.message)
    message.ClearField("default_model_filename")
    return replace(config, message=message)


def close(model: LoadedModel) -> None:
    """Release a model that was never served."""
    for instance in (*model.instances, *model.standby):
        instance.close()
    model.close()


class FallbackModel:
    """The models that both backends loaded.

    Args:
        first: None if the first backend could not load it.
    """

    def __init__(self, first: LoadedModel | None, second: LoadedModel, name: str) -> None:
        self._models = (first, second) if first is not None else (second,)
        self.instances: Sequence[Instance] = first.instances if first is not None else ()
        self.standby: Sequence[Instance] = tuple(Standby(instance, name) for instance in second.instances)

    def attach(self, queue: TurnQueue) -> Callable[[int], None] | None:
        """As TakesTurns.attach, for the first backend's model."""
        first = self._models[0]
        return first.attach(queue) if isinstance(first, TakesTurns) else None

    @property
    def residency(self) -> Residency | None:
        """As TakesTurns.residency."""
        first = self._models[0]
        return first.residency if isinstance(first, TakesTurns) else None

    def card(self, instance: Instance) -> CardStatus | None:
        """As LoadedModel.card, for the backend that the instance belongs to."""
        if isinstance(instance, Standby):
            return self._models[-1].card(instance.instance)
        return self._models[0].card(instance)

    def close(self) -> None:
        """Close both models."""
        for model in self._models:
            model.close()


class Standby:
    """An instance of the second backend, named <instance>@<backend>."""

    def __init__(self, instance: Instance, backend: str) -> None:
        self.instance = instance
        self.name = f"{instance.name}@{backend}"
        self.slots = instance.slots
        self.busy_clocks = instance.busy_clocks
        self.revive = instance.revive
        self.close = instance.close

    @property
    def in_service(self) -> bool:
        """As Instance.in_service."""
        return self.instance.in_service
