# SPDX-License-Identifier: Apache-2.0
"""Files of events with a jagged collection H (a, b, c, d, ok), written and read by the libraries themselves, not by the client.

The model `double` of tests/support/scripted_server.py takes H_a to H_d and answers twice each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uproot

from hypersonic.client.columns import ColumnMapping, open_source, parse_mapping

#: the suffix of each way to write the same events
SUFFIXES = {
    "ttree": ".root", "rntuple": ".root", "parquet": ".parquet", "parquet-structs": ".parquet", "arrow": ".arrow",
    "arrow-structs": ".feather", "stream": ".arrows", "npz": ".npz", "npz-compressed": ".npz",
}  # fmt: skip

MAPPING = "{collection: H, finite: true, features: [a, b, c, d]}"


def mapping(text: str = MAPPING) -> ColumnMapping:
    return parse_mapping(text)


def make_events(counts: Sequence[int], seed: int = 1) -> ak.Array:
    """Events with these numbers of rows. All numbers are integers, so that every kind of file holds them exactly."""
    rng, rows = np.random.default_rng(seed), sum(counts)
    kinds = {"a": np.int32, "b": np.float32, "c": np.float64, "d": np.int16}
    fields = {name: rng.integers(-1000, 1000, rows).astype(kind) for name, kind in kinds.items()}
    fields["ok"] = rng.integers(0, 2, rows).astype(np.bool_)
    jagged = ak.unflatten(ak.zip(fields), np.asarray(counts, np.int64))
    return ak.zip({"run": np.full(len(counts), 7, np.uint32), "event": np.arange(len(counts)), "H": jagged}, depth_limit=1)


def flat_fields(events: ak.Array) -> dict[str, ak.Array]:
    return {"run": events["run"], "event": events["event"], **{f"H_{name}": events["H"][name] for name in events["H"].fields}}


def write(kind: str, path: Path, events: ak.Array, batches: int = 2) -> Path:
    """Write the events in some batches (baskets, clusters, row groups)."""
    size = max(1, -(-len(events) // batches))
    parts = [events[begin : begin + size] for begin in range(0, len(events), size)] or [events]
    if kind in {"ttree", "rntuple"}:
        with uproot.recreate(path) as file:
            fields = "{a: int32, b: float32, c: float64, d: int16, ok: bool}"
            types = {"run": "uint32", "event": "int64", "H": f"var * {fields}"}
            made = [{name: part[name] for name in part.fields} for part in parts]
            tree = file.mktree("Events", types) if kind == "ttree" else file.mkrntuple("Events", made.pop(0))
            for each in made:
                tree.extend(each)
        return path
    if kind.startswith("npz"):
        arrays: dict[str, Any] = {
            name: np.asarray(ak.flatten(values, axis=None)) for name, values in flat_fields(events).items()
        }
        (np.savez_compressed if kind == "npz-compressed" else np.savez)(path, nH=np.asarray(ak.num(events["H"])), **arrays)
        return path
    tables = [table_of(part, structs=kind.endswith("-structs")) for part in parts]
    if kind.startswith("parquet"):
        with pq.ParquetWriter(path, tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        return path
    with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(str(path), tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return path


def table_of(events: ak.Array, *, structs: bool = False) -> pa.Table:
    fields = {name: events[name] for name in events.fields} if structs else flat_fields(events)
    return pa.table({name: ak.to_arrow(values, extensionarray=False) for name, values in fields.items()})


def read(path: Path, column: str) -> list[Any]:
    """A column as lists."""
    if path.suffix == ".root":
        with uproot.open(path) as file:
            tree = file["Events"]
            return ak.to_list(tree[column].array())
    if path.suffix == ".npz":
        with np.load(path) as file:
            return ak.to_list(ak.unflatten(file[column], file["nH"]) if column.startswith("H_") else file[column])
    if path.suffix == ".parquet":
        return pq.read_table(path)[column].to_pylist()
    opened = pa.ipc.open_stream if path.suffix == ".arrows" else pa.ipc.open_file
    with pa.memory_map(str(path)) as file:
        return opened(file).read_all()[column].to_pylist()


def lists_of(path: Path, *names: str, tree: str = "Events") -> list[list[Any]]:
    """Columns of a file as lists, found by these names."""
    with closing(open_source(path, tree)) as source:
        chunks = list(source.chunks(names, 1 << 20))
    made = []
    for name in names:
        parts = [chunk.columns[name] for chunk in chunks]
        of_all = [ak.to_list(p.values if p.counts is None else ak.unflatten(p.values, p.counts)) for p in parts]
        made.append([event for part in of_all for event in part])
    return made


def doubled(events: ak.Array, field: str) -> list[Any]:
    """The model's answers."""
    return ak.to_list(2 * ak.values_astype(events["H"][field], np.float32))


def only_files(directory: Path) -> list[str]:
    """The names of all files, hidden ones too."""
    return sorted(file.name for file in directory.iterdir() if file.is_file())
