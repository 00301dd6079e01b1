# SPDX-License-Identifier: Apache-2.0
"""How a gRPC call ends with an error: the status code, the text that is sent in a header, and what is logged."""

from __future__ import annotations

import logging

from hypersonic.server.errors import ServerError, printable
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.observe.log import log_failure
from hypersonic.server.wire.status_codes import GrpcStatus, grpc_status

_LOG = logging.getLogger(__name__)
#: longest error text sent, in characters: it is sent in a header, and it can contain names that clients chose
_MAX_DETAILS = 4096
#: the status codes that end the calls of slow clients; every other fault ends with DEADLINE_EXCEEDED
CUT_OFF = {
    Fault.SENDS_TOO_LITTLE: GrpcStatus.RESOURCE_EXHAUSTED,
    Fault.READS_TOO_LITTLE: GrpcStatus.RESOURCE_EXHAUSTED,
    Fault.SHUTDOWN: GrpcStatus.UNAVAILABLE,
}


def cut_off_status(fault: Fault) -> GrpcStatus:
    """Return the gRPC status code that ends the call of a client that is cut off."""
    return CUT_OFF.get(fault, GrpcStatus.DEADLINE_EXCEEDED)


def details_of(error: ServerError) -> str:
    """Return the error's text as it can be sent in a header: control characters other than line ends are escaped, and at most
    4096 characters of the text are kept.
    """
    return printable(error.text[:_MAX_DETAILS], kept="\n")


def ending(error: ServerError, client: str) -> tuple[GrpcStatus, str]:
    """Return the status code and the text that end a call with `error`. An INTERNAL error is also logged, with the client."""
    code = grpc_status(error)
    if code is GrpcStatus.INTERNAL:
        log_failure(_LOG, error, client)
    return code, details_of(error)
