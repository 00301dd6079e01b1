# SPDX-License-Identifier: Apache-2.0
"""The HTTP front end: bodies, headers, JSON as text."""

from __future__ import annotations

from tests.reference.difference import Difference

HTTP: tuple[Difference, ...] = (
    Difference(
        "text that is no JSON",
        "RapidJSON's reason and offset",
        "the same words where the reason is the same, else ours; own offset",
        "another parser",
        (
            "HTTP infer, not JSON", "HTTP infer, JSON cut off", "HTTP JSON in UTF-16", "HTTP JSON with half a surrogate",
            "HTTP value 01", "HTTP value 1.", "HTTP value 0x10", "HTTP value of 400 digits", "HTTP value 1e400",
        ),
    ),
    Difference(
        "JSON that is not UTF-8",
        "is answered; the answer is not UTF-8 either",
        "500: Invalid encoding in string",
        "JSON is UTF-8",
        ("HTTP JSON that is not UTF-8",),
    ),
    Difference(
        "a byte order mark, the words Inf and -Inf",
        "taken",
        "500: Invalid value",
        "neither is JSON; NaN and Infinity are taken as Triton writes them",
        ("HTTP JSON after a byte order mark", "HTTP value -Inf"),
    ),
    Difference(
        "a member given twice",
        "the first counts",
        "the last counts",
        "as in most parsers",
        ("HTTP JSON with a key twice",),
    ),
    Difference(
        "JSON nested more than 100 deep",
        "parsed as deep as the stack is; a million levels end the server",
        "400",
        "a request must not end the server",
        ("HTTP JSON 1000 deep",),
    ),
    Difference(
        "Inference-Header-Content-Length that is no number",
        "taken as 0",
        "400: inference header size should be in range",
        "parsed strictly",
        ("HTTP binary, header no number", "HTTP binary, header empty"),
    ),
    Difference(
        "BYTES that are no UTF-8 in JSON",
        "sent as they are, which is not JSON",
        "400: use binary data",
        "no client could parse it",
        ("HTTP binary texts", "HTTP raw, texts that are not UTF-8"),
    ),
    Difference(
        "a compressed body that is damaged",
        "what could be unpacked is parsed",
        "400 with the reason",
        "half a request is no request",
        ("HTTP gzip cut off", "HTTP gzip that is none"),
    ),
    Difference(
        "gzip of several members",
        "the first one is parsed",
        "all of them",
        "RFC 1952: a file is a series of members",
        ("HTTP gzip of two members",),
    ),
    Difference(
        "Content-Type of errors and of empty answers",
        "text/plain in most places",
        "application/json; none for an empty body",
        "the body of an error is JSON",
        ("HTTP content type of nothing", "HTTP content type of no such page"),
    ),
    Difference(
        "HEAD",
        "405",
        "as GET, without the body",
        "load balancers ask so",
        ("HTTP HEAD",),
    ),
    Difference(
        "percent signs in a path",
        "part of the name",
        "escapes (RFC 3986); `%2f` is no part of a name",
        "clients of other libraries escape",
        ("HTTP escaped name", "HTTP path in the name"),
    ),
)  # fmt: skip
