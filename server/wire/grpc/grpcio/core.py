# SPDX-License-Identifier: Apache-2.0
"""Access to gRPC core through grpcio's Cython module, and the conversion of status codes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import grpc

from hypersonic.server.wire.status_codes import GrpcStatus

#: grpcio's Cython module over gRPC core; it has no type hints
cygrpc: Any = import_module("grpc._cython.cygrpc")
_TO_GRPC = {code: grpc.StatusCode[code.name] for code in GrpcStatus}


def to_grpc(code: GrpcStatus) -> grpc.StatusCode:
    """Return grpcio's object for a status code."""
    return _TO_GRPC[code]
