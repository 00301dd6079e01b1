# SPDX-License-Identifier: Apache-2.0
"""Each fault of an input or a server is one sentence that names file, column and event, and leaves no output."""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import awkward as ak
import grpc
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.client import Client, ClientError, Fallback
from hypersonic.client.columns import (
    DataError,
    EventsError,
    FileOptions,
    MappingError,
    OutputError,
    infer_array,
    infer_files,
    open_source,
    read_metadata,
)
from tests.client.columns.files_of_events import SUFFIXES, make_events, mapping, only_files, table_of, write
from tests.support.scripted_server import Script, fail, scripted_server

KINDS = ["ttree", "rntuple", "parquet", "arrow", "stream", "npz"]


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """A directory for outputs, which stays empty."""
    (tmp_path / "out").mkdir()
    yield tmp_path / "out"
    assert only_files(tmp_path / "out") == []


def refused(client: Client, path: Path, out: Path, text: str = "", **options: Any) -> str:
    with pytest.raises(ClientError) as caught:
        infer_files(client, "double", mapping(text) if text else mapping(), [str(path)], out, FileOptions(**options))
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    assert caught.value.exit_code == 2
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file(client: Client, kind: str, tmp_path: Path, out: Path) -> None:
    path = write(kind, tmp_path / f"cut{SUFFIXES[kind]}", make_events([50] * 40))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    assert re.search(r"cannot be read: \w+: .*; is it complete", refused(client, path, out))


