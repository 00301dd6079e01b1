# SPDX-License-Identifier: Apache-2.0
"""ensemble_scheduling: checks the graph of an ensemble, and that it matches the models it names. The error texts are Triton's.

max_inflight_requests limits how many requests of one step are under way for one request to the ensemble. Any limit is
satisfied, because a step has only one such request at a time (core/ensemble/phases.py).

An ensemble tensor is a name in the values of the steps' maps: an input of the ensemble, an output of it, or a tensor between
two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.schema import Dims, EnsembleStep, ModelConfig, TensorConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.errors import ModelConfigError, ModelLoadError

_MAX_STEPS = 1024

#: `platform` of ensembles in config.pbtxt
ENSEMBLE = "ensemble"


def read_ensemble_steps(message: model_config_pb2.ModelConfig) -> tuple[EnsembleStep, ...]:
    """Return the steps in the file's order; () for a model that is not an ensemble.

    Raises ModelConfigError for a graph that cannot run: a tensor that no step produces, an output that depends on one, a tensor
    that is produced twice or never used, a cycle.
    """
    if not message.HasField("ensemble_scheduling"):
        return ()
    _refuse_model_fields(message)
    steps = tuple(_step(message.name, index, step) for index, step in enumerate(message.ensemble_scheduling.step))
    inputs, outputs = [tensor.name for tensor in message.input], [tensor.name for tensor in message.output]
    _check_produced_once(message.name, steps, inputs)
    _check_graph(message.name, steps, inputs, outputs)
    return steps


def _refuse_model_fields(message: model_config_pb2.ModelConfig) -> None:
    name = message.name
    if message.instance_group:
        raise ModelConfigError(f"instance group should not be specified for ensemble '{name}'")
    if message.HasField("optimization"):
        raise ModelConfigError(f"optimization should not be specified for ensemble '{name}'")
    if message.model_warmup:
        raise ModelConfigError(f"model_warmup can not be specified for ensemble '{name}'")
    count = len(message.ensemble_scheduling.step)
    if not count:
        raise ModelConfigError(f"must specify 'step' for ensemble '{name}'")
    if count > _MAX_STEPS:
        raise ModelConfigError(f"ensemble '{name}' has {count} steps, expected {_MAX_STEPS} at most")


def _step(ensemble: str, index: int, step: model_config_pb2.ModelEnsembling.Step) -> EnsembleStep:
    for field in ("model_name", "input_map", "output_map"):
        if not getattr(step, field):
            raise ModelConfigError(f"must specify '{field}' in step {index} of ensemble '{ensemble}'")
    return EnsembleStep(step.model_name, step.model_version, dict(step.input_map), dict(step.output_map))


def _check_produced_once(ensemble: str, steps: Sequence[EnsembleStep], inputs: Sequence[str]) -> None:
    produced = set(inputs)
    for index, step in enumerate(steps):
        for tensor in step.output_map.values():
            if tensor in produced:
                raise ModelConfigError(
                    f"ensemble tensor '{tensor}' can appear in an output map only once for ensemble '{ensemble}' step {index}"
                )
            produced.add(tensor)


def _check_graph(ensemble: str, steps: Sequence[EnsembleStep], inputs: Sequence[str], outputs: Sequence[str]) -> None:
    tensors = {tensor: None for step in steps for tensor in (*step.input_map.values(), *step.output_map.values())}
    for kind, names in (("input", inputs), ("output", outputs)):
        for name in names:
            if name not in tensors:
                raise ModelConfigError(f"ensemble {kind} '{name}' for ensemble {ensemble}' is not used")
    connected, maker = _connected(steps, inputs), {tensor: step for step in steps for tensor in step.output_map.values()}
    for name in outputs:
        if name not in connected:
            cause = next((tensor for tensor in _needs(maker.get(name)) if tensor not in connected), name)
            raise ModelConfigError(
                f"output '{name}' for ensemble '{ensemble}' is not written: at least one of its depending tensors, "
                f"'{cause}', is not connected"
            )
    used = _used(maker, outputs)
    for name in tensors:
        if name not in used:
            raise ModelConfigError(f"ensemble tensor '{name}' is unused in ensemble '{ensemble}'")


def _needs(step: EnsembleStep | None) -> tuple[str, ...]:
    return () if step is None else tuple(step.input_map.values())


def _connected(steps: Sequence[EnsembleStep], inputs: Sequence[str]) -> set[str]:
    """Return all tensors that can be computed from the inputs, including the inputs."""
    connected, waiting = set(inputs), list(steps)
    while ready := [step for step in waiting if connected.issuperset(_needs(step))]:
        connected.update(tensor for step in ready for tensor in step.output_map.values())
        waiting = [step for step in waiting if step not in ready]
    return connected


def _used(maker: dict[str, EnsembleStep], outputs: Sequence[str]) -> set[str]:
    """Return all tensors that some output depends on, including the outputs.

    A step that is needed for one of its outputs may have other outputs that are not used.
    """
    used, waiting = set[str](), list(outputs)
    while waiting:
        tensor = waiting.pop()
        if tensor not in used:
            used.add(tensor)
            waiting.extend(_needs(maker.get(tensor)))
    return used


class _Place(NamedTuple):
    """A tensor as one model of the ensemble sees it."""

    model: str
    datatype: str
    dims: Dims
    batched: bool

    @property
    def full_dims(self) -> Dims:
        """The dims with the batch dimension, if the model has one."""
        return (-1, *self.dims) if self.batched else self.dims


def check_members(config: ModelConfig, member: Callable[[EnsembleStep], ModelConfig]) -> None:
    """Check that an ensemble matches its models in names, datatypes, shapes and batch sizes.

    Args:
        member: returns the configuration of a step's model.

    Raises:
        ModelConfigError: For the first mismatch.
    """
    places = {tensor.name: _place(config, tensor) for tensor in (*config.inputs, *config.outputs)}
    for step in config.ensemble:
        model = member(step)
        if 0 < model.max_batch_size < config.max_batch_size:  # 0: the model does not batch and takes tensors as they are
            raise ModelConfigError(
                f"ensemble {config.name} allows maximum batch size {config.max_batch_size}, but it contains model "
                f"{model.name} which only allows maximum batch size to be {model.max_batch_size}"
            )
        for tensor, place in _mapped(config.name, step, model):
            _check_same(config.name, tensor, places.setdefault(tensor, place), place)


def _place(config: ModelConfig, tensor: TensorConfig) -> _Place:
    return _Place(config.name, tensor.datatype, tensor.dims, config.max_batch_size > 0)


def _mapped(ensemble: str, step: EnsembleStep, model: ModelConfig) -> Iterator[tuple[str, _Place]]:
    what = f"in ensemble {ensemble}, ensemble tensor"
    inputs, outputs = ({tensor.name: tensor for tensor in tensors} for tensors in (model.inputs, model.outputs))
    for name, tensor in step.input_map.items():
        if name not in inputs:
            raise ModelConfigError(f"{what} {tensor} is mapping to non-existing input {name} in model {model.name}")
        yield tensor, _place(model, inputs[name])
    for name, tensor_config in inputs.items():
        if name not in step.input_map and not tensor_config.optional:
            raise ModelConfigError(
                f"in ensemble {ensemble}, input {name} in model {model.name} is not mapped to any ensemble tensors"
            )
    for name, tensor in step.output_map.items():
        if name not in outputs:
            raise ModelConfigError(f"{what} {tensor} is mapped from non-existing output {name} in model {model.name}")
        yield tensor, _place(model, outputs[name])


def _check_same(ensemble: str, tensor: str, first: _Place, second: _Place) -> None:
    what = f"in ensemble {ensemble}, ensemble tensor {tensor}: inconsistent"
    if first.datatype != second.datatype:
        raise ModelConfigError(
            f"{what} data type: {DATATYPES[first.datatype].enum} is inferred from model {first.model} while "
            f"{DATATYPES[second.datatype].enum} is inferred from model {second.model}"
        )
    if not (_may_equal(first.dims, second.dims) or _may_equal(first.full_dims, second.full_dims)):
        raise ModelConfigError(
            f"{what} shape: {_text(first.full_dims)} is inferred from model {first.model} while "
            f"{_text(second.full_dims)} is inferred from model {second.model}"
        )


def _may_equal(first: Dims, second: Dims) -> bool:
    return len(first) == len(second) and all(-1 in (a, b) or a == b for a, b in zip(first, second, strict=True))


def _text(dims: Dims) -> str:
    return f"[{','.join(map(str, dims))}]"


def missing_members(ensemble: str, names: Iterable[str]) -> ModelLoadError:
    """Return the error for an ensemble some of whose models are missing, with Triton's text."""
    return ModelLoadError(f"ensemble {ensemble} contains models that are not available or ambiguous: {', '.join(names)}")
