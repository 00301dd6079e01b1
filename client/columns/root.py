# SPDX-License-Identifier: Apache-2.0
"""ROOT files: TTrees and RNTuples. It is the only module that imports uproot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from hypersonic.client.columns.chunk import Chunk, Column, split_counters
from hypersonic.client.columns.errors import DataError, OutputError, suggest
from hypersonic.client.columns.jagged import from_column, make_record, to_column
from hypersonic.client.columns.source import METADATA_KEY, file_identity, find_columns, own_name, plain_name, reading

_TTREES = ("TTree", "TNtuple", "TNtupleD", "TChain")
#: uproot lets any exception of its parsers through
_ERRORS = (Exception,)
_RNTUPLES = ("ROOT::RNTuple", "ROOT::Experimental::RNTuple")


class RootSource:
    """A TTree or an RNTuple.

    Args:
        path: a local file, or a URL that uproot and fsspec support, such as root://host//file.root.
    """

    def __init__(self, path: str | Path, tree: str) -> None:
        self.name, self._path = str(path), path
        with ExitStack() as opened, reading(lambda: self.name, _ERRORS):
            self._file = opened.enter_context(uproot.open(path))
            self._tree = self._find(tree)
            self.kind = "rntuple" if self._is_rntuple() else "ttree"
            self._names = self._columns()
            self.events: int | None = int(self._tree.num_entries)
            opened.pop_all()
        self.columns = tuple(self._names)

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Decompress and yield the columns."""
        names = {name: self._names[column] for name, column in find_columns(columns, self.columns, self.name).items()}
        events, first = self.events or 0, 0
        with reading(lambda: f"{self.name}, from event {first} on,", _ERRORS):
            if not names:
                yield Chunk(0, events, {})
                return
            self._check_kinds(names)
            # uproot also calls the filter with the full path behind its separator, which no other branch has
            wanted = {f"{'.' if self._is_rntuple() else '/'}{native}" for native in names.values()}.__contains__
            step = min(self._tree.num_entries_for(chunk_bytes, filter_name=wanted), events)
            for arrays in self._tree.iterate(filter_name=wanted, step_size=max(1, step), library="ak"):
                made = {
                    name: to_column(self._field(arrays, native, first), name, self.name, first)
                    for name, native in names.items()
                }
                yield Chunk(first, len(arrays), made)
                first += len(arrays)
        if first != events:
            raise DataError(f"{self.name} has {first} events, expected {events}; is it complete?")

    def identity(self) -> str:
        """Return the file's size and a hash of its two ends, or its UUID if it is not local."""
        if isinstance(self._path, Path):
            return file_identity(self._path)
        return f"UUID {self._file.file.uuid}, {self.events} events"

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _find(self, tree: str) -> Any:
        cycles = [name for name, kind in self._file.classnames(recursive=True).items() if kind in {*_TTREES, *_RNTUPLES}]
        trees = list(dict.fromkeys(name.partition(";")[0] for name in cycles))
        if tree not in trees and tree not in cycles:
            what = suggest(tree, trees) if trees else "it has none at all"
            raise DataError(f"{self.name} has no tree {tree!r}; {what}")
        return self._file[tree]

    def _columns(self) -> dict[str, str]:
        """The columns and uproot's names of them: H_a is H.a of a collection H of an RNTuple. What groups others is none."""
        if not self._is_rntuple():
            return {name: name for name, branch in self._tree.items() if not branch.branches}
        names = set(keys := self._tree.keys())
        groups = {group for name in keys if (group := name.rpartition(".")[0]) in names}
        joined = {name: name.replace(".", "_") if name.rpartition(".")[0] in groups else name for name in keys}
        times = Counter(joined.values())
        return {short if times[short] == 1 else name: name for name, short in joined.items() if name not in groups}

    def _check_kinds(self, names: Mapping[str, str]) -> None:
        """Raise DataError for a branch of a class whose objects uproot does not make arrays of."""
        for name, native in names.items() if not self._is_rntuple() else ():
            branch = self._tree[native]
            try:
                branch.interpretation.awkward_form(branch.file)
            except Exception as error:
                raise DataError(
                    f"{self.name}: column {name} is of type {branch.typename or 'unknown'}, expected numbers or lists of them"
                ) from error

    def _is_rntuple(self) -> bool:
        return not hasattr(self._tree, "branches")

    def _field(self, arrays: Any, native: str, first: int) -> Any:
        """A column of what uproot has read, which has the branch's own name there."""
        if native in arrays.fields:
            return arrays[native]
        if (own := own_name(native)) in arrays.fields:
            if self._tree[own] is self._tree[native]:
                return arrays[own]
            return self._tree[native].array(entry_start=first, entry_stop=first + len(arrays), library="ak")
        for part in native.split("."):
            arrays = arrays[part]
        return arrays