@settings(max_examples=60)
@given(
    kind=st.sampled_from(sorted(SUFFIXES)), cut=st.floats(0, 1), flips=st.lists(st.floats(0, 1, exclude_max=True), max_size=5)
)
def test_damaged_files_are_read_or_refused(kind: str, cut: float, flips: list[float]) -> None:
    """Nothing but a ClientError comes of a file that is cut, or that has wrong bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        path = write(kind, Path(scratch, f"in{SUFFIXES[kind]}"), make_events([3, 0, 5, 20, 2] * 5))
        data = bytearray(path.read_bytes())
        for place in flips:
            data[int(place * len(data))] ^= 0x55
        path.write_bytes(data if flips else data[: int(cut * len(data))])
        read_metadata(path)
        with contextlib.suppress(ClientError), contextlib.closing(open_source(path)) as source:
            names = [name for name in ("H_a", "H_d") if name in source.columns]
            assert sum(chunk.events for chunk in source.chunks(names, 500)) >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_and_the_near_names(client: Client, kind: str, tmp_path: Path, out: Path) -> None:
    path = write(kind, tmp_path / f"in{SUFFIXES[kind]}", make_events([1, 2]))
    message = refused(client, path, out, "{collection: H, features: [a, b, c, dd]}")
    assert "has no column H_dd that the mapping names; did you mean H_d" in message
    message = refused(client, path, out, keep=("ewent",))
    assert "has no column ewent to keep; did you mean event" in message
    helped = "{collection: H, features: [a, b, c, {column: gain, help: name your own}]}"
    assert refused(client, path, out, helped).endswith("has no column H_gain that the mapping names; name your own")


@pytest.mark.parametrize("kind", KINDS)
def test_nan(client: Client, kind: str, tmp_path: Path, out: Path) -> None:
    events = make_events([2, 0, 3])
    values = np.asarray(ak.flatten(events["H"]["b"])).copy()
    values[3] = np.nan
    events["H", "b"] = ak.unflatten(values, [2, 0, 3])
    path = write(kind, tmp_path / f"in{SUFFIXES[kind]}", events)
    assert "in" + SUFFIXES[kind] + ": event 2 has nan in H_b, and the model takes" in refused(client, path, out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_events(client: Client, kind: str, tmp_path: Path, out: Path) -> None:
    path = tmp_path / f"in{SUFFIXES[kind]}"
    if kind == "ttree":
        with uproot.recreate(path) as file:
            file.mktree("Events", {"H": "var * {a: int32, b: float32, c: float64, d: int16}"})
    else:
        write(kind, path, make_events([3])[:0])
    assert refused(client, path, out).endswith("has no events")


@pytest.mark.parametrize("kind", KINDS)
def test_a_flat_column_in_a_collection(client: Client, kind: str, tmp_path: Path, out: Path) -> None:
    path = write(kind, tmp_path / f"in{SUFFIXES[kind]}", make_events([1, 2]))
    message = refused(client, path, out, "{features: [event, H_b, H_c, H_d]}")
    assert "column H_b has a list per event, expected one value, as column event has" in message


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_nulls(client: Client, suffix: str, tmp_path: Path, out: Path) -> None:
    table = table_of(make_events([1, 0, 2]))
    cases = {
        "event 2 has a null in column H_b, expected a number": pa.array([[1.0], [], [2.0, None]], pa.list_(pa.float32())),
        "event 1 is null in column H_b, expected a value": pa.array([[1.0], None, [2.0, 3.0]], pa.list_(pa.float32())),
        "column H_b is of type string, expected numbers": pa.array([["x"], [], ["y", "z"]]),
    }
    for words, column in cases.items():
        path = tmp_path / f"in{suffix}"
        made = table.set_column(table.schema.get_field_index("H_b"), "H_b", column)
        if suffix == ".parquet":
            pq.write_table(made, path)
        else:
            with pa.ipc.new_file(str(path), made.schema) as writer:
                writer.write_table(made)
        assert words in refused(client, path, out)


def test_missing_values_of_awkward_arrays(client: Client) -> None:
    model = client.model("double")
    events = make_events([1, 0, 2])
    for values, words in (
        ([[1], [], [2, None]], "event 2 has no value in column H_b"),
        ([[1], None, [2, 3]], "event 1 has no value in column H_b"),
        ([["x"], [], ["y", "z"]], "column H_b is of type"),
        ([[[1]], [], [[2], [3, 4]]], "column H_b is of type"),
    ):
        fields = {name: events["H"][name] for name in "acd"}
        flat = ak.Array({f"H_{name}": array for name, array in {**fields, "b": ak.Array(values)}.items()})
        with pytest.raises(DataError, match=words):
            infer_array(model, mapping(), flat)


def test_offsets_that_point_outside_are_not_followed(client: Client, tmp_path: Path, out: Path) -> None:
    path = write("stream", tmp_path / "in.arrows", make_events([1, 2, 3, 4], seed=5), batches=1)
    offsets = np.array([0, 1, 3, 6, 10], "<i8").tobytes()
    data = path.read_bytes()
    assert offsets in data
    path.write_bytes(data.replace(offsets, np.array([0, 1, 3, 6, 1 << 40], "<i8").tobytes()))
    assert "cannot be read: ArrowInvalid" in refused(client, path, out)


def test_other_trees_are_named(client: Client, tmp_path: Path, out: Path) -> None:
    path = write("ttree", tmp_path / "in.root", make_events([1, 2]))
    assert refused(client, path, out, tree="Evnets").endswith("has no tree 'Evnets'; did you mean Events?")
    with uproot.recreate(tmp_path / "none.root") as file:
        file["x"] = "text"
    assert "has no tree 'Events'; it has none at all" in refused(client, tmp_path / "none.root", out)


def test_names_that_are_not_inputs(client: Client, tmp_path: Path, out: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    assert "has the suffix '.csv', expected .root, .parquet" in refused(client, tmp_path / "in.csv", out)
    assert "there is no such file" in refused(client, tmp_path / "in.root", out)
    assert "there is no such file" in refused(client, tmp_path / "*.root", out)
    (tmp_path / "in.root").write_text("not a ROOT file")
    assert "cannot be read" in refused(client, tmp_path / "in.root", out)
    for url in ("http://nowhere.invalid/in.parquet", "s3://bucket/in.npz"):
        with pytest.raises(DataError, match=r"is a URL, and only \.root files are read from one"):
            infer_files(client, "double", mapping(), [url], out)


def test_faulty_counters_of_npz(client: Client, tmp_path: Path, out: Path) -> None:
    fields: dict[str, Any] = {f"H_{name}": np.zeros(3, np.float32) for name in "abcd"}
    for counts, words in (
        ([1, 3], "column H_a has 3 values, expected 4"),
        ([1, 1], "column H_a has 3 values, expected 2"),
        ([4, -1], "counter nH"),
    ):
        np.savez(tmp_path / "in.npz", nH=np.array(counts), **fields)
        assert words in refused(client, tmp_path / "in.npz", out)
    np.savez(tmp_path / "in.npz", nH=np.array([3]), **{**fields, "H_b": np.array([None] * 3)})
    assert "array H_b is object, expected numbers" in refused(client, tmp_path / "in.npz", out)
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("x.txt", "no arrays")
    assert "has no arrays" in refused(client, tmp_path / "in.npz", out)


def test_a_mapping_of_another_size(client: Client, tmp_path: Path, out: Path) -> None:
    path = write("parquet", tmp_path / "in.parquet", make_events([1, 2]))
    for features, number in (("a, b, c", 3), ("a, b, c, d, {constant: 1}", 5)):
        with pytest.raises(MappingError, match=f"has {number} features, and input 'x' of model 'double' takes 4"):
            infer_files(client, "double", mapping(f"{{collection: H, features: [{features}]}}"), [str(path)], out)


def test_a_kept_column_named_like_an_output(client: Client, tmp_path: Path, out: Path) -> None:
    path = write("parquet", tmp_path / "in.parquet", make_events([1, 2]))
    text = "{collection: H, features: [a, b, c, d], output: x}"
    events = table_of(make_events([1, 2]))
    pq.write_table(events.append_column("H_x1", events["H_a"]), path)
    with pytest.raises(MappingError, match="the output would have two columns H_x1"):
        infer_files(client, "double", mapping(text), [str(path)], out, FileOptions(keep=("H_x1",)))


@pytest.mark.parametrize("output", [".root", ".parquet", ".arrow", ".npz"])
def test_a_server_that_fails_in_the_middle(output: str, tmp_path: Path, out: Path) -> None:
    """The message names the file, the events and the server; nothing is left of the chunks that were answered."""
    script = Script()
    path = write("parquet", tmp_path / "in.parquet", make_events([8] * 12))

    def infer(request: Any, context: grpc.ServicerContext) -> None:
        if len(script.rows) >= 6:
            fail(grpc.StatusCode.INVALID_ARGUMENT, "no more")(request, context)

    script.infer = infer
    with scripted_server(script) as address, Client(address) as client:
        options = FileOptions(chunk_bytes=400)
        with pytest.raises(EventsError) as caught:
            infer_files(client, "double", mapping(), [str(path)], out / f"made{output}", options)
    assert re.search(rf"in\.parquet, events \d+ to \d+: {address}: INVALID_ARGUMENT: no more", str(caught.value))
    assert len(script.rows) == 6


def test_a_column_that_the_kind_of_output_cannot_have(client: Client, tmp_path: Path, out: Path) -> None:
    """The failure is the writer's, while the reader's thread has the file open."""
    events = make_events([8] * 12)
    blocks = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(192)), 2)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 97, 8), pa.int32()), blocks)
    pq.write_table(table_of(events).append_column("H_pair", lists), tmp_path / "in.parquet")
    options = FileOptions(keep=("H_pair",), chunk_bytes=300)
    with pytest.raises(OutputError, match="a TTree cannot have lists of arrays"):
        infer_files(client, "double", mapping(), [str(tmp_path / "in.parquet")], out / "made.root", options)
    assert "columns-reader" not in {thread.name for thread in threading.enumerate()}


def test_a_version_that_changes_in_the_middle(
    client: Client, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("parquet", tmp_path / "in.parquet", make_events([8] * 12))
    from hypersonic.client.columns import infer as module

    versions = iter("111222222222222")
    real = module._collect
    monkeypatch.setattr(module, "_collect", lambda *args: replace(real(*args), version=next(versions)))
    with pytest.raises(EventsError, match=r"versions 1 and 2 of model 'double' answered, expected one"):
        infer_files(client, "double", mapping(), [str(path)], out, FileOptions(chunk_bytes=100))


def test_all_rows_of_a_file_come_from_one_version_while_servers_are_updated(tmp_path: Path) -> None:
    events, made = make_events([8] * 40), tmp_path / "made.parquet"
    path = write("parquet", tmp_path / "in.parquet", events)
    options = FileOptions(chunk_bytes=300, overwrite=True)
    with scripted_server(Script(versions=("1",))) as old, scripted_server(Script(versions=("2",))) as new:
        for _ in range(4):
            with Client([old, new]) as client:
                infer_files(client, "double", mapping(), [str(path)], made, options)
            version = (read_metadata(made) or {})["version"]
            answers = np.asarray(ak.flatten(ak.from_parquet(made)["H_y0"]))
            np.testing.assert_array_equal(answers, 2 * int(version) * np.asarray(ak.flatten(events["H"]["a"])))


def of_variable_size(widths: Iterator[int]) -> Script:
    """A server that describes any number of columns, and answers with the next of these numbers."""

    def describe(described: Any) -> None:
        described.outputs[0].shape[:] = [-1, -1]

    def damage(_request: Any, answer: Any) -> None:
        rows, columns = answer.outputs[0].shape[0], next(widths)
        answer.outputs[0].shape[1] = columns
        answer.raw_output_contents[0] = np.ones((rows, columns), "<f4").tobytes()

    return Script(describe=describe, damage=damage)


@pytest.mark.parametrize("suffix", [".root", ".parquet", ".npz"])
def test_an_output_whose_size_changes_is_one_clear_error_in_a_chunk_and_between_chunks(
    suffix: str, tmp_path: Path, out: Path
) -> None:
    path = write("parquet", tmp_path / "in.parquet", make_events([8] * 12))
    words = r"output 'y' has [12] numbers per row, expected [12] as in the events before"
    for chunk_bytes in (100, 10**6):
        options = FileOptions(chunk_bytes=chunk_bytes)
        changing = of_variable_size(chain(repeat(1, 3), repeat(2)))
        with scripted_server(changing) as address, Client(address) as client, pytest.raises(EventsError, match=words):
            infer_files(client, "double", mapping(), [str(path)], out / f"made{suffix}", options)
    with scripted_server(of_variable_size(repeat(2))) as address, Client(address) as client:
        infer_files(client, "double", mapping(), [str(path)], tmp_path / f"made{suffix}", options)


def test_a_fallback_may_answer_some_requests_of_a_chunk(tmp_path: Path) -> None:
    events = make_events([8] * 12)
    path = write("parquet", tmp_path / "in.parquet", events)
    script = Script()

    def infer(_request: Any, context: grpc.ServicerContext) -> None:
        if script.calls["ModelInfer"] % 2:
            context.abort(grpc.StatusCode.UNAVAILABLE, "every other one")

    script.infer = infer
    fallback = Fallback(lambda inputs: {"y": 2 * inputs["x"]})
    with scripted_server(script) as address, Client(address, retry=(fallback,)) as client:
        infer_files(client, "double", mapping(), [str(path)], tmp_path / "made.parquet")
        assert 0 < client.statistics().fallback < 12
    answers = np.asarray(ak.flatten(ak.from_parquet(tmp_path / "made.parquet")["H_y0"]))
    np.testing.assert_array_equal(answers, 2 * np.asarray(ak.flatten(events["H"]["a"])))


def test_an_output_that_cannot_be_written(client: Client, tmp_path: Path) -> None:
    path = write("parquet", tmp_path / "in.parquet", make_events([1, 2]))
    (tmp_path / "file").write_text("not a directory")
    for output, words in (
        (tmp_path / "file" / "x.parquet", r"the directory .*file cannot be made"),
        (tmp_path / "x.csv", r"has the suffix '\.csv', expected \.root, \.parquet"),
        (tmp_path / "x.npy", r"cannot hold the events' counts and the metadata; use \.npz"),
        (path, r"in\.parquet is an input"),
    ):
        with pytest.raises(OutputError, match=words):
            infer_files(client, "double", mapping(), [str(path)], output)
    assert only_files(tmp_path) == ["file", "in.parquet"]
