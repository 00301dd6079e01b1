# SPDX-License-Identifier: Apache-2.0
"""Columns of any name, exactly or with a collection: ATLAS's and EDM4hep's, with dots, slashes, brackets, spaces and stars."""

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
from hypersonic.client.columns import (
    Chunk,
    Column,
    FileOptions,
    MappingError,
    OutputError,
    infer_files,
    open_sink,
    parse_mapping,
)
from hypersonic.client.columns.source import plain_name
from tests.client.columns.files_of_events import SUFFIXES, lists_of, make_events, mapping, write

COUNTS = [2, 0, 3]
#: some names of each flavour, of four branches each
FLAVOURS = {
    "ATLAS": [f"AnalysisJetsAuxDyn.{name}" for name in ("pt", "eta", "phi", "m")],
    "EDM4hep": [f"MCParticles/MCParticles.{name}" for name in ("PDG", "momentum.x", "momentum.y", "momentum.z")],
    "patterns": ["w*", "wx", "x[0]", "q?"],
    "others": ["jet pt", "µ-η", "m(1)", "lambda"],
    "code": ["get('x')", "1a", 'a"b', "a,b;1"],
}
SINKS = {"ttree": ".root", "rntuple": ".root", "parquet": ".parquet", "arrow": ".arrow", "stream": ".arrows", "npz": ".npz"}


def jagged(seed: int, counts: list[int] = COUNTS) -> ak.Array:
    return ak.unflatten(np.random.default_rng(seed).integers(-99, 99, sum(counts)).astype(np.float32), counts)


def write_named(kind: str, path: Path, columns: dict[str, ak.Array]) -> Path:
    """Write lists, by their names."""
    if kind in {"ttree", "rntuple"}:
        with uproot.recreate(path) as file:
            if kind == "rntuple":
                file.mkrntuple("Events", columns)
            else:
                file.mktree("Events", dict.fromkeys(columns, "var * float32")).extend(columns)
    elif kind == "npz":
        counters = {f"n{name}": np.asarray(ak.num(lists)) for name, lists in columns.items()}
        arrays: dict[str, Any] = {name: np.asarray(ak.flatten(lists)) for name, lists in columns.items()} | counters
        np.savez(path, **arrays)
    else:
        table = pa.table({name: ak.to_arrow(lists, extensionarray=False) for name, lists in columns.items()})
        if kind == "parquet":
            pq.write_table(table, path)
        else:
            with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(str(path), table.schema) as writer:
                writer.write_table(table)
    return path


def doubled(lists: ak.Array) -> list[Any]:
    return ak.to_list(2 * lists)


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_names_are_given_as_the_file_has_them_and_the_output_is_read_back(
    client: Client, flavour: str, kind: str, tmp_path: Path
) -> None:
    names = FLAVOURS[flavour]
    columns = {name: jagged(seed) for seed, name in enumerate(names)}
    given_file = write_named(kind, tmp_path / f"in{SINKS[kind]}", columns)
    by_name = parse_mapping("features: [" + ", ".join("{column: '" + name.replace("'", "''") + "'}" for name in names) + "]")
    made = tmp_path / f"out{SINKS[kind]}"
    infer_files(client, "double", by_name, [str(given_file)], made, FileOptions(keep=tuple(names)))
    assert lists_of(made, "y0", "y1", "y2", "y3") == [doubled(lists) for lists in columns.values()]
    assert lists_of(made, *names) == [ak.to_list(lists) for lists in columns.values()]
    if kind == "ttree":  # by uproot itself
        with uproot.open(made) as file:
            assert ak.to_list(file["Events"]["y1"].array()) == doubled(columns[names[1]])


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize(
    ("flavour", "collection", "features"),
    [("ATLAS", "AnalysisJetsAuxDyn", "pt, eta, phi, m"), ("EDM4hep", "MCParticles", "PDG, momentum.x, momentum.y, momentum.z")],
)
def test_a_collection_is_what_stands_before_the_dot(
    client: Client, flavour: str, collection: str, features: str, kind: str, tmp_path: Path
) -> None:
    columns = {name: jagged(seed) for seed, name in enumerate(FLAVOURS[flavour])}
    given_file = write_named(kind, tmp_path / f"in{SINKS[kind]}", columns)
    text = f"{{collection: {collection}, features: [{features}]}}"
    made, again = tmp_path / f"out{SINKS[kind]}", tmp_path / f"again{SINKS[kind]}"
    kept = FLAVOURS[flavour][0]
    infer_files(client, "double", mapping(text), [str(given_file)], made, FileOptions(keep=(kept,)))
    outputs = [f"{collection}_y{place}" for place in range(4)]
    assert lists_of(made, *outputs) == [doubled(lists) for lists in columns.values()]
    infer_files(client, "double", mapping(f"{{collection: {collection}, features: [y0, y1, y2, y3]}}"), [str(made)], again)
    assert lists_of(again, outputs[2]) == [doubled(2 * columns[FLAVOURS[flavour][2]])]


