# SPDX-License-Identifier: Apache-2.0
"""Numbers on the command line: within their bounds, or refused with them; a server with the largest ones serves and ends."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.app import add_arguments
from hypersonic.server.limits.bounds import OPTIONS
from hypersonic.server.options import Options
from tests.server.conftest import Serve, rows
from tests.support.waiting import wait_until


def field_of(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def parsed(*arguments: str) -> tuple[Options | None, str]:
    """The options, or None and the last line of what is printed."""
    parser, printed = argparse.ArgumentParser(), io.StringIO()
    add_arguments(parser)
    try:
        with contextlib.redirect_stderr(printed):
            return Options.of(parser.parse_args(["--model-repository=m", *arguments])), ""
    except SystemExit:
        return None, printed.getvalue().splitlines()[-1]


NUMBERS = st.one_of(
    st.integers().map(str), st.integers(0, 2**33).map(str), st.sampled_from(("1" * 5000, "1e400", "nan", "-1", "", "+5", "٣"))
)


@given(option=st.sampled_from(sorted(OPTIONS)), text=NUMBERS)
def test_a_number_is_within_its_bounds_or_refused_in_one_line_that_says_them(option: str, text: str) -> None:
    bound = OPTIONS[option]
    opts, line = parsed(f"{option}={text}")
    if opts is None:
        assert re.search(rf"error: argument {option}: .* is not a number from {re.escape(str(bound))}$", line)
        assert len(line) < 250
    else:
        assert getattr(opts, field_of(option)) in bound
        assert all(-1 <= value < 2**31 for _, value in opts.grpc_channel_options)


@given(option=st.sampled_from(("--http-port", "--grpc-port", "--metrics-port")), text=NUMBERS)
def test_a_port_is_one_or_refused(option: str, text: str) -> None:
    opts, line = parsed(f"{option}={text}")
    assert opts is not None or line.endswith("is not a port, expected 0 to 65535 (0: any free one)")


def test_every_number_on_the_command_line_is_in_the_table() -> None:
    numeric = {field.name for field in fields(Options) if field.type in ("int", "int | None")}
    ports = {name for name in numeric if name.endswith("_port")}
    assert numeric - ports == {field_of(option) for option in OPTIONS}
    for option, bound in OPTIONS.items():
        default = getattr(Options, field_of(option))
        assert default is None or default in bound


@pytest.mark.parametrize("mode", ["poll", "explicit"])
def test_a_server_with_the_largest_times_and_counts_serves_polls_and_ends(serve: Serve, mode: str) -> None:
    largest: dict[str, Any] = {
        field_of(option): bound.most for option, bound in OPTIONS.items() if not option.startswith("--emulated-")
    }
    loads = {"model_control_mode": mode, **({"load_model": ("m",)} if mode == "explicit" else {})}
    with serve(**largest, **loads) as running:
        wait_until(lambda: running.server.service.ready)
        x = rows(2)
        np.testing.assert_allclose(running.infer(x), x.sum(axis=1, keepdims=True), rtol=1e-5)
