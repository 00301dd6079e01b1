# SPDX-License-Identifier: Apache-2.0
"""Trace level TENSORS: what the file says of tensors, texts as tritonserver 2.51 writes them, and where it ends."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.errors import BackendError
from hypersonic.server.inference.answer import Answer, Output
from hypersonic.server.inference.request import InputTensor
from hypersonic.server.inference.strings import pack_strings
from hypersonic.server.tracing.tensors import INPUT, MOST_CHARACTERS, MOST_ELEMENTS, MOST_TENSORS, TracedTensor, traced
from tests.server.ensemble.ensemble_models import A, Models, request_of
from tests.server.tracing.traced import tracing


def shown(datatype: str, data: bytes) -> str:
    return traced(INPUT, "x", datatype, (1,), data).data


@pytest.mark.parametrize(
    ("datatype", "data", "text"),
    [
        ("FP32", np.array([0, 1.5, 1e30, 0.1, np.nan], "<f4").tobytes(), "0,1.5,1e+30,0.1,nan"),
        ("FP64", np.array([0.1, 1e300, -2], "<f8").tobytes(), "0.1,1e+300,-2"),
        ("FP16", np.array([0.5, -1], "<f2").tobytes(), "0.5,-1"),
        ("BF16", b"\x80\x3f\x00\xc0", "1,-2"),
        ("INT8", b"\xfb\x07", "-5,7"),
        ("UINT64", b"\xff" * 8, "18446744073709551615"),
        ("BOOL", b"\1\0", "1,0"),
        ("BYTES", pack_strings([b"a,b", b'\xff"q"', "\u00e4".encode(), b""]), '"a,b","\\xff"q"","\u00e4",""'),
        ("FP32", b"", ""),
        ("INT32", b"\1\0\0\0\2\0", "1"),  # not checked yet
        ("BYTES", b"\xff\xff\xff\xffab", '"ab"'),
        ("BYTES", b"\1\0", ""),
        ("NONE", b"abc", ""),
    ],
)
def test_each_datatype_is_written_as_text(datatype: str, data: bytes, text: str) -> None:
    assert shown(datatype, data) == text


@pytest.mark.parametrize(
    ("datatype", "data", "length", "truncated"),
    [
        ("INT8", bytes(MOST_ELEMENTS), 2 * MOST_ELEMENTS - 1, False),
        ("INT8", bytes(MOST_ELEMENTS + 1), 2 * MOST_ELEMENTS - 1, True),
        ("BYTES", pack_strings([b"x" * 10_000] * 9), 6 * 10_003 - 1, True),
        ("BYTES", pack_strings([b"x" * MOST_CHARACTERS]), 0, True),
        ("BYTES", bytes(4 * (MOST_ELEMENTS + 1)), 3 * MOST_ELEMENTS - 1, True),
    ],
)
def test_a_tensors_text_is_bounded(datatype: str, data: bytes, length: int, truncated: bool) -> None:
    text = traced(INPUT, "x", datatype, (1,), data)
    assert (len(text.data), text.truncated, "truncated" in text.entry()["tensor"]) == (length, truncated, truncated)


def test_a_requests_tensors_are_bounded_whatever_a_decoupled_model_answers(tmp_path: Path, models: Models) -> None:
    models.add("m", lambda a: {"y": a["x"]})
    model, file = models.loaded["m"], tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", "level=TENSORS", "rate=1")
    trace = traces.begin("m", "", 0)
    assert trace is not None
    frame = trace.framing(lambda *_: None, model.config)
    chunk = bytes(1 << 20)
    answer = Answer((Output(0, "FP32", (1 << 18, 2), (chunk, chunk), 1 << 21),))
    for _ in range(MOST_TENSORS + 5):
        frame(request_of(model, x=A), answer)
    trace.end(1, "", 0)
    traces.close(1)
    _, *tensors = json.loads(file.read_text())
    assert len(tensors) == MOST_TENSORS
    assert {len(each["tensor"]["data"]) for each in tensors} == {2 * MOST_ELEMENTS - 1}


@pytest.mark.parametrize(("levels", "names"), [(("TENSORS",), 0), (("TENSORS", "TIMESTAMPS"), 2), (("TIMESTAMPS",), 2)])
def test_a_request_that_failed_shows_what_came_in(tmp_path: Path, levels: tuple[str, ...], names: int) -> None:
    file = tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", *(f"level={level}" for level in levels), "rate=1")
    trace = traces.begin("m", "", 0)
    assert trace is not None
    for shape in ((7, 7), (3,)):  # sent again to the version in its place
        trace.received([InputTensor("x", "UINT8", shape, memoryview(b"\1\2\3"))])
    trace.end(1, "", 0, error=BackendError("no"))
    traces.close(1)
    objects = json.loads(file.read_text())
    tensors = [each for each in objects if "activity" in each]
    expected = {"id": 1, **TracedTensor(INPUT, "x", "1,2,3", (3,), "UINT8", truncated=False).entry()}
    assert tensors == ([expected] if "TENSORS" in levels else [])
    assert sum("timestamps" in each for each in objects) == names


def test_mode_opentelemetry_says_at_start_that_it_traces_no_tensors(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        tracing("mode=opentelemetry", "level=TENSORS", "opentelemetry,url=http://127.0.0.1:9/v1/traces").close(1)
    assert "tensors are not traced in mode opentelemetry" in caplog.text
