# SPDX-License-Identifier: Apache-2.0
"""coffea's triton_wrapper with several requests in flight and several servers.

::

    from hypersonic.client.coffea import triton_wrapper  # instead of: from coffea.ml_tools import triton_wrapper

awkward and dask-awkward arrays are handled by coffea's own class, from which this one is derived. Needs coffea.
"""

from __future__ import annotations

import hashlib
import pickle
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.batches import no_rows
from hypersonic.client.calls import of_one_version
from hypersonic.client.errors import AnswerError, InputError
from hypersonic.client.model import Model
from hypersonic.client.servers import AddressError, Server, Tls
from hypersonic.client.settings import Settings
from hypersonic.client.specs import TensorSpec
from hypersonic.client.sync import Client

try:
    from coffea import ml_tools
except ImportError as error:
    raise ImportError(
        f"hypersonic.client.coffea needs coffea, which cannot be imported ({error}): pip install coffea 'tritonclient[all]'"
    ) from error

#: the URL's form
_FORM = "triton+grpc://HOST:PORT[,HOST:PORT..]/MODEL/VERSION"
#: tritonclient's names of the TLS files, and ours
_FILES = {"root_certificates": "root", "private_key": "key", "certificate_chain": "certificate"}
#: fields of Server that client_args may also have
_OF_SERVER = ("token", "headers", "proxy")

#: the clients of this process, by the `key` of the wrappers that share them
_clients: dict[str, Client] = {}


