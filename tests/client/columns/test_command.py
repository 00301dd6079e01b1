# SPDX-License-Identifier: Apache-2.0
"""`hypersonic events` and `hypersonic infer --input` as a user calls them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from hypersonic import cli
from hypersonic.client import Client
from hypersonic.client.columns import Chunk, open_source, read_mapping, read_metadata
from hypersonic.client.columns.rows import make_rows
from hypersonic.hls.zoo.facile.events import FEATURES, qie
from tests.client.columns.files_of_events import MAPPING, doubled, make_events, only_files, read, write
from tests.support.ports import free_ports
from tests.support.scripted_server import Script, scripted_server

COLUMNS = ("ieta", "iphi", "depth", "hypersonic_gain", *(f"fc{i}" for i in range(8)))


def whole(path: Path) -> Chunk:
    source = open_source(path)
    names = [f"DigiHB_{name}" for name in COLUMNS] + ["event", "DigiHB_valid"]
    (chunk,) = source.chunks(names, 1 << 30)
    source.close()
    return chunk


def test_every_kind_of_generated_file_has_the_same_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "ttree": "t.root",
        "rntuple": "n.root",
        "parquet": "p.parquet",
        "arrow": "a.arrow",
        "stream": "s.arrows",
        "npz": "z.npz",
    }
    chunks = {}
    for kind, name in files.items():
        argv = ["events", "facile", "--output", str(tmp_path / name), "--events", "3", "--quiet"]
        assert cli.main([*argv, *(["--kind", kind] if kind == "rntuple" else [])]) == 0
        assert "3 events, " in capsys.readouterr().out
        chunks[kind] = whole(tmp_path / name)
        assert open_source(tmp_path / name).kind == kind
        assert read_metadata(tmp_path / name) == {"generator": "hypersonic events facile", "events": 3, "seed": 1}
    first = chunks["ttree"]
    counts = first.columns["DigiHB_fc0"].counts
    assert counts is not None
    assert counts[1] == 0
    assert len({*counts.tolist()}) == 3
    for chunk in chunks.values():
        for name, column in first.columns.items():
            assert chunk.columns[name].values.tolist() == column.values.tolist()
            assert np.array_equal(chunk.columns[name].counts, column.counts)  # type: ignore[arg-type] # None equals None


def test_the_shipped_mapping_makes_the_rows_of_facile_from_them(tmp_path: Path) -> None:
    assert cli.main(["events", "facile", "--output", str(tmp_path / "e.parquet"), "--events", "1", "--quiet"]) == 0
    rows = make_rows(read_mapping("facile"), whole(tmp_path / "e.parquet"), np.dtype(np.float32), "e").array
    place = {name: column for column, name in enumerate(FEATURES)}
    assert rows.shape[1] == len(FEATURES) == 18
    assert np.abs(rows[:, place["ieta"]]).max() <= 16
    assert rows[:, place["depth1"] :].sum(axis=1).tolist() == [1.0] * len(rows)
    charges = rows[:, place["charge0_fc"] : place["charge7_fc"] + 1].astype(np.float64)
    assert np.array_equal(qie(charges).astype(np.float32), rows[:, place["charge0_fc"] : place["charge7_fc"] + 1])
    assert 3e-4 < rows[:, place["gain"]].mean() < 1.5e-3


def test_a_glob_and_a_directory(client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = make_events([2, 0, 3])
    for number in range(2):
        write("ttree", tmp_path / f"in{number}.root", events)
    (tmp_path / "m.yaml").write_text(MAPPING)
    argv = ["infer", "double", "--input", str(tmp_path / "in*.root"), "--columns", str(tmp_path / "m.yaml")]
    argv += ["--url", client.servers[0].address, "--output", str(tmp_path / "out"), "--keep", "run, event", "--chunk-mb", "1"]
    assert cli.main(argv) == 0
    captured = capsys.readouterr()
    assert re.fullmatch(r"6 events, 10 rows, 2 files in [\d.]+ s, [\d,]+ rows/s\n", captured.out)
    assert captured.err.splitlines() == [str(tmp_path / f"in{number}.root") for number in range(2)]
    assert only_files(tmp_path / "out") == ["in0.double.root", "in1.double.root"]
    assert read(tmp_path / "out" / "in1.double.root", "H_y3") == doubled(events, "d")
    with uproot.open(tmp_path / "out" / "in0.double.root") as file:
        assert set(file["Events"].keys()) == {"run", "event", "nH", "H_y0", "H_y1", "H_y2", "H_y3"}
    assert cli.main([*argv, "--quiet"]) == 0
    assert "2 done before" in capsys.readouterr().out


def test_infer_waits_for_a_server_that_is_starting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("ttree", tmp_path / "in.root", make_events([2]))
    (tmp_path / "m.yaml").write_text(MAPPING)
    (port,) = free_ports(1)
    argv = ["infer", "double", "--input", str(tmp_path / "in.root"), "--columns", str(tmp_path / "m.yaml")]
    argv += ["--url", f"127.0.0.1:{port}", "--output", str(tmp_path / "out.root")]
    assert cli.main([*argv, "--wait", "1"]) == 2
    assert f"no server was ready at 127.0.0.1:{port} within 1 s" in capsys.readouterr().err
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(cli.main, [*argv, "--wait", "60"])
        with pytest.raises(TimeoutError):
            asked.result(1)
        with scripted_server(Script(), port):
            assert asked.result(60) == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["infer", "facile", "--input", "nowhere.root"], "nowhere.root: there is no such file"),
        (["infer", "jets", "--input", "x.root"], "there is no mapping for model 'jets'; name a YAML file with --columns"),
        (["infer", "facile", "--keep", "run"], "--keep needs --input"),
        (["infer", "facile", "--url", "a:1", "--url", "b:1"], "more than one --url needs --input"),
        (["infer", "facile", "--input", "x.root", "--chunk-mb", "0"], "--chunk-mb is 0, expected 1 or more"),
        (["infer", "facile", "--input", "x.root", "--url", "nowhere"], "expected HOST:PORT"),
        (["events", "facile", "--output", "x.csv"], "has the suffix '.csv'"),
        (["events", "facile", "--output", "x.root", "--kind", "npz"], "to be of the kind npz, whose suffix is .npz"),
    ],
)
def test_wrong_options_are_explained(
    argv: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*argv, "--quiet"]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_real_file_without_a_gain_says_what_to_do(client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of HcalNanoAOD has everything but the gain."""
    names = ("ieta", "iphi", "depth", "valid", *(f"fc{i}" for i in range(8)))
    arrays: dict[str, Any] = {f"DigiHB_{name}": np.ones(1) for name in names}
    np.savez(tmp_path / "nano.npz", nDigiHB=np.array([1]), **arrays)
    (tmp_path / "m.yaml").write_text(
        "collection: DigiHB\nfeatures: [ieta, iphi, {column: hypersonic_gain, help: no table of HcalNanoAOD has the gain}, fc0]"
    )
    argv = ["infer", "double", "--input", str(tmp_path / "nano.npz"), "--columns", str(tmp_path / "m.yaml")]
    assert cli.main([*argv, "--url", client.servers[0].address, "--quiet"]) == 2
    assert "no column DigiHB_hypersonic_gain that " in (message := capsys.readouterr().err)
    assert message.endswith("no table of HcalNanoAOD has the gain\n")
    shipped = read_mapping("facile").help_for("DigiHB_hypersonic_gain")
    assert shipped.startswith("no table of HcalNanoAOD has the gain: copy the mapping")


