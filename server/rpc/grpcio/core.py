# SPDX-License-Identifier: Apache-2.0
"""gRPC core as grpcio shows it, and its status codes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import grpc

from hypersonic.server.status_codes import GrpcStatus

#: gRPC core as Cython shows it; it has no type hints
cygrpc: Any = import_module("grpc._cython.cygrpc")
_TO_GRPC = {code: grpc.StatusCode[code.name] for code in GrpcStatus}


def to_grpc(code: GrpcStatus) -> grpc.StatusCode:
    """grpcio's object for a status code."""
    return _TO_GRPC[code]