class triton_wrapper(ml_tools.triton_wrapper):  # type: ignore[misc] # noqa: N801 - coffea is not installed here; the name is coffea's
    """A drop-in for coffea's class of this name: users derive from it and implement `prepare_awkward`.

    The batches of a call are sent side by side, as many as Limits.in_flight allows, and each result is copied to its place in
    one array. The last batch is not padded. Failed requests are retried as the settings say: coffea's `run_infer` and its
    attributes for retries are not used. Wrappers with equal servers and settings share one client in a process, so that dask
    may pickle a wrapper into every task.
    """

    _batch_size: int  # set by coffea's __init__; negative: not known yet

    def __init__(
        self,
        model_url: str,
        client_args: Mapping[str, Any] | None = None,
        batch_size: int = -1,
        *,
        settings: Settings | None = None,
    ) -> None:
        """Check the arguments; the servers are asked later.

        Raises ValueError.

        Args:
            model_url: triton+grpc://host:port/model/version. Several servers are separated by commas, the version may be empty.
            client_args: those of tritonclient that concern TLS (ssl, which is True by default as in coffea; root_certificates,
                private_key, certificate_chain), and token, headers and proxy of Server. `verbose` has no effect.
            batch_size: rows in a request; -1: the server's preferred or largest batch.
            settings: of the client.
        """
        addresses, model, version = _parsed(model_url)
        if not batch_size:
            raise ValueError("batch_size is 0, expected a number of rows, or -1 for the server's")
        super().__init__(f"triton+grpc://servers/{model}/{version}", dict(client_args or {}), batch_size)
        self.address = addresses
        self._settings = settings or Settings()
        self._servers = _servers(addresses, self.client_args)
        self._key = _key(self._servers, self._settings)

    @property
    def client(self) -> Client:
        """The client, which all wrappers of this process with the same servers and settings share."""
        return _clients.get(self._key) or _clients.setdefault(self._key, Client(self._servers, self._settings))

    def close(self) -> None:
        """Close the client, which other wrappers of this process may use, too. The next call of any of them makes a new one."""
        client = _clients.pop(self._key, None)
        if client is not None:
            client.close()

    @property
    def batch_size(self) -> int:
        """The rows of one request: those given, or else the server's preferred batch size, or else its largest."""
        if self._batch_size < 0:
            spec = self.client.model(self.model, self.version).spec
            self._batch_size = spec.preferred_batch_size or spec.max_batch_size
            if not self._batch_size:
                self._batch_size = self.batch_size_fallback
                warnings.warn(
                    f"model {self.model!r} says no batch size; its requests have {self._batch_size} rows. Pass batch_size=",
                    UserWarning,
                    stacklevel=2,
                )
        return int(self._batch_size)

    def numpy_call(self, output_list: Sequence[str], input_dict: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the outputs of these names for all rows, in order, by one version of the model.

        Raises what Model.infer() raises.

        Args:
            input_dict: arrays (rows, ...) by the names of the model's inputs, in the model's shapes; they are converted to its
                datatypes.
        """
        counts = {name: len(array) for name, array in input_dict.items()}
        if len(set(counts.values())) != 1:
            raise InputError(f"the inputs of model {self.model!r} have different numbers of rows: {counts}")
        model, rows, size = self.client.model(self.model, self.version), next(iter(counts.values())), self.batch_size
        if not rows:
            empty = no_rows(model.spec)
            return {name: empty[name] for name in output_list}
        return of_one_version(lambda: self._all_rows(model, output_list, input_dict, rows, size))

    def _all_rows(
        self, model: Model, output_list: Sequence[str], input_dict: Mapping[str, NDArray[Any]], rows: int, size: int
    ) -> dict[str, NDArray[Any]]:
        """Return the outputs for all rows, which are sent in batches of `size`. Raises VersionGoneError."""
        outputs: dict[str, NDArray[Any]] = {}
        batches = _batches(model.inputs, input_dict, rows, size)
        for result in model.map(batches, ordered=False, versions="one", copy=False):
            begin = result.index * size
            for name in output_list:
                part = _part(result.outputs, name, min(size, rows - begin))
                if name not in outputs:
                    outputs[name] = np.empty((rows, *part.shape[1:]), part.dtype)
                elif part.shape[1:] != outputs[name].shape[1:]:
                    raise AnswerError(f"output {name!r} has rows of shape {part.shape[1:]} and of {outputs[name].shape[1:]}")
                outputs[name][begin : begin + len(part)] = part
        return {name: outputs[name] for name in output_list}

    def _create_model_metadata(self) -> dict[str, Any]:
        """Return what coffea reads of ModelMetadata."""
        spec = self.client.model(self.model, self.version).spec
        rows = (-1,) if spec.max_batch_size else ()

        def described(tensors: Sequence[TensorSpec]) -> list[dict[str, Any]]:
            return [{"name": one.name, "datatype": one.datatype, "shape": [*rows, *one.shape]} for one in tensors]

        names = {"name": spec.name, "versions": list(spec.versions)}
        return {**names, "inputs": described(spec.inputs), "outputs": described(spec.outputs)}


def _parsed(url: str) -> tuple[str, str, str]:
    """The addresses, the model and the version of a URL."""
    protocol, _, location = url.partition("://")
    addresses, slash, rest = location.rpartition("/")
    addresses, between, model = addresses.rpartition("/")
    if protocol == "triton+http":
        raise ValueError(f"the URL is {url!r}; this client speaks gRPC only, expected {_FORM}, which is port 8001 as a rule")
    if protocol != "triton+grpc" or not (slash and between and addresses and model):
        raise ValueError(f"the URL is {url!r}, expected {_FORM}; VERSION may be empty, but not the slash before it")
    return addresses, model, rest


def _servers(addresses: str, args: Mapping[str, Any]) -> tuple[Server, ...]:
    """The servers of a URL, with the TLS settings and the fields of Server from client_args."""
    known = {"ssl", "verbose", *_FILES, *_OF_SERVER}
    if unknown := set(args) - known:
        raise ValueError(f"client_args has {', '.join(sorted(unknown))}, which this client does not take, only {sorted(known)}")
    tls = Tls(**{ours: args[name] for name, ours in _FILES.items() if args.get(name)}) if args["ssl"] else None
    others = {name: args[name] for name in _OF_SERVER if name in args}
    names = [name.strip() for name in addresses.split(",")]
    if not all(names):
        raise AddressError(f"{addresses!r} has an empty address, expected HOST:PORT, separated by commas")
    return tuple(Server(name, tls, **others) for name in names)


def _key(servers: tuple[Server, ...], settings: Settings) -> str:
    """The name of the client of these servers and settings: equal for equal ones, and kept when the wrapper is pickled."""
    try:
        pickled = import_module("cloudpickle").dumps((servers, settings))  # a dependency of coffea; it also pickles lambdas
    except (ImportError, pickle.PicklingError, TypeError, AttributeError):
        return uuid.uuid4().hex
    return hashlib.sha256(pickled).hexdigest()


def _batches(
    tensors: Sequence[TensorSpec], inputs: Mapping[str, NDArray[Any]], rows: int, size: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the inputs of each request, in the model's datatypes. Raises InputError for numbers that they do not hold."""
    dtypes = {tensor.name: tensor.dtype for tensor in tensors}
    for begin in range(0, rows, size):
        yield {name: _cast(name, array[begin : begin + size], dtypes[name]) for name, array in inputs.items()}


def _cast(name: str, part: NDArray[Any], dtype: np.dtype) -> NDArray[Any]:
    """Return the numbers in a dtype, as coffea does; floats may become integers if they are whole numbers."""
    numbers = part.dtype.kind in "iuf"
    if numbers and dtype.kind == "f":
        return part  # the client converts it, and refuses what would be infinite
    with np.errstate(invalid="ignore"):  # NaN is reported below
        made = part.astype(dtype, copy=False)
    if numbers and dtype.kind in "iu" and (lost := np.asarray(made != part)).any():
        raise InputError(f"input {name!r} has {part[lost].flat[0]}, which is no {dtype}")
    return made


def _part(outputs: Mapping[str, NDArray[Any]], name: str, rows: int) -> NDArray[Any]:
    """The output of one batch, if it is there and has the batch's rows."""
    if name not in outputs:
        raise AnswerError(f"an answer has no output {name!r}, only {', '.join(outputs)}")
    part = outputs[name]
    if part.shape[:1] != (rows,):
        raise AnswerError(f"output {name!r} has shape {part.shape} for a batch of {rows} rows")
    return part
