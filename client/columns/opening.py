# SPDX-License-Identifier: Apache-2.0
"""Opens inputs and outputs by their kind. The library of a kind is imported only here, when a file of it is opened."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from hypersonic.client.columns.errors import DataError, OutputError, needs, suggest
from hypersonic.client.columns.source import Sink, Source

#: the kind of a file, by its suffix
KINDS = {
    ".root": "root",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "stream",
    ".npz": "npz",
    ".npy": "npy",
}

#: the module that reads a kind; arrow reads the others
_DOORS = {"root": "root", "npz": "npz", "npy": "npz"}

#: the suffix of an output, by its kind
SUFFIXES = {"ttree": ".root", "rntuple": ".root", "parquet": ".parquet", "arrow": ".arrow", "stream": ".arrows", "npz": ".npz"}


def kind_of(name: str) -> str:
    """Return the kind of a file by its suffix: a value of KINDS. Raises DataError for a suffix that is not known."""
    suffix = Path(name).suffix.lower()
    if suffix not in KINDS:
        got = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise DataError(f"{name} has {got}, expected {', '.join(KINDS)}")
    return KINDS[suffix]


def check_input(name: str) -> None:
    """Raise DataError for a directory, for a suffix that is not known, and if the library for it is not installed."""
    if not is_url(name) and Path(name).is_dir():
        suffix = suffix if (suffix := Path(name).suffix) in KINDS else ".root"
        raise DataError(
            f"{name} is a directory, expected files: name them as a glob in quotes, such as '{Path(name)}/*{suffix}'"
        )
    _door(_DOORS.get(kind_of(name), "arrow"))


def is_url(name: str) -> bool:
    """Return whether the name is a URL, such as root://host//file.root."""
    return "://" in name


def open_source(data: Any, tree: str = "Events") -> Source:
    """Open a file by its path or URL; or an awkward array, a table of pyarrow, or arrays of numpy in memory.

    Raises DataError.

    Args:
        tree: of a ROOT file.
    """
    if isinstance(data, str | Path):
        return _open_file(str(data), tree)
    if "awkward" in sys.modules and _door("jagged").is_awkward(data):
        return cast("Source", _door("jagged").AwkwardSource(data))
    if "pyarrow" in sys.modules and _door("arrow").is_table(data):
        return cast("Source", _door("arrow").TableSource(data))
    if isinstance(data, Mapping | np.ndarray):
        return cast("Source", _door("npz").DictSource(data))
    raise DataError(
        f"events are of type {type(data).__name__}, expected a path, an awkward array, a pyarrow table or numpy arrays"
    )


def _open_file(name: str, tree: str) -> Source:
    check_input(name)
    kind = kind_of(name)
    if kind == "root":
        return cast("Source", _door("root").RootSource(name if is_url(name) else Path(name), tree))
    if is_url(name):
        raise DataError(f"{name} is a URL, and only .root files are read from one; copy the file")
    if kind == "parquet":
        return cast("Source", _door("arrow").ParquetSource(Path(name)))
    if kind in {"arrow", "stream"}:
        return cast("Source", _door("arrow").IpcSource(Path(name)))
    door = _door("npz")
    return cast("Source", (door.NpySource if kind == "npy" else door.NpzSource)(Path(name)))


def sink_kind(output: Path, source_kind: str) -> str:
    """Return the kind of an output with this suffix.

    Raises OutputError.

    Args:
        source_kind: of the input, which decides between TTree and RNTuple.
    """
    suffix = output.suffix.lower()
    kind = KINDS.get(suffix)
    if kind is None:
        raise OutputError(
            f"the output {output} has the suffix {suffix!r}, expected {', '.join(dict.fromkeys(SUFFIXES.values()))}"
        )
    if kind == "npy":
        raise OutputError(f"the output {output} cannot hold the events' counts and the metadata; use .npz")
    if kind == "root":
        return source_kind if source_kind in {"ttree", "rntuple"} else "ttree"
    return kind


def default_suffix(source: str) -> str:
    """Return the suffix of the output for an input: its own; .npz for .npy. Raises DataError for one that is not known."""
    return ".npz" if kind_of(source) == "npy" else Path(source).suffix


def open_sink(kind: str, path: Path, metadata: Mapping[str, Any], tree: str = "Events", collection: str = "") -> Sink:
    """Open an output.

    Raises OutputError, DataError.

    Args:
        kind: a key of SUFFIXES.
        metadata: JSON data.
    """
    if kind not in SUFFIXES:
        raise OutputError(f"the kind {kind!r} is not known; {suggest(kind, SUFFIXES)}")
    text = json.dumps(dict(metadata))
    if kind in {"ttree", "rntuple"}:
        return cast("Sink", _door("root").RootSink(path, text, tree, collection, rntuple=kind == "rntuple"))
    if kind == "npz":
        return cast("Sink", _door("npz").NpzSink(path, text, collection))
    return cast("Sink", _door("arrow").ArrowSink(path, text, kind))


def read_metadata(path: Path) -> dict[str, Any] | None:
    """Return what an output's metadata says: model, version, servers, mapping, input. None for a file that is not an output."""
    kind = kind_of(str(path))
    if kind == "npy":
        return None
    if kind == "root":
        text = _door("root").read_root_metadata(path)
    elif kind == "npz":
        text = _door("npz").read_npz_metadata(path)
    else:
        text = _door("arrow").read_arrow_metadata(path, kind)
    try:
        data = json.loads(text or "null")
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _door(name: str) -> Any:
    """The module of this folder that imports a library. Raises DataError if the library is not installed."""
    try:
        match name:
            case "root":
                from hypersonic.client.columns import root as module
            case "arrow":
                from hypersonic.client.columns import arrow as module  # type: ignore[no-redef]
            case "jagged":
                from hypersonic.client.columns import jagged as module  # type: ignore[no-redef]
            case _:
                from hypersonic.client.columns import npz as module  # type: ignore[no-redef]
    except ModuleNotFoundError as error:
        raise DataError(needs("this kind of data", error)) from error
    return module
