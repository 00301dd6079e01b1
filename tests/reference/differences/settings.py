# SPDX-License-Identifier: Apache-2.0
"""Shared memory, trace and log settings, what a server says of itself."""

from __future__ import annotations

from tests.reference.difference import Difference

SETTINGS: tuple[Difference, ...] = (
    Difference(
        "extensions, in the metadata of the server",
        "`cuda_shared_memory` is advertised even without a GPU",
        "`cuda_shared_memory` is not (Status is empty, Unregister does nothing, Register is refused); `hypersonic` is, "
        "and `hypersonic(simulated_cards)` while a model is on an emulated card",
        "this server has no GPU memory; a client can tell which server it asks",
        ("server", "HTTP GET /v2"),
    ),
    Difference(
        "registering shared memory without a name, or that of the python backend",
        "INTERNAL: cannot be opened",
        "INVALID_ARGUMENT with the reason",
        "the texts are those of newer Triton; CVE-2025-23328",
        ("register nothing", "register the backend's"),
    ),
    Difference(
        "several regions in one shared memory object",
        "the second one is refused, with varying texts",
        "registered",
        "2.51 has already closed the object",
        ("region: registered under another name", "region: registered over HTTP"),
    ),
    Difference(
        "a region whose offset is not a multiple of 4096 bytes; an empty region",
        "INVALID_ARGUMENT: unable to process address space",
        "registered; INVALID_ARGUMENT: invalid args",
        "regions are read and written, not mapped",
        ("region: part of a segment", "region: of no bytes"),
    ),
    Difference(
        "a trace_rate that is followed by letters, or is negative",
        "the number is used; 2^32 minus that number",
        "INVALID_ARGUMENT",
        "a typing error must not set a rate",
        (
            "trace: rate with a letter behind", "trace of a model: rate with a letter behind",
            "HTTP trace: rate with a letter behind", "trace: rate negative", "trace of a model: rate negative",
            "HTTP trace: rate negative",
        ),
    ),
    Difference(
        "a caller without credentials turns off a log level that was on at start (log_info, log_warning, log_error)",
        "accepted",
        "UNIMPLEMENTED",
        "a client must not hide its actions; `--allow-client-log-off` permits it",
        ("log: info off", "HTTP log: info off"),
    ),
    Difference(
        "the log_format json",
        "unknown",
        "one object per line",
        "log collectors can read it",
        ("log: format json", "HTTP log: format json"),
    ),
    Difference(
        "a change of several settings, one of which is invalid",
        "the settings before it are changed; 503 over HTTP",
        "nothing is changed; 400 over HTTP",
        "after an error, a client knows which settings are in force",
        ("log: one good, one bad", "HTTP log: one good, one bad", "HTTP log: unknown format"),
    ),
)  # fmt: skip
