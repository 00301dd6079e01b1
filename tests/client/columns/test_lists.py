# SPDX-License-Identifier: Apache-2.0
"""Lists of every sort are rows: without a collection, as Arrow's views, of one length. Strings and records are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic import cli
from hypersonic.client import Client
from hypersonic.client.columns import DataError, FileOptions, infer_array, infer_files, open_source
from tests.client.columns.files_of_events import SUFFIXES, doubled, lists_of, make_events, mapping, only_files, table_of, write

COUNTS = [2, 0, 3]
BY_NAME = "features: [H_a, H_b, H_c, H_d]"
LISTS = {
    "list_view": pa.list_view(pa.float32()), "large_list_view": pa.large_list_view(pa.float32()),
    "large_list": pa.large_list(pa.float32()),
}  # fmt: skip


def write_table(table: pa.Table, path: Path, batch_rows: int | None = None) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with (pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file)(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=batch_rows)
    return path


def refused(client: Client, path: Path, text: str = BY_NAME, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        infer_files(client, "double", mapping(text), [str(path)], path.parent / "out", FileOptions(**options))
    assert not (path.parent / "out").exists() or only_files(path.parent / "out") == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", SUFFIXES)
def test_lists_need_no_collection(client: Client, kind: str, tmp_path: Path) -> None:
    events = make_events([0, 3, 1, 0, 2])
    path = write(kind, tmp_path / f"in{SUFFIXES[kind]}", events)
    made = tmp_path / f"out{SUFFIXES[kind]}"
    infer_files(client, "double", mapping(BY_NAME), [str(path)], made, FileOptions(keep=("event", "H_b"), chunk_bytes=60))
    assert lists_of(made, "y0", "y3") == [doubled(events, "a"), doubled(events, "d")]
    assert lists_of(made, "event", "H_b") == [[0, 1, 2, 3, 4], ak.to_list(events["H"]["b"])]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("kind", LISTS)
def test_list_views_and_large_lists_are_lists(client: Client, kind: str, suffix: str, tmp_path: Path) -> None:
    events = make_events([2, 0, 3, 1])
    columns = {f"H_{name}": pa.array(ak.to_list(events["H"][name]), LISTS[kind]) for name in "abcd"}
    path = write_table(pa.table(columns), tmp_path / f"in{suffix}")
    infer_files(client, "double", mapping(), [str(path)], tmp_path / "out.parquet", FileOptions(chunk_bytes=40))
    assert lists_of(tmp_path / "out.parquet", "H_y1", "H_y2") == [doubled(events, "b"), doubled(events, "c")]


def test_list_views_in_another_order_than_their_values(client: Client) -> None:
    views = pa.ListViewArray.from_arrays(pa.array([3, 0, 1], pa.int32()), pa.array([2, 0, 2], pa.int32()), pa.array(range(5)))
    columns = infer_array(client.model("double"), mapping(), pa.table(dict.fromkeys([f"H_{name}" for name in "abcd"], views)))
    assert columns["H_y0"].values.tolist() == [6, 8, 2, 4]
    assert np.asarray(columns["H_y0"].counts).tolist() == [2, 0, 2]


def test_list_views_that_share_values_are_refused(client: Client, tmp_path: Path) -> None:
    """A file of some kilobytes could have a million rows in each of a thousand events."""
    views = pa.ListViewArray.from_arrays(
        pa.array([0] * 9, pa.int32()), pa.array([100] * 9, pa.int32()), pa.array(np.zeros(100))
    )
    path = write_table(pa.table(dict.fromkeys([f"H_{name}" for name in "abcd"], views)), tmp_path / "in.arrow")
    assert "the list views of column H_a overlap, expected each value in one list" in refused(client, path)


@pytest.mark.parametrize("text", ["{collection: H, features: [a, b, c, d]}", BY_NAME])
@pytest.mark.parametrize("suffix", [".root", ".parquet", ".arrow", ".npz"])
def test_lists_of_one_length_are_rows(client: Client, suffix: str, text: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        f"H_{name}": np.arange(12, dtype=np.float32).reshape(4, 3) + place for place, name in enumerate("abcd")
    }
    path = tmp_path / f"in{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    elif suffix == ".root":
        with uproot.recreate(path) as file:
            file.mktree("Events", {name: (array.dtype, (3,)) for name, array in arrays.items()}).extend(arrays)
    else:
        fixed = {name: pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), 3) for name, array in arrays.items()}
        write_table(pa.table(fixed), path)
    made = tmp_path / f"out{suffix}"
    infer_files(client, "double", mapping(text), [str(path)], made, FileOptions(keep=("H_a",), chunk_bytes=90))
    names = ["H_y0", "H_y3"] if "collection" in text else ["y0", "y3"]
    assert lists_of(made, *names) == [(2 * arrays["H_a"]).tolist(), (2 * arrays["H_d"]).tolist()]
    assert lists_of(made, "H_a") == [arrays["H_a"].tolist()]


def test_padded_lists_of_structs_are_rows(client: Client, tmp_path: Path) -> None:
    structs = pa.array(
        [{name: float(row + place) for place, name in enumerate("abcd")} for row in range(6)],
        pa.struct([(name, pa.float32()) for name in "abcd"]),
    )
    path = write_table(pa.table({"H": pa.FixedSizeListArray.from_arrays(structs, 2)}), tmp_path / "in.arrow")
    infer_files(client, "double", mapping(), [str(path)], tmp_path / "out.arrow", FileOptions(chunk_bytes=40))
    assert lists_of(tmp_path / "out.arrow", "H_y1") == [[[2, 4], [6, 8], [10, 12]]]


@pytest.mark.parametrize("suffix", [".root", ".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("values", [["x", "yy", "z"], [["x"], [], ["y", "z"]], [[[1]], [], [[2], [3, 4]]]])
def test_strings_and_lists_of_lists_are_refused(client: Client, values: list[Any], suffix: str, tmp_path: Path) -> None:
    events, path = make_events(COUNTS), tmp_path / f"in{suffix}"
    if suffix == ".root":
        with uproot.recreate(path) as file:
            file.mkrntuple("Events", {"H_a": ak.Array(values), **{f"H_{name}": events["H"][name] for name in "bcd"}})
    else:
        write_table(table_of(events).set_column(2, "H_a", pa.array(values)), path)
    message = refused(client, path)
    assert "column H_a is of type " in message
    assert message.endswith("expected numbers or lists of them")
    kept = refused(client, path, "features: [H_b, H_c, H_d, {constant: 1}]", keep=("H_a",))
    assert kept == message


def test_strings_of_a_ttree_and_of_numpy_are_refused(client: Client, tmp_path: Path) -> None:
    """A string is a list of characters for awkward, which must not be sent as numbers."""
    with uproot.recreate(tmp_path / "in.root") as file:
        columns: dict[str, Any] = {"s": ak.Array(["x", "yy", "z"]), "x": np.arange(3.0)}
        file.mktree("Events", {"s": "string", "x": "float64"}).extend(columns)
    np.savez(tmp_path / "in.npz", s=np.array(["x", "yy", "z"]), x=np.arange(3.0))
    constants = "{constant: 1}, {constant: 2}, {constant: 3}"
    for suffix in (".root", ".npz"):
        assert "column s is of type " in refused(client, tmp_path / f"in{suffix}", f"features: [s, {constants}]")
        message = refused(client, tmp_path / f"in{suffix}", f"features: [x, {constants}]", keep=("s",))
        assert "column s is of type " in message


def test_records_are_refused(client: Client, tmp_path: Path) -> None:
    records = pa.array([{"p": {"x": 1.0}}] * 3)
    path = write_table(pa.table({"r": records, "x": pa.array([1.0] * 3)}), tmp_path / "in.parquet")
    constants = "{constant: 1}, {constant: 2}, {constant: 3}"
    assert "column r_p is of type struct<x: double>, expected numbers" in refused(client, path, f"features: [r_p, {constants}]")
    nested = ak.Array([{"r": {"p": {"x": 1.0}}}] * 3)
    with pytest.raises(DataError, match=r"column r_p is of type \{x: float64\}, expected numbers or lists of them"):
        infer_array(client.model("double"), mapping(f"features: [r_p, {constants}]"), nested)


def test_a_directory_is_refused_with_a_glob_that_would_do(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.yaml").write_text(BY_NAME)
    for name in ("data", "data.parquet", "data.root"):
        (tmp_path / name).mkdir()
        argv = ["infer", "double", "--input", f"{tmp_path / name}/", "--columns", str(tmp_path / "m.yaml"), "--quiet"]
        assert cli.main([*argv, "--url", client.servers[0].address]) == 2
        glob = "*.root" if name == "data" else f"*{Path(name).suffix}"
        words = f"{tmp_path / name}/ is a directory, expected files: name them as a glob in quotes, such as "
        assert f"{words}'{tmp_path / name}/{glob}'" in capsys.readouterr().err
        with pytest.raises(DataError, match="is a directory, expected files"):
            open_source(tmp_path / name)


def test_a_stream_that_was_cut_between_batches_is_refused(client: Client, tmp_path: Path) -> None:
    events = make_events([1, 2, 3, 4])
    path = write("stream", tmp_path / "in.arrows", events, batches=4)
    data = path.read_bytes()
    path.write_bytes(data[:-8])
    assert "in.arrows ends without Arrow's end-of-stream marker" in refused(client, path)
    path.write_bytes(data * 2)
    assert "in.arrows goes on behind the end of its stream" in refused(client, path)
    path.write_bytes(data)
    infer_files(client, "double", mapping(BY_NAME), [str(path)], tmp_path / "out")
    assert lists_of(tmp_path / "out" / "in.double.arrows", "y0") == [doubled(events, "a")]


@settings(max_examples=40)
@given(cut=st.integers(1, 3000), batches=st.integers(1, 4))
def test_no_cut_of_a_stream_is_read_as_a_whole_one(cut: int, batches: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = write("stream", Path(scratch, "in.arrows"), make_events([1, 2, 3, 4]), batches)
        path.write_bytes(path.read_bytes()[:-cut])
        with pytest.raises(DataError):
            lists_of(path, "H_a")
