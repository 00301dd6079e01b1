# SPDX-License-Identifier: Apache-2.0
"""Parses the body of an HTTP inference request into an InferRequest.

::

    body:  {"id": .., "parameters": .., "inputs": [..], "outputs": [..]} tensor tensor ...
           '--- JSON, Inference-Header-Content-Length bytes -----------' '--- views ---'

The format is KServe's v2 protocol with Triton's extensions: binary tensor data, classification, parameters, sequence, shared
memory. The checks have Triton's order and texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.parameters import ParameterValue, sort_parameters
from hypersonic.server.core.inference.request import InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.inference.shm import HeldRegions, allowed
from hypersonic.server.core.inference.strings import pack_strings
from hypersonic.server.errors import InvalidRequestError, InvalidTensorError, MalformedJsonError
from hypersonic.server.limits.message import check_dims
from hypersonic.server.wire.http import jsontext, tensors
from hypersonic.server.wire.http.jsontext import array, boolean, member, members, optional, string, unsigned

_UNSIGNED = ("timeout", "priority")
_BOOLEAN = ("sequence_start", "sequence_end", "binary_data_output")
_INT64 = range(-(2**63), 2**64)


class BinaryOutputs(NamedTuple):
    """The outputs that are sent as bytes after the JSON.

    Attributes:
        every: all of them, for a request that names no outputs.
    """

    every: bool = False
    names: frozenset[str] = frozenset()

    def wants(self, name: str) -> bool:
        """Return whether the output is sent as bytes."""
        return self.every or name in self.names


class ParsedRequest(NamedTuple):
    """A request, and the outputs that its answer has to carry as bytes."""

    request: InferRequest
    binary: BinaryOutputs


def header_bytes(text: str | None, size_bytes: int) -> int:
    """Return how many bytes of a body of `size_bytes` are JSON, 0 = none of them.

    Args:
        text: the value of Inference-Header-Content-Length, None = the header is absent.

    Raises:
        InvalidRequestError: (400).
    """
    if text is None:
        return size_bytes
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) > size_bytes:
        raise InvalidRequestError(f"inference header size should be in range (0, {size_bytes}), got: {text[:64]}")
    return int(text)


def parse_request(
    body: memoryview,
    json_bytes: int,
    config: ModelConfig,
    regions: HeldRegions | None,
    headers: Mapping[str, ParameterValue],
) -> ParsedRequest:
    """Parse a body. Whether the request fits the model is checked later.

    Args:
        json_bytes: how many bytes of the body are JSON, 0 = the body is one raw tensor.
        regions: the registered shared memory, None = requests cannot use any.
        headers: the request headers that become parameters.

    Raises:
        ServerError: With Triton's text.
    """
    if json_bytes == 0:
        return _raw_request(body, config)
    document = jsontext.parse_request(body[:json_bytes])
    request_id = string(optional(document, "id"), "id") if _has(document, "id") else ""
    values = _parameters(document)
    binary = _Binary(body[json_bytes:], config.name)
    inputs = tuple([_input(value, binary, regions) for value in array(member(document, "inputs"), "inputs")])
    binary.finish()
    outputs = array(document["outputs"], "outputs") if _has(document, "outputs") else []
    wanted = [_output(value, regions) for value in outputs]
    sorted_parameters = sort_parameters({**headers, **values})
    request = InferRequest(
        request_id,
        inputs,
        tuple([output for output, _ in wanted]),
        timeout_us=sorted_parameters.timeout_us,
        priority=sorted_parameters.priority,
        sequence=sorted_parameters.sequence,
        parameters=sorted_parameters.custom,
    )
    every = not wanted and bool(values.get("binary_data_output", False))
    return ParsedRequest(request, BinaryOutputs(every, frozenset(output.name for output, as_bytes in wanted if as_bytes)))


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _parameters(document: Any) -> dict[str, ParameterValue]:
    if not _has(document, "parameters"):
        return {}
    value = document["parameters"]
    if not isinstance(value, dict):
        raise MalformedJsonError("failed to get request params.: attempt to get members for non-object")
    return {key: _parameter(key, value) for key, value in value.items()}


def _parameter(key: str, value: Any) -> ParameterValue:
    if key == "sequence_id":
        return value if type(value) is int and 0 <= value < 2**64 else string(value, key)
    if key in _BOOLEAN:
        return boolean(value, key)
    if key in _UNSIGNED:
        return unsigned(value, key)
    if key.startswith("triton_"):
        raise InvalidRequestError(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
        )
    if not isinstance(value, bool | int | float | str):
        raise InvalidRequestError(f"parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'.")
    return _as_float(key, value) if type(value) is int and value not in _INT64 else value


def _as_float(key: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidRequestError(f"parameter '{key}' is too big to be stored in double.") from None


class _Binary:
    """The bytes that follow the JSON, taken in the order of the inputs."""

    def __init__(self, data: memoryview, model: str) -> None:
        self._data = data
        self._model = model
        self._at = 0

    def take(self, name: str, size_bytes: int) -> memoryview:
        lacking = self._at + size_bytes - len(self._data)
        if lacking > 0:
            raise InvalidRequestError(
                f"unexpected size for input '{name}', expecting {lacking} additional bytes for model '{self._model}'"
            )
        self._at += size_bytes
        return self._data[self._at - size_bytes : self._at]

    def finish(self) -> None:
        if self._at != len(self._data):
            raise InvalidRequestError(f"unexpected additional input data for model '{self._model}'")


def _input(value: Any, binary: _Binary, regions: HeldRegions | None) -> InputTensor:
    parameters = members(optional(value, "parameters"), "")
    given = [key for key in ("data",) if _has(value, key)]
    given += [key for key in ("binary_data_size", "shared_memory_region") if key in parameters]
    if len(given) != 1:
        raise InvalidRequestError(
            "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
            "'shared_memory_region' in 'parameters'. But "
            + (f"set {' '.join(f'{key!r}' for key in given)}" if given else "no field is set")
        )
    name = string(member(value, "name"), "name")
    datatype = string(member(value, "datatype"), "datatype")
    shape = tuple([unsigned(n, "shape") for n in check_dims(name, array(member(value, "shape"), "shape"))])
    if datatype not in DATATYPES:
        raise InvalidRequestError(f"invalid datatype for input {name}")
    if given == ["data"]:
        data = tensors.encode(name, DATATYPES[datatype], shape, value["data"])
    elif given == ["binary_data_size"]:
        data = binary.take(name, unsigned(parameters["binary_data_size"], "binary_data_size"))
    else:
        data = allowed(regions).read(*_place(parameters))
    return InputTensor(name, datatype, shape, data)


def _place(parameters: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return (region, offset in bytes, size in bytes)."""
    region = string(parameters["shared_memory_region"], "shared_memory_region")
    offset = unsigned(parameters.get("shared_memory_offset", 0), "shared_memory_offset")
    return region, offset, unsigned(parameters.get("shared_memory_byte_size", 0), "shared_memory_byte_size")


