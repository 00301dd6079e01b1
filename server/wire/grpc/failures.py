# SPDX-License-Identifier: Apache-2.0
"""How a gRPC call ends with an error: the status code, the text that is sent in a header, and what is logged."""

from __future__ import annotations

import logging
from bisect import bisect_right
from itertools import accumulate

from hypersonic.server.errors import ServerError, printable
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.observe.log import log_failure
from hypersonic.server.wire.status_codes import GrpcStatus, grpc_status

_LOG = logging.getLogger(__name__)
#: the longest error text sent, in bytes of the header `grpc-message`, where a byte that is not printable ASCII takes three.
#: Clients accept 8 KiB of headers. The text can contain names that clients chose
_MOST_BYTES = 4096
_CUT = " [...]"
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
    """Return the error's text as it can be sent in a header."""
    return header_text(error.text)


def header_text(full: str) -> str:
    """Return a text as it can be sent in a header.

    Control characters other than line ends are escaped, and the text is cut to 4096 bytes as they are sent.
    """
    text = printable(full[:_MOST_BYTES], kept="\n")
    ends = list(accumulate(map(_sent_bytes, text)))
    if len(full) <= _MOST_BYTES and (not ends or ends[-1] <= _MOST_BYTES):
        return text
    return text[: bisect_right(ends, _MOST_BYTES - len(_CUT))] + _CUT


def _sent_bytes(character: str) -> int:
    """Return the bytes that a character takes in `grpc-message`, which is percent-encoded UTF-8."""
    if " " <= character <= "~" and character != "%":
        return 1
    return 3 * len(character.encode())


def ending(error: ServerError, client: str) -> tuple[GrpcStatus, str]:
    """Return the status code and the text that end a call with `error`. An INTERNAL error is also logged, with the client."""
    code = grpc_status(error)
    if code is GrpcStatus.INTERNAL:
        log_failure(_LOG, error, client)
    return code, details_of(error)