def test_the_libraries_are_imported_only_when_they_are_used() -> None:
    heavy = ["uproot", "awkward", "pyarrow", "yaml"]
    code = "import sys, hypersonic.client; print('hypersonic.client.columns' in sys.modules, end=' ')\n"
    code += f"import hypersonic.client.columns; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False []"


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    """As in an environment without the extra `columnar`."""
    (tmp_path / "in.root").write_text("")
    code = (
        "import sys; sys.modules.update(uproot=None, pyarrow=None, awkward=None)\n"
        "from hypersonic.client.columns import open_source\n"
        "for name in ('in.root', 'in.parquet'):\n"
        "    try: open_source(name)\n"
        "    except Exception as error: print(type(error).__name__, error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, second = run.stdout.splitlines()
    assert first == (
        "DataError this kind of data needs the package uproot, which is not installed: pip install '.[columnar]' in a clone of "
        "hypersonic, "
        "then run the command again"
    )
    assert second.startswith("DataError this kind of data needs the package pyarrow")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("yaml", r"the mapping .*facile\.yaml needs the package yaml"),
        ("uproot", "this kind of data needs the package uproot"),
    ],
)
def test_the_command_names_the_extra_of_files_before_it_asks_a_server(missing: str, words: str, tmp_path: Path) -> None:
    """As in the base install, which has neither library, and where somebody has installed PyYAML."""
    (tmp_path / "x.root").write_text("")
    code = (
        f"import sys; sys.modules.update({{name: None for name in ('keras', 'hls4ml', 'scipy', {missing!r})}})\n"
        "from hypersonic import cli\n"
        "sys.exit(cli.main(['infer', 'facile', '--input', 'x.root', '--url', 'localhost:1', '--quiet']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    install = r"which is not installed: pip install '\.\[columnar\]' in a clone of hypersonic, then run the command again"
    assert re.fullmatch(rf"hypersonic: error: {words}, {install}\n", run.stderr)
    assert run.returncode == 2