class RootSink:
    """Writes a TTree or an RNTuple. Its columns have plain_name()s: ROOT gives dots and brackets meanings of their own.

    Args:
        tree: its name; a cycle such as ;1 is left out.
        rntuple: whether it is an RNTuple.
        collection: its columns share one counter in a TTree.
    """

    def __init__(self, path: Path, metadata: str, tree: str, collection: str, *, rntuple: bool) -> None:
        self._metadata, self._name, self._rntuple = metadata, tree.partition(";")[0], rntuple
        self._prefix = f"{plain_name(collection)}_" if collection else ""
        try:
            self._file = uproot.recreate(path)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
        self._tree: Any = None

    def write(self, chunk: Chunk) -> None:
        """Append a basket per branch, or a cluster. float16 is written as float32, because ROOT has no half precision."""
        columns = _named(chunk.columns)
        if self._rntuple:
            data: dict[str, Any] = {name: from_column(column) for name, column in columns.items()}
            if self._tree is None:
                self._tree = self._file.mkrntuple(self._name, data)
            else:
                self._tree.extend(data)
            return
        shared, others = self._grouped(columns)
        if self._tree is None:
            types = {name: _type(column) for name, column in others.items()}
            if shared:
                fields = ", ".join(f'"{name}": {column.values.dtype}' for name, column in shared.items())
                types[self._prefix[:-1]] = f"var * {{{fields}}}"
            self._tree = self._file.mktree(self._name, types)
        data = {name: from_column(column) for name, column in others.items()}
        if shared:
            data[self._prefix[:-1]] = make_record(shared)
        self._tree.extend(data)

    def close(self) -> None:
        """Write the metadata as a TObjString, and close the file."""
        self._file[METADATA_KEY] = self._metadata
        self._file.close()

    def abort(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _grouped(self, columns: Mapping[str, Column]) -> tuple[dict[str, Column], dict[str, Column]]:
        """The collection's jagged columns by their names within it, and all others."""
        shared = {
            name.removeprefix(self._prefix): column
            for name, column in columns.items()
            if self._prefix and column.counts is not None and column.values.ndim == 1 and name.startswith(self._prefix)
        }
        inside = {f"{self._prefix}{name}" for name in shared}
        columns, _ = split_counters(columns, lambda name: f"n{self._prefix[:-1] if name in inside else name}")
        return shared, {name: column for name, column in columns.items() if name not in inside}


def _named(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns by the names that they have in the file."""
    named: dict[str, Column] = {}
    for name, column in columns.items():
        if (plain := plain_name(name)) in named:
            raise OutputError(f"a ROOT file cannot have {name} beside another column {plain}: leave one out, or use .parquet")
        named[plain] = _widened(column)
    return named


def _widened(column: Column) -> Column:
    return Column(column.values.astype(np.float32), column.counts) if column.values.dtype == np.float16 else column


def _type(column: Column) -> Any:
    """A branch's type as uproot's mktree takes it."""
    if column.values.ndim > 1 and column.counts is not None:
        raise OutputError("a TTree cannot have lists of arrays as uproot writes it: keep such columns in .parquet or .arrow")
    if column.counts is not None:
        return f"var * {column.values.dtype}"
    return (column.values.dtype, column.values.shape[1:]) if column.values.ndim > 1 else column.values.dtype


def read_root_metadata(path: Path) -> str | None:
    """Return the metadata of a file that RootSink wrote; None for another file."""
    try:
        with uproot.open(path) as file:
            return str(file[METADATA_KEY]) if METADATA_KEY in {key.partition(";")[0] for key in file.keys()} else None  # noqa: SIM118
    except Exception:  # noqa: BLE001 - a file that cannot be read is not one of ours
        return None