ODD = st.text("ab1_ .[]*?()/;,:'\"{}|-µ", min_size=1, max_size=6).filter(
    lambda name: name.strip() and "/" not in name[0] + name[-1]
)


@settings(max_examples=25)
@given(
    names=st.lists(ODD, min_size=4, max_size=4, unique=True),
    kind=st.sampled_from(["parquet", "arrow", "npz"]),
    sink=st.sampled_from(["ttree", "rntuple", "parquet", "npz"]),
)
def test_any_name_is_found_exactly_and_written_or_refused(client: Client, names: list[str], kind: str, sink: str) -> None:
    """A name that means another column, or an output with another column's values, would be a wrong answer."""
    columns = {name: jagged(seed) for seed, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, f"out{SINKS[sink]}")
        if kind == "npz":
            columns = {name: np.arange(3, dtype=np.float32) + seed for seed, name in enumerate(names)}
            np.savez(Path(scratch, "in.npz"), **columns)
        else:
            write_named(kind, Path(scratch, f"in{SINKS[kind]}"), columns)
        text = "features: [" + ", ".join("{column: '" + name.replace("'", "''") + "'}" for name in names) + "]"
        given_file = str(Path(scratch, f"in{SINKS[kind]}"))
        options = FileOptions(keep=tuple(names))
        plain = {plain_name(name) for name in (*names, "y0", "y1", "y2", "y3")}
        if sink in {"ttree", "rntuple"} and len(plain) < 8:
            with pytest.raises(OutputError, match="a ROOT file cannot have"):
                infer_files(client, "double", mapping(text), [given_file], made, options)
            return
        infer_files(client, "double", mapping(text), [given_file], made, options)
        assert lists_of(made, "y0", "y1", "y2", "y3") == [doubled(lists) for lists in columns.values()]
        assert lists_of(made, *names) == [ak.to_list(lists) for lists in columns.values()]


def test_an_exact_name_comes_before_one_that_is_spelt_alike(tmp_path: Path) -> None:
    columns = {name: jagged(seed) for seed, name in enumerate(["a.b", "a_b", "a b"])}
    for kind, suffix in SINKS.items():
        path = write_named(kind, tmp_path / f"{kind}{suffix}", columns)
        assert lists_of(path, *columns) == [ak.to_list(lists) for lists in columns.values()]


def test_a_name_that_means_several_columns_is_refused(client: Client, tmp_path: Path) -> None:
    path = write_named("ttree", tmp_path / "in.root", {name: jagged(1) for name in ("e/x", "m/x", "a.b", "a b", "c", "d")})
    for name, words in (("x", "the columns e/x and m/x for the name x; name one"), ("a-b", r"a\.b and a b for the name a-b")):
        with pytest.raises(MappingError, match=words):
            infer_files(client, "double", mapping(f"features: [{name}, c, d, e/x]"), [str(path)], tmp_path / "out")


def test_branches_of_one_own_name_are_told_apart(tmp_path: Path) -> None:
    columns = {"e/x": jagged(1), "m/x": jagged(2), "x": jagged(3)}
    path = write_named("ttree", tmp_path / "in.root", columns)
    assert lists_of(path, *columns) == [ak.to_list(lists) for lists in columns.values()]


def test_the_names_of_older_mappings_still_mean_the_same_columns(tmp_path: Path) -> None:
    path = write_named("ttree", tmp_path / "in.root", {"DigiHB.fc0": jagged(1)})
    assert lists_of(path, "DigiHB_fc0") == [ak.to_list(jagged(1))]
    structs = write("rntuple", tmp_path / "n.root", make_events(COUNTS))
    assert lists_of(structs, "H_a") == lists_of(structs, "H.a") == [ak.to_list(make_events(COUNTS)["H"]["a"])]


