# SPDX-License-Identifier: Apache-2.0
"""Lists of events against a real server: FACILE's C++ behind the emulated card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hypersonic.building.csim import build_csim
from hypersonic.building.datatypes import set_datatypes
from hypersonic.building.model import build
from hypersonic.client import Client, InputError, TensorSpec, UnavailableError, UnknownModelError
from hypersonic.client.describe import describe
from hypersonic.client.load import Closed, Window, load_settings, measure
from hypersonic.events.generated import generated_requests
from hypersonic.events.golden import Golden, WrongAnswerError, check_against_csim
from hypersonic.events.infer import read_kernel_clocks
from hypersonic.events.sending import closed_loop, send
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec as RowTensor
from hypersonic.hls.zoo.facile.events import log_flat_events
from hypersonic.server_process import RunningServer, ServerError, start_server
from tests.support.optional import needs_build

pytestmark = [needs_build, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("models")
    build("facile", target="sw_emu", repository=repository)
    with start_server(repository) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with Client(server.grpc, closed_loop(5)) as made:
        yield made


def test_each_answer_belongs_to_its_event(client: Client) -> None:
    rng = np.random.default_rng(5)
    rows = log_flat_events(1, seed=11).rows
    events = [np.ascontiguousarray(rows[rng.integers(0, len(rows), rng.integers(1, 200))]) for _ in range(40)]
    model = describe(client, "facile")
    assert (model.name, model.inputs) == ("facile", (TensorSpec("input", "FP32", (18,)),))
    load = send(client, "facile", [(event,) for event in events])
    assert (load.latencies_ns > 0).all()
    outputs = [output for (output,) in load.outputs]
    assert [len(output) for output in outputs] == [len(event) for event in events]
    asked, answers = (np.concatenate(events),), (np.concatenate(outputs),)
    assert check_against_csim("facile", model, asked, answers) == sum(map(len, events))


def test_one_wrong_bit_is_found_and_named(client: Client) -> None:
    rows = log_flat_events(1, seed=12).rows[:50]
    model = describe(client, "facile")
    output = np.array(send(client, "facile", [(rows,)]).outputs[0][0])
    output.view(np.uint32)[17, 0] ^= 1
    with pytest.raises(WrongAnswerError, match=r"1 of 50 answers of model 'facile' differ from csim, first in row 17"):
        check_against_csim("facile", model, (rows,), (output,))


@pytest.mark.parametrize("datatypes", [("FP16", "BF16"), ("INT16", "INT32")])
def test_other_datatypes_travel_and_are_compared_to_the_bit(tmp_path: Path, datatypes: tuple[str, str]) -> None:
    build("facile", target="sw_emu", repository=tmp_path, datatypes=datatypes)
    project, _ = build_csim("facile")
    x, _ = set_datatypes((project.inputs, project.outputs), datatypes)
    rows = x.tensors[0].quantise(log_flat_events(1, seed=14).rows[:500])
    with start_server(tmp_path) as server, Client(server.grpc) as client:
        model = describe(client, "facile")
        assert (model.inputs[0].datatype, model.outputs[0].datatype) == datatypes
        (answers,) = send(client, "facile", [(rows,)]).outputs
    assert check_against_csim("facile", model, (rows,), answers) == 500


def test_a_card_without_a_clock_counts_none(server: RunningServer, client: Client) -> None:
    url = f"http://{server.metrics}/metrics"
    before = read_kernel_clocks(url, "facile")
    rows = log_flat_events(1, seed=13).rows[:1000]
    send(client, "facile", [(rows,)])
    assert read_kernel_clocks(url, "facile") == before
    assert sum(before.values()) == 0
    assert read_kernel_clocks(url, "nobody") == {}


def test_a_load_shows_the_servers_own_times(server: RunningServer) -> None:
    with Client(server.grpc, load_settings()) as client:
        requests = generated_requests(describe(client, "facile"), 100, seed=1)
        assert requests is not None
        point = measure(client, client.model("facile"), requests, Closed(2), Window(requests=50, warm_up_s=0))
    assert (point.answered, point.failed, point.rows) == (50, 0, 100)
    assert point.server is not None
    # read just before and just after the window; the server may count the last answers after it has sent them
    assert point.server.requests >= 50 - 2
    assert 0 < point.server.executions <= point.server.requests
    assert point.server.compute_ms > 0


def test_an_unknown_model_is_an_error_that_names_it(client: Client) -> None:
    with pytest.raises(UnknownModelError, match=r"has no model 'nobody' \(it has facile\)"):
        describe(client, "nobody")


def test_an_event_of_another_shape_is_an_error_that_names_both_shapes(client: Client) -> None:
    expected = r"input 'input' of model 'facile' has shape \(2, 17\), expected \(rows, 18\)"
    with pytest.raises(InputError, match=expected):
        send(client, "facile", [(np.zeros((2, 17), np.float32),)])


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="did not start"), start_server(tmp_path / "nowhere"):
        pass  # never reached: the repository is missing


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with Client(["localhost:1", "localhost:2"]) as nobody, pytest.raises(UnavailableError, match=r"localhost:1, localhost:2: "):
        describe(nobody, "facile")


@pytest.mark.parametrize("datatypes", [("UINT8", "FP32"), ("UINT16", "UINT8")])
def test_generated_rows_travel_as_the_server_wants_them_whatever_the_yaml_says(datatypes: tuple[str, str]) -> None:
    """A pixel of 8 bits stays what it is; told to travel otherwise it is the same number."""
    own, other = (RowTensor("x", (3,), FixedPoint(8, 0, signed=False), datatype) for datatype in datatypes)
    rows = np.array([[0, 128, 255]], dtype=np.float32)
    project = HlsProject(Path(), "m", Row((own,)), Row((own,)), "xcu250", {})
    served = (Golden(project, Path(), Row((travels,)), Row((own,))) for travels in (own, other))
    as_described, otherwise = (golden.travelling((rows,)) for golden in served)
    assert as_described[0].dtype == own.element.dtype
    np.testing.assert_array_equal(as_described[0], rows)
    assert own.to_raw(rows).tolist() == other.to_raw(otherwise[0]).tolist()
