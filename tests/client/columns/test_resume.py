# SPDX-License-Identifier: Apache-2.0
"""Data sets of several files: outputs that are done are skipped, and an output appears only when it is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hypersonic.client import Client
from hypersonic.client.columns import EventsError, FileOptions, OutputError, infer_files, read_metadata
from hypersonic.client.columns.whole import whole_file
from tests.client.columns.files_of_events import MAPPING, doubled, make_events, mapping, only_files, read, write
from tests.support.scripted_server import Script, scripted_server, wait
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


def data_set(directory: Path, files: int = 3) -> str:
    for number in range(files):
        write("parquet", directory / f"run{number}.parquet", make_events([number, 3, 0, 5], seed=number))
    return str(directory / "run*.parquet")


def test_a_data_set_goes_on_where_it_ended(client: Client, tmp_path: Path) -> None:
    given, out = data_set(tmp_path), tmp_path / "out"
    first = infer_files(client, "double", mapping(), [given], out)
    names = [f"run{number}.double.parquet" for number in range(3)]
    assert (first.files, first.skipped, only_files(out)) == (3, 0, names)
    before = [(out / name).read_bytes() for name in names]
    (out / names[1]).unlink()
    again = infer_files(client, "double", mapping(), [given], out)
    assert (again.files, again.skipped, again.events) == (1, 2, 4)
    assert [(out / name).read_bytes() for name in names] == before
    assert "2 done before" in str(again)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("{collection: H, features: [b, a, c, d]}", FileOptions(), "is of another mapping"),
        (MAPPING, FileOptions(keep=("run",)), r"is of another list of kept columns: \[\], expected \['run'\]"),
    ],
)
def test_an_output_of_another_mapping_is_not_replaced(
    client: Client, tmp_path: Path, text: str, options: FileOptions, words: str
) -> None:
    given, out = data_set(tmp_path, 1), tmp_path / "out"
    infer_files(client, "double", mapping(), [given], out)
    before = (out / "run0.double.parquet").read_bytes()
    with pytest.raises(OutputError, match=words):
        infer_files(client, "double", mapping(text), [given], out, options)
    assert (out / "run0.double.parquet").read_bytes() == before


def test_an_output_of_another_input_is_replaced_only_on_request(client: Client, tmp_path: Path) -> None:
    given, out = data_set(tmp_path, 1), tmp_path / "out"
    infer_files(client, "double", mapping(), [given], out)
    events = make_events([4, 4], seed=9)
    write("parquet", tmp_path / "run0.parquet", events)
    with pytest.raises(OutputError, match="is of another input"):
        infer_files(client, "double", mapping(), [given], out)
    infer_files(client, "double", mapping(), [given], out, FileOptions(overwrite=True))
    assert read(out / "run0.double.parquet", "H_y0") == doubled(events, "a")


def test_files_of_others_are_not_replaced(client: Client, tmp_path: Path) -> None:
    given = data_set(tmp_path, 1)
    for name, data in (("x.parquet", b"PAR1 of somebody"), ("x.root", b"root"), ("x.npz", b""), ("x.arrow", b"ARROW1")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(OutputError, match=f"{name} exists, and hypersonic did not write it"):
            infer_files(client, "double", mapping(), [given], tmp_path / name)
        assert (tmp_path / name).read_bytes() == data


def test_two_inputs_need_two_outputs(client: Client, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write("parquet", tmp_path / folder / "in.parquet", make_events([1]))
    given = str(tmp_path / "*" / "in.parquet")
    with pytest.raises(OutputError, match=r"have the same output .*in\.double\.parquet; put them into different directories"):
        infer_files(client, "double", mapping(), [given], tmp_path / "out")
    with pytest.raises(OutputError, match=r"is a file, and there are 2 inputs; name a directory"):
        infer_files(client, "double", mapping(), [given], tmp_path / "out.parquet")


def test_a_failure_keeps_the_outputs_before_it(client: Client, tmp_path: Path) -> None:
    given, out = data_set(tmp_path), tmp_path / "out"
    data = (tmp_path / "run1.parquet").read_bytes()
    (tmp_path / "run1.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"run1\.parquet cannot be read"):
        infer_files(client, "double", mapping(), [given], out)
    assert only_files(out) == ["run0.double.parquet"]
    (tmp_path / "run1.parquet").write_bytes(data)
    assert infer_files(client, "double", mapping(), [given], out).skipped == 1


def start_infer(given: Path, made: Path, columns: Path, address: str) -> subprocess.Popen[bytes]:
    argv = ["infer", "double", "--input", given, "--columns", columns, "--url", address, "--output", made]
    # SIGINT is ignored in programs that a shell has started in the background, and the test may be one
    command = ["env", "--default-signal=INT", sys.executable, "-m", "hypersonic", *map(str, argv), "--quiet"]
    return subprocess.Popen(command, cwd=ROOT)


@pytest.mark.parametrize(("number", "left"), [(signal.SIGKILL, True), (signal.SIGINT, False)])
@pytest.mark.parametrize("suffix", [".root", ".parquet"])
def test_a_killed_process_leaves_no_output(number: signal.Signals, left: bool, suffix: str, tmp_path: Path) -> None:
    """SIGKILL leaves the temporary file, which the next process for the same output uses."""
    events = make_events([8] * 200)
    given, made = write("parquet", tmp_path / "in.parquet", events), tmp_path / "out" / f"made{suffix}"
    (tmp_path / "m.yaml").write_text(MAPPING)
    part = made.with_name(f".{made.name}.part")
    script = Script(infer=wait(0.3))
    with scripted_server(script) as address:
        process = start_infer(given, made, tmp_path / "m.yaml", address)
        try:
            wait_until(lambda: part.exists() and len(script.rows) > 3, 120)
        finally:
            process.send_signal(number)
            process.wait(60)
        assert process.returncode == (-9 if left else 130)
        assert only_files(made.parent) == ([part.name] if left else [])
        script.infer = Script().infer
        with Client(address) as client:
            infer_files(client, "double", mapping(), [str(given)], made)
    assert only_files(made.parent) == [made.name]
    assert read(made, "H_y0") == doubled(events, "a")
    assert read_metadata(made) is not None


def test_an_interrupt_waits_neither_for_answers_nor_for_the_rest_of_a_chunk(tmp_path: Path) -> None:
    """The server answers nothing until the process has ended. A chunk is 200 requests, of which 16 are in flight."""
    given, ended = write("parquet", tmp_path / "in.parquet", make_events([8] * 200)), threading.Event()
    (tmp_path / "m.yaml").write_text(MAPPING)

    def infer(_request: object, _context: object) -> None:
        ended.wait(60)

    script = Script(infer=infer)
    try:
        with scripted_server(script) as address:
            process = start_infer(given, tmp_path / "out", tmp_path / "m.yaml", address)
            wait_until(lambda: script.calls["ModelInfer"] >= 16, 120)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            ended.set()
    finally:
        ended.set()
        process.kill()
    assert script.calls["ModelInfer"] <= 17, "one that waited for room may begin"


def test_two_processes_do_not_write_one_output(tmp_path: Path) -> None:
    made = tmp_path / "made.parquet"
    with whole_file(made) as part:
        part.write_text("first")
        with pytest.raises(OutputError, match="another process is writing the output"), whole_file(made):
            pytest.fail("not reached")
        assert part.read_text() == "first"
    assert (made.read_text(), only_files(tmp_path)) == ("first", ["made.parquet"])


def test_a_full_disk_is_an_error_that_names_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match=r"made\.parquet cannot be written: No space left"),
        whole_file(tmp_path / "made.parquet"),
    ):
        raise OSError(28, os.strerror(28))
    assert only_files(tmp_path) == []


def test_the_client_says_which_events_had_no_answer(tmp_path: Path) -> None:
    given = write("parquet", tmp_path / "in.parquet", make_events([3, 3]))
    with scripted_server(Script()) as address, Client(address) as client:
        assert client.model("double").spec.max_batch_size == 8
    with Client(address, retry=()) as closed, pytest.raises(Exception, match=address.rpartition(":")[2]) as caught:
        infer_files(closed, "double", mapping(), [str(given)], tmp_path / "out")
    assert not isinstance(caught.value, EventsError)  # the model's description is asked before any event is read
    assert not (tmp_path / "out").exists()
