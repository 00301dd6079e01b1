# SPDX-License-Identifier: Apache-2.0
"""model_warmup: requests that every instance runs before its version is READY, so that no client waits for a slow first run.

Random data are floats in [0, 1), and 0 or 1 for integers, which stay valid where the model uses them as indices.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

from hypersonic.server.core.config.files import WARMUP_DIRECTORY, read_model_file
from hypersonic.server.core.config.schema import ModelConfig, Warmup, WarmupInput
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.backend import Instance, LoadedModel
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import CheckedRequest, InferRequest, InputTensor
from hypersonic.server.core.inference.responses import Responses
from hypersonic.server.core.inference.strings import pack_strings
from hypersonic.server.core.links import Links
from hypersonic.server.errors import BackendError, ModelLoadError, ServerError

#: the most bytes of one sample: protobuf's limit, so that no sample is larger than a request can be
_MAX_SAMPLE_BYTES = 2**31 - 1
#: how long to wait for the final answer of a decoupled model
_PATIENCE_S = 600


def warm_up(config: ModelConfig, model: Path, loaded: LoadedModel, links: Links = Links()) -> None:  # noqa: B008
    """Run every sample of the configuration in every instance, including standby ones.

    Args:
        model: the model's directory.

    Raises:
        ModelLoadError: With the sample's name, for a sample that does not match the model or that fails.
    """
    for sample in config.warmups:
        request = _checked(sample, config, model, links)
        for instance in (one for one in (*loaded.instances, *loaded.standby) if one.in_service):
            for _ in range(sample.count):
                _run(sample, request, instance, config)


def _checked(sample: Warmup, config: ModelConfig, model: Path, links: Links) -> CheckedRequest:
    inputs = tuple(_inputs(sample, model, links))
    try:
        return check(InferRequest(id=sample.name, inputs=inputs), config)
    except ServerError as error:
        raise _failed(sample, error) from error


def _failed(sample: Warmup, error: ServerError) -> ModelLoadError:
    return ModelLoadError(f"failed to run warmup sample '{sample.name}': {error}")


def _inputs(sample: Warmup, model: Path, links: Links) -> Iterator[InputTensor]:
    rows = max(1, sample.batch_size)
    sizes = {name: prod(spec.dims) * rows * (DATATYPES[spec.datatype].size_bytes or 4) for name, spec in sample.inputs.items()}
    if sum(sizes.values()) > _MAX_SAMPLE_BYTES:
        raise ModelLoadError(
            f"warmup sample '{sample.name}' has {sum(sizes.values())} bytes, expected at most {_MAX_SAMPLE_BYTES}"
        )
    for name, spec in sample.inputs.items():
        shape = (sample.batch_size, *spec.dims) if sample.batch_size else spec.dims
        data = _data(name, spec, model, links)
        yield InputTensor(name, spec.datatype, shape, memoryview(data * rows))


def _data(name: str, spec: WarmupInput, model: Path, links: Links) -> bytes:
    """Return the bytes of one row. All rows of a sample are equal."""
    count, size_bytes = prod(spec.dims), DATATYPES[spec.datatype].size_bytes
    if spec.source == "zero":
        return bytes(count * (size_bytes or 4))  # an empty string is encoded as a length of 0
    if spec.source == "random":
        return _random(spec, count)
    data = read_model_file(model, f"{WARMUP_DIRECTORY}/{spec.file}", _MAX_SAMPLE_BYTES, links)
    if size_bytes and len(data) != count * size_bytes:
        raise ModelLoadError(
            f"warmup input '{name}': {WARMUP_DIRECTORY}/{spec.file} has {len(data)} bytes, expected {count * size_bytes}"
        )
    return data


def _random(spec: WarmupInput, count: int) -> bytes:
    random = np.random.default_rng(0)
    if spec.datatype == "BYTES":
        return pack_strings(str(n) for n in random.integers(0, 2, count))
    if spec.datatype == "BF16":  # the upper half of an FP32
        return (random.random(count, np.float32).view("<u4") >> 16).astype("<u2").tobytes()
    if DATATYPES[spec.datatype].numpy.endswith(("f2", "f4", "f8")):
        return random.random(count).astype(DATATYPES[spec.datatype].numpy).tobytes()
    return random.integers(0, 2, count).astype(DATATYPES[spec.datatype].numpy).tobytes()


def _run(sample: Warmup, request: CheckedRequest, instance: Instance, config: ModelConfig) -> None:
    slot = instance.slots[0]
    try:
        pieces = range(0, request.rows, slot.capacity_rows)
        for first_row in pieces:
            over = threading.Event()
            pending = PendingRequest(
                *(request, _unframed, time.monotonic_ns()),
                on_done=lambda _: over.set(),  # noqa: B023 - called in this turn of the loop
                responses=Responses(_Nowhere()) if config.decoupled else None,
            )
            slot.start([Share(pending, first_row, min(slot.capacity_rows, request.rows - first_row))])
            slot.finish()
            if config.decoupled:
                _wait(pending, over)
            else:
                slot.answer(0)
    except ServerError as error:
        raise _failed(sample, error) from error


def _wait(pending: PendingRequest, over: threading.Event) -> None:
    if not over.wait(_PATIENCE_S):
        raise BackendError(f"no final response within {_PATIENCE_S} s")
    if pending.failure is not None:
        raise pending.failure


def _unframed(_request: CheckedRequest, _answer: Answer) -> None:
    return None


class _Nowhere:
    """A Sink that discards the answers of a decoupled model."""

    def respond(self, framed: object) -> None:
        """Discard an answer."""
        del framed

    def respond_error(self, error: ServerError) -> None:
        """Discard an error."""
        del error

    def end(self, error: ServerError | None) -> None:
        """Ignore the end; the request itself keeps the error."""
        del error
