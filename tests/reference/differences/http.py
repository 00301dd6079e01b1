# SPDX-License-Identifier: Apache-2.0
"""The HTTP front end: bodies, headers, JSON as text."""

from __future__ import annotations

from tests.reference.difference import Difference

HTTP: tuple[Difference, ...] = (
    Difference(
        "a body that is not JSON",
        "RapidJSON's reason and offset",
        "our own reason and offset; the status is Triton's",
        "the parser is a different one",
        (
            "HTTP infer, not JSON", "HTTP infer, JSON cut off", "HTTP index, not JSON", "HTTP register, not JSON",
            "HTTP JSON in UTF-16", "HTTP JSON with half a surrogate", "HTTP JSON with a control character",
            "HTTP JSON with more behind it", "HTTP JSON with a comment", "HTTP JSON with a comma too many",
            "HTTP value 01", "HTTP value 1.", "HTTP value .5", "HTTP value +1", "HTTP value 0x10",
            "HTTP value of 400 digits", "HTTP value 1e400",
        ),
    ),
    Difference(
        "JSON that is not UTF-8",
        "accepted; the answer is not UTF-8 either",
        "500",
        "JSON must be UTF-8",
        ("HTTP JSON that is not UTF-8",),
    ),
    Difference(
        "a byte order mark; the words Inf and -Inf",
        "accepted",
        "500",
        "these are not JSON; NaN and Infinity are accepted as Triton writes them",
        ("HTTP JSON after a byte order mark", "HTTP value -Inf"),
    ),
    Difference(
        "a duplicate member",
        "the first one counts",
        "the last one counts",
        "as in most parsers",
        ("HTTP JSON with a key twice",),
    ),
    Difference(
        "JSON nested more than 100 levels deep",
        "parsed as deep as the stack allows; a million levels end the server",
        "400",
        "a request must not end the server",
        ("HTTP JSON 1000 deep",),
    ),
    Difference(
        "an Inference-Header-Content-Length that is not a number",
        "read as 0",
        "400: inference header size should be in range",
        "the header is parsed strictly",
        ("HTTP binary, header no number", "HTTP binary, header empty"),
    ),
    Difference(
        "BYTES that are not UTF-8 in a JSON answer",
        "sent unchanged, which is not JSON",
        "400: use binary data",
        "no client could parse it",
        ("HTTP binary texts", "HTTP raw, texts that are not UTF-8"),
    ),
    Difference(
        "a damaged compressed body",
        "the part that could be decompressed is parsed",
        "400 with the reason",
        "a partial request must not be executed",
        ("HTTP gzip cut off", "HTTP gzip that is none"),
    ),
    Difference(
        "a gzip body with several members",
        "the first member is parsed",
        "all members are parsed",
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
        "as GET, but without the body",
        "load balancers use HEAD",
        ("HTTP HEAD",),
    ),
    Difference(
        "percent signs in a URL path",
        "are part of the name",
        "are escapes (RFC 3986); `%2f` cannot be part of a name",
        "other client libraries escape names",
        ("HTTP escaped name", "HTTP path in the name"),
    ),
)  # fmt: skip
