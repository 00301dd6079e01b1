# SPDX-License-Identifier: Apache-2.0
"""The command line as a user sees it: its results, and its messages when something is wrong."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic import cli
from hypersonic.building import conversion
from hypersonic.building import model as building
from hypersonic.building.errors import BuildError
from hypersonic.events.infer import MetricsError, count_units, read_kernel_clocks
from hypersonic.hls.errors import MissingToolError, ToolError
from hypersonic.hls.zoo.facile.events import gate_rows
from hypersonic.server_process import start_server
from tests.end_to_end.command_line import hypersonic, places, refused


def test_the_main_job_builds_serves_infers_checks_and_stops(tmp_path: Path) -> None:
    done = hypersonic(
        "run", "facile", "--target", "hw_emu", "--events", "3", "--clients", "2",
        "--model-repository", tmp_path / "models", "--output", tmp_path / "result", "--build-directory", tmp_path / "build",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "answers equal to csim" in done.stdout
    assert "100 - 500" in done.stdout
    figures = json.loads((tmp_path / "result" / "figures.json").read_text())
    assert figures["integers_equal_to_csim"] == 3 * 16_000
    assert 16_000 * 72 / 64 <= figures["clocks_per_event"] <= 1.15 * 16_000 * 72 / 64
    card = figures["card"]
    assert (card["platform"], card["limited_by"]) == ("u250", "network")
    assert card["events_per_s"] == 25e9 / 8 / (16_000 * 72)
    assert {limit["part"]: f"{limit['events_per_s']:,.0f}" in done.stdout for limit in card["limits"]} == dict.fromkeys(
        ("network", "card", "memory bank", "PCIe to the card", "PCIe both ways", "kernel", "PCIe from the card"), True
    )
    assert (tmp_path / "result" / "result.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "models" / "facile" / "1" / "model.xclbin").read_bytes().startswith(b"xclbin2\0")
    assert {"build_prj.tcl", "firmware"} <= {path.name for path in (tmp_path / "build" / "facile" / "hls").iterdir()}
    assert "facile_core" in (tmp_path / "build" / "facile" / "kernel" / "facile.v").read_text()
    inspected = hypersonic("inspect", tmp_path / "models" / "facile" / "1" / "model.xclbin")
    assert inspected.returncode == 0
    assert "facile_1" in inspected.stdout


def test_a_second_build_of_the_same_finds_the_first(tmp_path: Path) -> None:
    first = hypersonic("build", "facile", "--target", "sw_emu", *places(tmp_path))
    second = hypersonic("build", "facile", "--target", "sw_emu", *places(tmp_path))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    accuracy, published = first.stdout.splitlines()
    assert accuracy.startswith("accuracy: 4,000 rows (hypersonic.hls.zoo.facile.events:gate_rows) against the trained model: ")
    assert accuracy.endswith(", quantised_tolerance 0.25")
    assert published == str(tmp_path / "facile" / "1")
    assert second.stdout == first.stdout


def test_a_missing_compiler_is_named_with_what_to_install(tmp_path: Path) -> None:
    done = hypersonic("build", "facile", *places(tmp_path), PATH=str(tmp_path), HYPERSONIC_CACHE=str(tmp_path / "cache"))
    refused(done, "g++ is not on PATH", "apt-get install g++ make perl")
    assert not (tmp_path / "facile").exists()


def test_an_unknown_model_is_refused_with_what_there_is(tmp_path: Path) -> None:
    refused(hypersonic("build", "facil", *places(tmp_path)), "facil", "facile")


def test_an_unknown_platform_is_refused_with_what_there_is(tmp_path: Path) -> None:
    refused(hypersonic("build", "facile", "--platform", "u999", *places(tmp_path)), "u999", "u250")


def test_a_bitstream_without_the_vendors_tools_names_what_is_missing(tmp_path: Path) -> None:
    refused(hypersonic("build", "facile", "--target", "hw", *places(tmp_path)), "v++", "Vitis")


@pytest.mark.parametrize("content", [b"", b"xclbin2\0" + bytes(40), b"\x7fELF" + bytes(600)])
def test_a_truncated_or_foreign_xclbin_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.xclbin"
    file.write_bytes(content)
    refused(hypersonic("inspect", file), "xclbin")


def test_an_xclbin_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused(hypersonic("inspect", tmp_path / "none.xclbin"), "none.xclbin")


def test_a_directory_in_place_of_an_xclbin_is_refused_with_the_file_below_it(tmp_path: Path) -> None:
    file = tmp_path / "models" / "mine" / "1" / "model.xclbin"
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "models" / ".stored-once.xclbin").touch()
    refused(hypersonic("inspect", tmp_path / "models"), "is a directory, expected an xclbin file, such as", str(file))


@pytest.mark.parametrize("percent", ["0", "-1", "101", "99999999999999999999", "nan", "half", "50.5", ""])
@pytest.mark.parametrize("command", ["build", "run"])
def test_a_card_cannot_be_filled_to_less_than_1_or_more_than_100_per_cent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, percent: str
) -> None:
    where = map(str, places(tmp_path))
    argv = [command, "jets", "--core", "rf", "--fit", "u250", f"--fill={percent}", *where, "--quiet"]
    try:
        code: object = cli.main(argv)
    except SystemExit as ended:
        code = ended.code
    message = capsys.readouterr().err
    assert code == 2, message
    assert f"--fill: got {percent!r}, expected a whole number of per cent from 1 to 100" in message
    assert not list(tmp_path.iterdir())


def test_infer_without_a_server_says_where_it_looked() -> None:
    refused(hypersonic("infer", "facile", "--url", "localhost:1"), "localhost:1", "hypersonic serve")


def test_devices_lists_what_this_host_can_reach() -> None:
    done = hypersonic("devices")
    assert done.returncode == 0, done.stderr
    assert "emu" in done.stdout
    data = json.loads(hypersonic("devices", "--json").stdout)
    assert [card["index"] for card in data["cards"] if card["simulated"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2, "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "/x: Permission denied"),
        (BuildError("got this, expected that"), 2, "got this, expected that"),
        (ToolError("g++ ended with 1"), 1, "g++ ended with 1"),
        (MissingToolError("g++ is not on PATH"), 2, "g++ is not on PATH"),
        (KeyError("x"), 1, "KeyError: 'x'; this is a fault of hypersonic: please report it"),
    ],
)
def test_every_error_is_a_paragraph_and_a_code_that_says_whose_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, message: str
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(building, "build", fail)
    monkeypatch.setattr(signal, "signal", fail_never)
    assert cli.main(["build", "facile", "--quiet"]) == code
    assert capsys.readouterr().err.startswith(f"hypersonic: error: {message}")


def fail_never(*_args: object) -> None:
    """The test's process keeps its own signals."""


