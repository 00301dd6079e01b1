# SPDX-License-Identifier: Apache-2.0
"""Shared memory, trace and log settings, what a server says of itself."""

from __future__ import annotations

from tests.reference.difference import Difference

SETTINGS: tuple[Difference, ...] = (
    Difference(
        "extension cuda_shared_memory",
        "advertised, without a GPU too",
        "not advertised; Status is empty, Unregister does nothing, Register is refused",
        "there is no GPU memory here",
        ("server", "HTTP GET /v2"),
    ),
    Difference(
        "registering shared memory without a name, or the python backend's own",
        "INTERNAL: cannot be opened",
        "INVALID_ARGUMENT with the reason",
        "newer Triton's texts; CVE-2025-23328",
        ("register nothing", "register the backend's"),
    ),
    Difference(
        "several regions of one shared memory object",
        "the second is refused, with a text that varies",
        "registered",
        "2.51 has closed the object by then",
        ("region: registered under another name", "region: registered over HTTP"),
    ),
    Difference(
        "a region whose offset is no multiple of 4096 bytes; one of no bytes",
        "INVALID_ARGUMENT: unable to process address space",
        "registered; INVALID_ARGUMENT: invalid args",
        "regions are read and written, not mapped",
        ("region: part of a segment", "region: of no bytes"),
    ),
    Difference(
        "a trace_rate with letters behind it or below 0",
        "the number in front; 2^32 less so many",
        "INVALID_ARGUMENT",
        "a typing error must not set a rate",
        (
            "trace: rate with a letter behind", "trace of a model: rate with a letter behind",
            "HTTP trace: rate with a letter behind", "trace: rate negative", "trace of a model: rate negative",
            "HTTP trace: rate negative",
        ),
    ),
    Difference(
        "less of a log than at start (log_info, log_warning, log_error false) from callers who showed no credentials",
        "done",
        "UNIMPLEMENTED",
        "a client must not hide what it does; `--allow-client-log-off`",
        ("log: info off", "HTTP log: info off"),
    ),
    Difference(
        "log_format json",
        "unknown",
        "one object a line",
        "log collectors read it",
        ("log: format json", "HTTP log: format json"),
    ),
    Difference(
        "a change of settings of which one is refused",
        "those before it are made; 503 over HTTP",
        "none is made; 400 over HTTP",
        "a client knows what holds after an error",
        ("log: one good, one bad", "HTTP log: one good, one bad", "HTTP log: unknown format"),
    ),
)  # fmt: skip
