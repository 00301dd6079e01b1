# SPDX-License-Identifier: Apache-2.0
"""Columnar data for the client: ROOT, Parquet, Arrow, awkward and numpy in, the same events with the model's outputs out.

::

    read_mapping, ColumnMapping          which columns are which features of a model
    infer_files, FileOptions, Summary    files in, files out
    infer_array                          arrays in memory
    infer_chunks, open_source            events chunk by chunk
    open_sink, read_metadata             outputs

uproot, awkward and pyarrow are imported when data of their kind is used.
"""

from __future__ import annotations

from hypersonic.client.columns.chunk import Chunk, Column
from hypersonic.client.columns.errors import DataError, EventsError, MappingError, OutputError
from hypersonic.client.columns.files import FileOptions, Summary, infer_files
from hypersonic.client.columns.infer import Answered, infer_array, infer_chunks
from hypersonic.client.columns.mapping import ColumnMapping
from hypersonic.client.columns.opening import open_sink, open_source, read_metadata
from hypersonic.client.columns.source import Sink, Source
from hypersonic.client.columns.yaml_file import parse_mapping, read_mapping, shipped_mappings

__all__ = [
    "Answered", "Chunk", "Column", "ColumnMapping", "DataError", "EventsError", "FileOptions", "MappingError", "OutputError",
    "Sink", "Source", "Summary", "infer_array", "infer_chunks", "infer_files", "open_sink", "open_source", "parse_mapping",
    "read_mapping", "read_metadata", "shipped_mappings",
]  # fmt: skip
