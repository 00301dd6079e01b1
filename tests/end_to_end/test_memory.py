# SPDX-License-Identifier: Apache-2.0
"""The limit of memory on the command line: a model that is too large for Verilator, and the option."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.hls.child import keras_2_environment, python_argv
from hypersonic.hls.errors import ToolMemoryError
from hypersonic.hls.tune.candidates import Candidates
from tests.end_to_end.command_line import hypersonic, refused

#: hls4ml's own test cases have this pool; Verilator took 21 GB for it
POOL = """
import sys
from pathlib import Path
import tf_keras as keras
image = keras.layers.Input((124, 124, 5), name="image")
keras.Model(image, keras.layers.AveragePooling2D((2, 2), name="pool")(image)).save(sys.argv[1])
Path(sys.argv[1]).with_suffix(".yaml").write_text(
    "name: pooled\\ninput: {precision: 'ap_fixed<16,6>'}\\noutput: {}\\nhls4ml: {Model: {Strategy: distributed_arithmetic}}\\n"
)
"""


@pytest.mark.whole
def test_a_pool_of_a_large_image_is_refused_before_verilator_starts(tmp_path: Path) -> None:
    model = tmp_path / "large.h5"
    subprocess.run(python_argv("-c", POOL, str(model)), env=keras_2_environment(), check=True, capture_output=True)
    done = hypersonic("build", model, "--memory", "4G", "--model-repository", tmp_path / "models",
                      "--build-directory", tmp_path / "build")  # fmt: skip
    refused(
        done, "Verilator and g++ would need about ", "for kernel pooled", "layer pool (Pool) is the largest",
        "the limit is 4.0 GB", "io_stream", "Strategy Resource", "--target sw_emu", "--memory",
    )  # fmt: skip
    assert "Verilating" not in done.stderr
    assert not (tmp_path / "models").exists()


def test_a_conversion_that_needs_too_much_is_ended(tmp_path: Path) -> None:
    done = hypersonic("build", "facile", "--memory", "100M", "--model-repository", tmp_path / "models",
                      HYPERSONIC_CACHE=str(tmp_path / "cache"))  # fmt: skip
    refused(done, "the conversion of ", "needs more memory than its limit", "the limit is 100 MB")


def test_the_process_of_a_search_that_needs_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_MEMORY", "100M")
    with (
        pytest.raises(ToolMemoryError, match=r"^the process that converts .*mine\.h5 needs more memory"),
        Candidates(tmp_path / "mine.h5") as candidates,
    ):
        candidates.inputs()


@pytest.mark.parametrize("command", ["build", "run", "report", "tune", "new"])
def test_every_command_that_builds_has_the_option_and_refuses_another_size(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "facile", "--memory", "much"])
    assert ended.value.code == 2
    assert "expected a size such as 8G or 500M, or a share of what is available such as 80%" in capsys.readouterr().err


def test_the_option_is_the_limit_of_the_commands_tools_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        "hypersonic.commands.build.build_each",
        lambda *_: seen.append(os.environ["HYPERSONIC_MEMORY"]) or iter(()),
    )
    monkeypatch.setenv("HYPERSONIC_MEMORY", "3G")
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)
    assert cli.main(["build", "facile", "--memory", "50%", "--quiet"]) == 0
    assert cli.main(["build", "facile", "--quiet"]) == 0
    assert seen == ["50%", "3G"]
    assert os.environ["HYPERSONIC_MEMORY"] == "3G"
    assert (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)) == before


def test_a_limit_in_the_environment_that_cannot_be_read_is_the_users(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERSONIC_MEMORY", "lots")
    from hypersonic.hls.bounded import tool

    monkeypatch.setattr("hypersonic.commands.build.build_each", lambda *_: iter([tool.run(["true"], "a tool")]))
    assert cli.main(["build", "facile", "--quiet"]) == 2
    assert "(HYPERSONIC_MEMORY or --memory) is 'lots', expected a size" in capsys.readouterr().err


def test_the_error_is_the_users() -> None:
    assert cli.explain_error(ToolMemoryError("g++ needs more memory")) == ("g++ needs more memory", 2)
