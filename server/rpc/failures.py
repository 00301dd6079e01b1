# SPDX-License-Identifier: Apache-2.0
"""How a gRPC call ends with an error: its code, its text as a header carries it, and what of it is in the log."""

from __future__ import annotations

import logging

from hypersonic.server.errors import ServerError, printable
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.log import log_failure
from hypersonic.server.status_codes import GrpcStatus, grpc_status

_LOG = logging.getLogger(__name__)
#: longest error text sent: it travels in a header, and clients' names are in it
_MAX_DETAILS = 4096
#: the codes by which slow clients' calls end; DEADLINE_EXCEEDED for the rest
CUT_OFF = {
    Fault.SENDS_TOO_LITTLE: GrpcStatus.RESOURCE_EXHAUSTED,
    Fault.READS_TOO_LITTLE: GrpcStatus.RESOURCE_EXHAUSTED,
    Fault.SHUTDOWN: GrpcStatus.UNAVAILABLE,
}


def cut_off_status(fault: Fault) -> GrpcStatus:
    """gRPC's code for a client that is cut off."""
    return CUT_OFF.get(fault, GrpcStatus.DEADLINE_EXCEEDED)


def details_of(error: ServerError) -> str:
    """The error's text as it may travel in a header: control characters but line ends escaped, length bounded."""
    return printable(error.text[:_MAX_DETAILS], kept="\n")


def ending(error: ServerError, client: str) -> tuple[GrpcStatus, str]:
    """The status that ends a call with an error; what is ours to mend is in the log too."""
    code = grpc_status(error)
    if code is GrpcStatus.INTERNAL:
        log_failure(_LOG, error, client)
    return code, details_of(error)