def _output(value: Any, regions: HeldRegions | None) -> tuple[WantedOutput, bool]:
    """Return (the output, whether it is requested as bytes)."""
    name = string(member(value, "name"), "name")
    parameters = members(optional(value, "parameters"), "")
    as_bytes = boolean(parameters["binary_data"], "binary_data") if "binary_data" in parameters else False
    if "shared_memory_region" not in parameters:
        return WantedOutput(name, _classification(parameters)), as_bytes
    for key, given in (("classification", "classification" in parameters), ("binary_data", as_bytes)):
        if given:
            raise InvalidRequestError(f"Output can't set both 'shared_memory_region' and '{key}'")
    return WantedOutput(name, region=allowed(regions).span(*_place(parameters))), False


def _classification(parameters: Mapping[str, Any]) -> int:
    value = parameters.get("classification", 0)
    if type(value) is not int or not 0 <= value < 2**64:
        raise jsontext.wrong_type("classification", "unsigned-integer", "set")
    return value


def _raw_request(body: memoryview, config: ModelConfig) -> ParsedRequest:
    """Return a request whose only input is the whole body, with a batch size of 1 if the model batches.

    All outputs are sent as bytes.
    """
    if len(config.inputs) != 1:
        raise InvalidTensorError(
            f"Raw request must only have 1 input (found 1) to be deduced but got {len(config.inputs)} inputs in "
            f"'{config.name}' model configuration"
        )
    spec = config.inputs[0]
    size_bytes = DATATYPES[spec.datatype].size_bytes
    data = body
    if size_bytes == 0:
        if spec.dims != (1,):
            raise InvalidTensorError(f"For BYTE datatype raw input '{spec.name}', the model must have input shape [1]")
        data = memoryview(pack_strings([bytes(body)]))
    dims = _deduced(spec.name, spec.dims, len(body) // size_bytes if size_bytes else 1)
    if size_bytes and prod(dims) * size_bytes != len(body):
        raise InvalidTensorError(
            f"input byte size mismatch for input 'raw_input' for model '{config.name}'. Expected {prod(dims) * size_bytes}, "
            f"got {len(body)}"
        )
    shape = (1, *dims) if config.max_batch_size else dims
    return ParsedRequest(InferRequest("", (InputTensor(spec.name, spec.datatype, shape, data),)), BinaryOutputs(every=True))


def _deduced(name: str, dims: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """Return the dims with the only variable one computed from the number of elements."""
    if dims.count(-1) > 1:
        raise InvalidTensorError(
            f"The shape of the raw input '{name}' can not be deduced because there are more than one variable-sized dimension"
        )
    fixed = prod(n for n in dims if n != -1)
    return tuple(elements // fixed if n == -1 else n for n in dims)
