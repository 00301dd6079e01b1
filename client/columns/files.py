# SPDX-License-Identifier: Apache-2.0
"""Processes whole files: each input of a data set gives one output, and an output that is complete is not written again."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersonic.client.columns.errors import DataError, OutputError
from hypersonic.client.columns.infer import check_columns, check_names, current_version, infer_chunks, one_version
from hypersonic.client.columns.mapping import ColumnMapping, find_input
from hypersonic.client.columns.opening import (
    KINDS,
    check_input,
    default_suffix,
    is_url,
    open_sink,
    open_source,
    read_metadata,
    sink_kind,
)
from hypersonic.client.columns.source import CHUNK_BYTES, Source
from hypersonic.client.columns.whole import whole_file
from hypersonic.client.model import Model
from hypersonic.client.specs import ModelSpec
from hypersonic.client.sync import Client

#: called with the input's name, the events done, and the events of the file or None
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class FileOptions:
    """How files are read and written.

    Attributes:
        tree: of ROOT files.
        chunk_bytes: of the columns that are in memory as one chunk.
        keep: input columns that the output has too.
        overwrite: replace outputs that belong to something else.
        version: of the model; "": the server's choice.
    """

    tree: str = "Events"
    chunk_bytes: int = CHUNK_BYTES
    keep: tuple[str, ...] = ()
    overwrite: bool = False
    version: str = ""


@dataclass(frozen=True)
class Summary:
    """The result of infer_files().

    Attributes:
        files: outputs written.
        skipped: outputs that existed already.
        events, rows: of the files written.
    """

    events: int = 0
    rows: int = 0
    files: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        rate = f", {self.rows / self.seconds:,.0f} rows/s" if self.seconds and self.rows else ""
        skipped = f"; {self.skipped} done before" if self.skipped else ""
        files = f"{self.files} file{'s' * (self.files != 1)}"
        return f"{self.events:,} events, {self.rows:,} rows, {files} in {self.seconds:.1f} s{rate}{skipped}"


def infer_files(
    client: Client,
    model: str,
    mapping: ColumnMapping,
    inputs: Sequence[str],
    output: str | Path | None = None,
    options: FileOptions = FileOptions(),
    progress: Progress = lambda _name, _done, _events: None,
) -> Summary:
    """Send all events of the inputs to a model, and write an output for each input: the same events in the same order.

    Raises MappingError, DataError, OutputError, EventsError, and what Model.spec raises. An output that has all events of its
    input already is skipped. An output appears when it is complete.

    Args:
        inputs: paths, globs or URLs.
        output: a file, for one input; a directory; None: the current directory, where an output is called
            <input>.<model>.<suffix>.
    """
    begin, served = time.perf_counter(), client.model(model, options.version)
    pairs = plan_outputs(find_inputs(inputs), output, model)
    find_input(mapping, served.spec)
    events = rows = skipped = 0
    for name, path in pairs:
        done = _infer_file(client, served, mapping, (name, path), options, progress)
        skipped += done is None
        events, rows = (events + done[0], rows + done[1]) if done else (events, rows)
    return Summary(events, rows, len(pairs) - skipped, skipped, time.perf_counter() - begin)


def find_inputs(inputs: Sequence[str]) -> list[str]:
    """Return the files that the paths, globs and URLs name, each once. Raises DataError for one that names no file."""
    found: list[str] = []
    for name in inputs:
        if is_url(name) or Path(name).is_file() or Path(name).is_dir():
            found.append(name)
            continue
        files = sorted(file for file in glob.glob(name, recursive=True) if Path(file).is_file())  # noqa: PTH207 - absolute ones too
        if not files:
            raise DataError(f"{name}: there is no such file")
        found += files
    for name in found:
        check_input(name)
    return list(dict.fromkeys(found))


def plan_outputs(inputs: Sequence[str], output: str | Path | None, model: str) -> list[tuple[str, Path]]:
    """Return the inputs with their outputs. Raises OutputError if two have the same one, or one is an input."""
    into = Path(output) if output is not None else Path()
    to_file = output is not None and into.suffix.lower() in KINDS and not into.is_dir()
    if to_file and len(inputs) > 1:
        raise OutputError(f"the output {into} is a file, and there are {len(inputs)} inputs; name a directory")
    if output is not None and not to_file and into.suffix and not into.is_dir():
        sink_kind(into, "")
    pairs = [(name, into if to_file else into / f"{Path(name).stem}.{model}{default_suffix(name)}") for name in inputs]
    sources = {Path(name).resolve() for name in inputs if not is_url(name)}
    taken: dict[Path, str] = {}
    for name, path in pairs:
        sink_kind(path, "")
        if path.resolve() in sources:
            raise OutputError(f"the output {path} is an input; name another one")
        if (other := taken.setdefault(path.resolve(), name)) != name:
            raise OutputError(f"{other} and {name} have the same output {path}; put them into different directories")
    return pairs


def _infer_file(
    client: Client,
    model: Model,
    mapping: ColumnMapping,
    files: tuple[str, Path],
    options: FileOptions,
    progress: Progress,
) -> tuple[int, int] | None:
    """Return the events and rows of a file; None if its output is there already."""
    name, path = files
    with closing(open_source(name, options.tree)) as source:
        spec = model.spec
        check_columns(mapping, source, options.keep)
        check_names(mapping, spec, options.keep)
        expected = _describe(client, spec, mapping, source, options)
        if path.exists() and not options.overwrite:
            _check_same(path, expected)
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"the directory {path.parent} cannot be made: {error.strerror}") from error
        with whole_file(path) as part:
            return _write(model, mapping, source, (path, part), options, expected, progress)


def _write(
    model: Model,
    mapping: ColumnMapping,
    source: Source,
    paths: tuple[Path, Path],
    options: FileOptions,
    description: dict[str, Any],
    progress: Progress,
) -> tuple[int, int]:
    spec, sink, events, rows = model.spec, None, 0, 0
    progress(source.name, 0, source.events)
    kind = sink_kind(paths[0], source.kind)
    # closed before the source, which its thread may be reading
    with closing(infer_chunks(model, mapping, source, keep=options.keep, chunk_bytes=options.chunk_bytes)) as answers:
        try:
            for answered in one_version(answers, spec, source):
                if sink is None:
                    version = answered.version or current_version(spec)
                    sink = open_sink(kind, paths[1], {**description, "version": version}, options.tree, mapping.collection)
                sink.write(answered.chunk)
                events, rows = events + answered.chunk.events, rows + answered.rows
                progress(source.name, events, source.events)
            assert sink is not None, "a source without events raises"
            sink.close()
        except BaseException:
            if sink is not None:
                sink.abort()
            raise
    return events, rows


def _describe(client: Client, spec: ModelSpec, mapping: ColumnMapping, source: Source, options: FileOptions) -> dict[str, Any]:
    """The metadata of an output without the version, as JSON data."""
    return {
        "model": spec.name,
        "version": current_version(spec),
        "servers": [server.address for server in client.servers],
        "mapping": mapping.as_data(),
        "keep": list(options.keep),
        "tree": options.tree,
        "input": source.name.rpartition("/")[2],
        "identity": source.identity(),
    }


def _check_same(path: Path, expected: dict[str, Any]) -> None:
    """Raise OutputError unless an existing output is the same as the one that would be written."""
    found = read_metadata(path)
    if found is None:
        raise OutputError(f"the output {path} exists, and hypersonic did not write it; remove it, or use --overwrite")
    for key, words in _COMPARED.items():
        if found.get(key) != expected[key]:
            shown = f": {found.get(key)}, expected {expected[key]}" if key in {"model", "version", "keep"} else ""
            raise OutputError(f"the output {path} exists, and is of another {words}{shown}; remove it, or use --overwrite")


#: the metadata that must be equal for an output to be skipped
_COMPARED = {"identity": "input", "model": "model", "version": "version", "mapping": "mapping", "keep": "list of kept columns"}
