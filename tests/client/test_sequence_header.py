# SPDX-License-Identifier: Apache-2.0
"""The header by which a balancer keeps the requests of a sequence together, as the real server receives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.client import Client
from hypersonic.client.messages.request import SEQUENCE_HEADER, sequence_headers
from hypersonic.server.app import Server
from tests.server.python_models import WORDS, source, write_python
from tests.server.python_serving import serving

X = np.zeros(1, np.float32)
#: the header of the request
HEADER = f"""
return [text(json.loads(request.parameters()).get("{SEQUENCE_HEADER}", "none")) for request in requests]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("header")
    write_python(repository, "words", source(HEADER), WORDS)
    with serving(repository, grpc_header_forward_pattern=SEQUENCE_HEADER) as running:
        yield running


@pytest.fixture
def model(server: Server) -> Iterator[Any]:
    with Client(server.addresses["GRPCInferenceService"]) as client:
        yield client.model("words")


def test_the_call_of_a_sequence_has_the_models_name_and_the_sequences_id(model: Any) -> None:
    with model.sequence(7) as sequence:
        assert sequence.infer(X).item() == b"words/7"
        assert sequence.infer(X, last=True).item() == b"words/7"
    with model.sequence() as first, model.sequence() as second:
        assert first.infer(X).item() != second.infer(X).item()


def test_so_has_a_single_request_with_a_sequence_id_and_no_other(model: Any) -> None:
    assert model.infer(X, parameters={"sequence_id": "eight"}).item() == b"words/eight"
    assert model.submit(X, parameters={"sequence_id": 8}).result().output.item() == b"words/8"
    assert model.infer(X).item() == b"none"
    assert model.infer(X, parameters={"priority": 1}).item() == b"none"


@given(st.text(min_size=1), st.integers(1) | st.text(min_size=1))
def test_the_value_of_any_name_and_id_can_be_sent_as_a_header(name: str, sequence_id: int | str) -> None:
    ((key, value),) = sequence_headers(name, {"sequence_id": sequence_id})
    assert key == SEQUENCE_HEADER
    assert value.isascii()
    assert value.isprintable()
    assert " " not in value


def test_requests_without_a_sequence_have_no_header() -> None:
    assert sequence_headers("m", {}) == sequence_headers("m", {"sequence_id": 0}) == ()