def test_a_range_of_columns_may_have_a_number_and_dots_before_it() -> None:
    made = parse_mapping("features: [jet1.fc0..jet1.fc2, fc8..fc10]")
    assert made.columns == ("jet1.fc0", "jet1.fc1", "jet1.fc2", "fc8", "fc9", "fc10")
    assert parse_mapping("features: [{column: a0..a3}]").columns == ("a0..a3",)


def test_a_record_is_refused_with_the_names_of_its_fields(client: Client, tmp_path: Path) -> None:
    for kind in ("ttree", "rntuple", "parquet-structs"):
        path = write(kind, tmp_path / f"{kind}{SUFFIXES[kind]}", make_events(COUNTS))
        with pytest.raises(MappingError, match=r"has no column H that the mapping names; it has H_a, H_b, H_c, H_d, H_ok$"):
            infer_files(client, "double", mapping("features: [H, H_b, H_c, H_d]"), [str(path)], tmp_path / "out")


@pytest.mark.parametrize("tree", ["Events;1", "Events;2", "Events", "some/where;1"])
def test_a_tree_may_have_its_cycle(client: Client, tree: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {tree_name: {name: jagged(seed) for name in "abcd"} for seed, tree_name in enumerate(["Events", "some/where"])}
    with uproot.recreate(tmp_path / "in.root") as file:
        for name, made in columns.items():
            file.mktree(name, dict.fromkeys("abcd", "var * float32")).extend(made)
        later = {name: jagged(9) for name in "abcd"}
        file.mktree("Events", dict.fromkeys("abcd", "var * float32")).extend(later)
    (tmp_path / "m.yaml").write_text("features: [a, b, c, d]")
    argv = ["infer", "double", "--input", str(tmp_path / "in.root"), "--columns", str(tmp_path / "m.yaml"), "--tree", tree]
    argv += ["--url", client.servers[0].address, "--output", str(tmp_path / "out.root"), "--quiet"]
    assert cli.main(argv) == 0, capsys.readouterr().err
    expected = later if tree in {"Events;2", "Events"} else columns[tree.partition(";")[0]]
    assert lists_of(tmp_path / "out.root", "y2", tree=tree.partition(";")[0]) == [doubled(expected["c"])]


def test_a_cycle_that_the_file_lacks_is_refused(client: Client, tmp_path: Path) -> None:
    path = write("ttree", tmp_path / "in.root", make_events(COUNTS))
    with pytest.raises(Exception, match=r"has no tree 'Events;7'; did you mean Events\?"):
        infer_files(client, "double", mapping(), [str(path)], tmp_path / "out", FileOptions(tree="Events;7"))


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("ttree", ["H y", "nH", "H_z"]),
        ("rntuple", ["H y"]),
        ("parquet", []),
        ("arrow", []),
        ("npz", ["nH", "H_z", "H_flat"]),
    ],
)
def test_columns_that_the_kind_cannot_hold_are_refused_and_the_others_are_read_back(
    kind: str, refused: list[str], tmp_path: Path
) -> None:
    """Two names that are one in ROOT; a counter's name with other values; a collection with other counts."""
    counts = np.array(COUNTS)
    of_h = Column(np.arange(5.0), counts)
    for number, (name, column) in enumerate(
        {
            "H y": of_h,
            "nH": Column(np.arange(3)),
            "H_z": Column(np.arange(4.0), np.array([1, 1, 2])),
            "H_flat": Column(np.arange(3.0)),
        }.items()
    ):
        path = tmp_path / f"{number}{SINKS[kind]}"
        sink = open_sink(kind, path, {}, "Events", "H")
        if name in refused:
            with pytest.raises(OutputError, match=rf"cannot have (the column )?{name}\b"):
                sink.write(Chunk(0, 3, {"H_y": of_h, name: column}))
            sink.abort()
            continue
        sink.write(Chunk(0, 3, {"H_y": of_h, name: column}))
        sink.close()
        expected = column.values if column.counts is None else ak.unflatten(column.values, column.counts)
        assert lists_of(path, "H_y", name) == [ak.to_list(ak.unflatten(of_h.values, counts)), ak.to_list(expected)]
