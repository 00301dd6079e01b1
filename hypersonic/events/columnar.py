# SPDX-License-Identifier: Apache-2.0
"""`hypersonic infer --input`: sends the events of files, and writes files with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypersonic.client import Client, Timeout
from hypersonic.client.columns import FileOptions, MappingError, Summary, infer_files, read_mapping, shipped_mappings
from hypersonic.client.columns.files import Progress

#: the timeout of a request with all its retries; an emulated card is slow, and other clients' requests may be ahead of it
ANSWER_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class ColumnarJob:
    """Files, and the model for their events.

    model: its name in the outputs' names, and of the shipped mapping. name: the name on the server; "": the same.
    columns: a YAML file; "": the shipped mapping. collection: replaces the mapping's; "": as the mapping says.
    output: as infer_files() takes it.
    """

    model: str
    inputs: tuple[str, ...]
    urls: tuple[str, ...]
    name: str = ""
    columns: str = ""
    collection: str = ""
    output: Path | None = None
    options: FileOptions = field(default_factory=FileOptions)


def infer_events_of_files(job: ColumnarJob, progress: Progress) -> Summary:
    """Send the events, write the outputs, and return what was done. Raises client.errors.ClientError."""
    mapping = read_mapping(job.columns or _shipped(job.model))
    if job.collection:
        mapping = replace(mapping, collection=job.collection)
    with Client(job.urls, timeout=Timeout(total_s=ANSWER_TIMEOUT_S)) as client:
        return infer_files(client, job.name or job.model, mapping, job.inputs, job.output, job.options, progress)


def _shipped(model: str) -> str:
    shipped: Sequence[str] = list(shipped_mappings())
    if model not in shipped:
        raise MappingError(
            f"there is no mapping for model {model!r}; name a YAML file with --columns ({', '.join(shipped)} has one)"
        )
    return model
