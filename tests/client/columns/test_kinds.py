# SPDX-License-Identifier: Apache-2.0
"""Every kind of file gives the same events, in the same order, with the same counts, and the model's answers."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import awkward as ak
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.client import Client
from hypersonic.client.columns import (
    Chunk,
    Column,
    FileOptions,
    infer_array,
    infer_files,
    open_sink,
    open_source,
    read_metadata,
)
from tests.client.columns.files_of_events import SUFFIXES, doubled, make_events, mapping, read, table_of, write

OUTPUTS = ["H_y0", "H_y1", "H_y2", "H_y3"]
FIELDS = ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", SUFFIXES)
def test_the_output_has_the_inputs_events_order_and_counts(client: Client, kind: str, tmp_path: Path) -> None:
    events = make_events([0, 3, 1, 0, 0, 17, 2, 0])
    given_file = write(kind, tmp_path / f"in{SUFFIXES[kind]}", events)
    options = FileOptions(keep=("event", "H_a"), chunk_bytes=100)
    summary = infer_files(client, "double", mapping(), [str(given_file)], tmp_path / "out", options)
    made = tmp_path / "out" / f"in.double{SUFFIXES[kind]}"
    assert (summary.events, summary.rows, summary.files, summary.skipped) == (8, 23, 1, 0)
    for output, field in zip(OUTPUTS, FIELDS, strict=True):
        assert read(made, output) == doubled(events, field)
    assert read(made, "H_a") == ak.to_list(events["H"]["a"])
    assert read(made, "event") == list(range(8))
    metadata = read_metadata(made)
    assert metadata is not None
    assert (metadata["model"], metadata["version"], metadata["input"]) == ("double", "1", given_file.name)
    assert metadata["mapping"]["features"] == FIELDS
    assert metadata["servers"] == [client.servers[0].address]


@pytest.mark.parametrize("output", [".root", ".parquet", ".arrow", ".arrows", ".npz"])
def test_the_outputs_suffix_decides_its_kind(client: Client, output: str, tmp_path: Path) -> None:
    events = make_events([2, 0, 5])
    given_file = write("parquet", tmp_path / "in.parquet", events)
    made = tmp_path / f"energies{output}"
    infer_files(client, "double", mapping(), [str(given_file)], made)
    assert read(made, "H_y1") == doubled(events, "b")


@settings(max_examples=15)
@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=25),
    kind=st.sampled_from(sorted(SUFFIXES)),
    output=st.sampled_from([".root", ".parquet", ".arrow", ".arrows", ".npz"]),
    batches=st.integers(1, 4),
    chunk_bytes=st.sampled_from([1, 60, 500, 1 << 20]),
)
def test_any_counts_come_back(
    client: Client, counts: list[int], kind: str, output: str, batches: int, chunk_bytes: int
) -> None:
    events = make_events(counts, seed=sum(counts))
    with tempfile.TemporaryDirectory() as scratch:
        given_file = write(kind, Path(scratch, f"in{SUFFIXES[kind]}"), events, batches)
        made = Path(scratch, f"out{output}")
        infer_files(client, "double", mapping(), [str(given_file)], made, FileOptions(chunk_bytes=chunk_bytes))
        for name, field in zip(OUTPUTS, FIELDS, strict=True):
            assert read(made, name) == doubled(events, field)


@settings(max_examples=20)
@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=12), step=st.integers(1, 300))
def test_all_readers_give_the_same_columns(counts: list[int], step: int) -> None:
    events = make_events(counts)
    flat = {name: np.asarray(ak.flatten(values, axis=None)) for name, values in events_by_name(events).items()}
    sources = [events, table_of(events), table_of(events, structs=True), {"nH": np.asarray(counts), **flat}]
    for data in sources:
        source = open_source(data)
        chunks = list(source.chunks(["H_a", "H_ok", "run"], step))
        assert [chunk.first for chunk in chunks] == [sum(c.events for c in chunks[:i]) for i in range(len(chunks))]
        assert sum(chunk.events for chunk in chunks) == len(counts)
        for name in ("H_a", "H_ok"):
            parts = [chunk.columns[name] for chunk in chunks]
            assert [n for part in parts for n in (part.counts if part.counts is not None else [])] == counts
            assert np.concatenate([part.values for part in parts]).tolist() == flat[name].tolist()
        assert all(chunk.columns["run"].counts is None for chunk in chunks)


def events_by_name(events: ak.Array) -> dict[str, ak.Array]:
    return {"run": events["run"], **{f"H_{name}": events["H"][name] for name in events["H"].fields}}


@pytest.mark.parametrize("kind", ["ttree", "rntuple", "parquet", "arrow", "stream", "npz"])
def test_columns_of_every_type_are_written_and_read(kind: str, tmp_path: Path) -> None:
    counts, path = np.array([2, 0, 1]), tmp_path / f"x{SUFFIXES[kind]}"
    columns = {
        "pairs": Column(np.arange(6.0).reshape(3, 2)),
        "H_half": Column(np.arange(3, dtype=np.float16), counts),
        "H_flag": Column(np.array([True, False, True]), counts),
        "J_x": Column(np.arange(2, dtype=np.uint8), np.array([0, 0, 2])),
        "alone": Column(np.arange(3, dtype=np.int64), counts),
    }
    if kind != "ttree":  # uproot cannot write it
        columns["H_pairs"] = Column(np.arange(6.0).reshape(3, 2), counts)
    sink = open_sink(kind, path, {"a": 1}, "Events", "H")
    for _ in range(2):
        sink.write(Chunk(0, 3, columns))
    sink.close()
    assert read_metadata(path) == {"a": 1}
    with closing(open_source(path)) as source:
        chunks = list(source.chunks(list(columns), 1 << 20))
    for name, column in columns.items():
        parts = [chunk.columns[name] for chunk in chunks]
        assert np.concatenate([part.values for part in parts]).tolist() == column.values.tolist() * 2
        expected = None if column.counts is None else column.counts.tolist() * 2
        assert (None if parts[0].counts is None else [n for part in parts for n in part.counts]) == expected  # type: ignore[union-attr] # all parts are jagged


def test_arrays_in_memory_are_answered(client: Client) -> None:
    events = make_events([2, 0, 3])
    columns = infer_array(client.model("double"), mapping(), events)
    assert list(columns) == OUTPUTS
    counts = columns["H_y0"].counts
    assert counts is not None
    assert counts.tolist() == [2, 0, 3]
    assert ak.to_list(ak.unflatten(columns["H_y2"].values, counts)) == doubled(events, "c")


def test_flat_files_have_a_row_per_event(client: Client, tmp_path: Path) -> None:
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    np.save(tmp_path / "rows.npy", rows)
    infer_files(client, "double", mapping("features: [{block: rows, width: 4}]"), [str(tmp_path / "rows.npy")], tmp_path)
    with np.load(tmp_path / "rows.double.npz") as made:
        assert made["y3"].tolist() == (2 * rows[:, 3]).tolist()


def test_a_tensor_of_arrow_is_sent_without_a_copy(client: Client, tmp_path: Path) -> None:
    """From the mapped file to the array that a request gets: the same memory."""
    rows = np.random.default_rng(3).random((30, 4), np.float32)
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(rows)
    plain = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 4)
    for array in (tensor, plain):
        lists = pa.ListArray.from_arrays(pa.array([0, 10, 10, 30], pa.int32()), array)
        table = pa.table({"H_rows": lists})
        own = columns_memory(array)
        source = open_source(table)
        (chunk,) = source.chunks(["H_rows"], 1 << 20)
        assert np.shares_memory(chunk.columns["H_rows"].values, own)
        sent = sent_arrays(client, table)
        assert all(np.shares_memory(each, own) for each in sent)
        assert sum(map(len, sent)) == 30


def columns_memory(array: pa.Array) -> np.ndarray:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    made: np.ndarray = storage.flatten().to_numpy()
    return made


def sent_arrays(client: Client, table: pa.Table) -> list[np.ndarray]:
    model = client.model("double")
    sent: list[np.ndarray] = []
    real = model.submit
    model.submit = lambda inputs, **more: sent.append(inputs["x"]) or real(inputs, **more)  # type: ignore[method-assign] # records the calls
    infer_array(model, mapping("{collection: H, features: [{block: rows, width: 4}]}"), table)
    return sent
