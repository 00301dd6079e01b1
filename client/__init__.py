# SPDX-License-Identifier: Apache-2.0
"""The SONIC client: sends events to one or several servers that speak Triton's protocol, and survives their failures.

::

    Client, AsyncClient                  the client, for threads and for asyncio
    Server, Tls                          the address of a server, and the credentials that it asks for
    Timeout, Limits, Settings            settings: frozen dataclasses in which everything has a default
    SameServer, OtherServer, Fallback    what to do when an attempt fails
    LocalServer                          a server on this host, for a Fallback
    Rectangular, Ragged                  several entries of different lengths in one call
    Result, Statistics                   the answer to a request, and the counts of a client
    Answers, Sequence                    streams: decoupled models, and requests that share state
    PackedRows                           packs an array for each field into rows, for a model with packed rows

It depends only on the protocol, not on the rest of this project, and works with a real tritonserver too.
"""

from __future__ import annotations

from hypersonic.client.asynchronous import AsyncClient, AsyncModel
from hypersonic.client.attempts.request import Result
from hypersonic.client.batches import Ragged, Rectangular
from hypersonic.client.codes import Code
from hypersonic.client.errors import (
    AccessError,
    AllServersFailedError,
    AnswerError,
    Attempt,
    ClientError,
    ClosedError,
    DeadlineError,
    InputError,
    QueueFullError,
    RequestError,
    ServerError,
    StreamError,
    UnavailableError,
    UnknownModelError,
    VersionGoneError,
    WrongAnswersError,
)
from hypersonic.client.local.server import LocalServer, LocalServerError
from hypersonic.client.model import Model
from hypersonic.client.packing import PackedField, PackedRows
from hypersonic.client.servers import AddressError, Server, Tls
from hypersonic.client.settings import (
    Backoff,
    Budget,
    Fallback,
    Health,
    Hedge,
    Limits,
    OtherServer,
    Retry,
    SameServer,
    Settings,
    Timeout,
)
from hypersonic.client.specs import ModelSpec, TensorSpec
from hypersonic.client.statistics import ServerStatistics, ServerTimes, Statistics
from hypersonic.client.streams import Answers, Sequence
from hypersonic.client.sync import Client
from hypersonic.client.transport.grpcio import CertificateError

__all__ = [
    "AccessError", "AddressError", "AllServersFailedError", "AnswerError", "Answers", "AsyncClient", "AsyncModel", "Attempt",
    "Backoff", "Budget", "CertificateError", "Client", "ClientError", "ClosedError", "Code", "DeadlineError", "Fallback",
    "Health", "Hedge", "InputError", "Limits", "LocalServer", "LocalServerError", "Model", "ModelSpec", "OtherServer",
    "PackedField", "PackedRows", "QueueFullError", "Ragged", "Rectangular", "RequestError", "Result", "Retry", "SameServer",
    "Sequence", "Server", "ServerError", "ServerStatistics", "ServerTimes", "Settings", "Statistics", "StreamError",
    "TensorSpec", "Timeout", "Tls", "UnavailableError", "UnknownModelError", "VersionGoneError", "WrongAnswersError",
]  # fmt: skip