def test_metrics_that_do_not_answer_are_named() -> None:
    for url in ("http://localhost:1/metrics", "no address"):
        with pytest.raises(MetricsError, match=f"no metrics from {url}: .*--metrics-url"):
            read_kernel_clocks(url, "facile")


def test_the_units_of_the_card_with_most_of_them_count_if_they_worked() -> None:
    name = 'fpga_compute_unit_busy_cycles_total{{compute_unit="facile_{}",gpu_uuid="{}"}}'
    worked = {name.format(1, "a"): 7, name.format(2, "a"): 7, name.format(3, "a"): 0, name.format(1, "b"): 9}
    assert count_units(worked) == 2
    assert count_units({}) == 1
    turning = 'fpga_compute_unit_busy_cycles_total{{compute_unit="facile_{}",model="facile",version="1"}}'
    assert count_units({turning.format(1): 7, turning.format(2): 7, turning.format(3): 0}) == 2


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "fast", ""])
def test_a_network_is_a_number_of_gigabits_above_0(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["infer", "facile", f"--network-gbps={value}"])
    assert f"got {value!r}, expected a number of Gb/s above 0" in capsys.readouterr().err


def test_a_card_that_is_not_known_is_named_before_anything_is_sent() -> None:
    refused(hypersonic("infer", "facile", "--platform", "u999"), "platform is 'u999', expected one of aws_f2, ")


def test_outputs_unlike_the_trained_models_are_named_on_standard_error_whatever_progress_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = {"rows": 4, "source": "random", "fraction_exact": 0.0, "max_abs_difference": 1.5, "tolerance": None}
    figures |= {"quantised_max_abs_difference": 1.5}
    lines: list[str] = []
    conversion._tell({**figures, "warnings": ["output 'y' is not what the trained model answers"]}, lines.append)
    assert len(lines) == 1
    captured = capsys.readouterr()
    assert captured.err == "hypersonic: WARNING: output 'y' is not what the trained model answers\n"
    assert captured.out == ""


def test_the_builds_for_two_targets_are_served_at_once_and_give_equal_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", fail_never)
    where = ["--model-repository", str(tmp_path / "models"), "--build-directory", str(tmp_path / "build")]
    for options in ((), ("--target", "sw_emu", "--name", "golden")):
        assert cli.main(["build", "facile", *options, "--no-resources", *where]) == 0
    assert "note" not in capsys.readouterr().err
    x = triton.InferInput("input", [1000, 18], "FP32")
    x.set_data_from_numpy(gate_rows()[:1000].astype(np.float32))
    with start_server(tmp_path / "models") as server, triton.InferenceServerClient(server.grpc) as client:
        kernel, golden = (client.infer(name, [x]).as_numpy("output") for name in ("facile", "golden"))
        np.testing.assert_array_equal(kernel, golden)
        urls = ["--url", server.grpc, "--metrics-url", f"http://{server.metrics}/metrics"]
        assert (
            cli.main(
                [
                    "infer",
                    "facile",
                    "--name",
                    "golden",
                    *urls,
                    "--events",
                    "2",
                    "--event-rows",
                    "500",
                    "--output",
                    str(tmp_path / "result"),
                ]
            )
            == 0
        )
        counted = {each.name: each.inference_count for each in client.get_inference_statistics().model_stats}
    assert counted == {"facile": 1000, "golden": 2000}
    assert json.loads((tmp_path / "result" / "figures.json").read_text())["integers_equal_to_csim"] == 1000
