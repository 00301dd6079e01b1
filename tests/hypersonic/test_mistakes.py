# SPDX-License-Identifier: Apache-2.0
"""Commands, models and options that are nearly right: the message has the right one, and the usage after it is short."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic import cli
from hypersonic.commands import NAMES
from hypersonic.hls.near import did_you_mean


def ended(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, list[str]]:
    """Run a command line, and return its exit code and the lines of standard error."""
    try:
        code: object = cli.main(arguments.split())
    except SystemExit as end:
        code = end.code
    return code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("bild facile", "build"),
        ("--verion", "--version"),
        ("triton serv", "serve"),
        ("bench kernl", "kernel"),
        ("build facile --model-repo x", "--model-repository"),
        ("serve --model-repo x", "--model-repository"),
        ("serve --grpc-prot=1", "--grpc-port"),
        ("tune own.h5 --row rows.npy", "--rows"),
        ("infer facile --colums=x", "--columns"),
        ("new own.h5 --row=x", "--rows"),
        ("run facile --target hwemu", "hw_emu"),
        ("train facille", "facile"),
    ],
)
def test_a_name_that_is_nearly_right_gets_the_near_one_before_a_short_usage(
    arguments: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = ended(arguments, capsys)
    message, usage, more = lines
    assert code == 2
    assert ": error: " in message
    assert message.endswith(f"; did you mean {near}?")
    assert usage.startswith("usage: hypersonic ")
    assert len(usage) <= 80
    assert more == f"all options: {message.partition(':')[0]} --help"


@pytest.mark.parametrize(
    "arguments", ["build facille", "run facille", "infer facille", "report facille", "plan facille", "build ./facille"]
)
def test_a_model_that_is_nearly_one_of_the_zoo_gets_its_name(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, (message,) = ended(f"{arguments} --quiet".replace("plan facille --quiet", "plan facille"), capsys)
    assert code == 2
    assert "did you mean facile?" in message


@pytest.mark.parametrize("typed", ["mine.kers", "min.keras", "mine.keras.h5"])
def test_a_model_file_that_is_nearly_right_gets_the_file_beside_it(
    typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.keras").touch()
    code, (message,) = ended(f"build {tmp_path / typed} --quiet", capsys)
    assert code == 2
    assert message.endswith(f"did you mean {tmp_path / 'mine.keras'}?")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("run own.keras r.npy", "r.npy; did you mean --rows r.npy?"),
        ("run own.keras extra r.npy", "extra r.npy; did you mean --rows r.npy?"),
        ("devices r.npy", "r.npy"),
    ],
)
def test_rows_without_their_option_get_it_where_the_command_has_it(
    arguments: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, (message, *_) = ended(arguments, capsys)
    assert (code, message.partition(": error: ")[2]) == (2, f"unrecognized arguments: {hint}")


def test_a_model_that_is_given_to_the_server_gets_the_options_that_load_it_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, (message, *_) = ended("serve facile", capsys)
    assert code == 2
    assert message.endswith("leave facile out, or for it alone give --model-control-mode=explicit --load-model=facile")


def test_an_option_like_no_other_is_only_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, (message, *_) = ended("plan facile --qqq", capsys)
    assert (code, message) == (2, "hypersonic plan: error: unrecognized arguments: --qqq")


def test_every_command_is_suggested_when_a_letter_is_missing() -> None:
    for name in NAMES:
        for place in range(1, len(name)):
            assert f"did you mean {name}?" in did_you_mean(name[:place] + name[place + 1 :], NAMES)


@given(st.text(string.printable, max_size=30))
def test_a_suggestion_is_always_a_known_name(word: str) -> None:
    said = did_you_mean(word, NAMES)
    assert not said or said.removeprefix("; did you mean ").removesuffix("?") in NAMES
