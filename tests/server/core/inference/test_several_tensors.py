# SPDX-License-Identifier: Apache-2.0
"""A model with two inputs and three outputs on the emulated card, each in a datatype of its own; clients are tritonclient's."""

from __future__ import annotations

import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.server.backends.fpga.backend import FpgaBackend
from hypersonic.server.core.config.read import read_config
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.check import check as check_request
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import CheckedRequest, InferRequest, InputTensor
from hypersonic.server.errors import ModelLoadError
from hypersonic.sim.bench_core import bench_core_wire, several_rows
from tests.support.both_servers import STARTS
from tests.support.multi_tensor_kernel import NAME, simulator
from tests.support.optional import needs_build
from tests.support.server_program import Program, program
from tests.support.waiting import wait_until

X, Y = several_rows()
OUTPUTS = tuple(tensor.name for tensor in Y.tensors)
Tensors = tuple[NDArray[np.float32], NDArray[np.uint8]]


def repository(directory: Path, target: Target) -> Path:
    """Slots of 64 rows, so that requests are merged and split."""
    image = simulator(target, X, Y, directory).read_bytes()
    xclbin = assemble_xclbin(NAME, target, find_platform("u250"), image, compute_units=2)
    manifest = Manifest.of(
        xclbin, model=NAME, platform="u250", core="bench", inputs=X, outputs=Y, ii=1, latency_cycles=8, max_batch_size=10_000
    )
    publish(directory / "models", xclbin, manifest, config_pbtxt(manifest, parameters={"slot_rows": "64"}))
    return directory / "models"


def rows(count: int, seed: int) -> Tensors:
    draw = np.random.default_rng(seed)
    tracks = draw.normal(0, 20, (count, 3, 2)).astype(np.float32)
    tracks[draw.random(tracks.shape) < 0.02] = np.nan
    return tracks, draw.integers(0, 256, (count, 5), dtype=np.uint8)


def each_of(tensors: Tensors) -> tuple[np.ndarray, ...]:
    return tensors


def asked(tensors: Tensors, inputs: type = triton.InferInput) -> list[Any]:
    sent = []
    for name, values, datatype in zip(("tracks", "flags"), each_of(tensors), ("FP32", "UINT8"), strict=True):
        sent.append(inputs(name, list(values.shape), datatype))
        sent[-1].set_data_from_numpy(values)
    return sent


def check(result: Any, tensors: Tensors) -> None:
    tracks, flags = tensors
    expected = bench_core_wire((tracks.reshape(len(tracks), 6), flags), X, Y)
    for tensor, values in zip(Y.tensors, expected, strict=True):
        answered = result.as_numpy(tensor.name)
        assert answered.dtype == tensor.element.dtype
        np.testing.assert_array_equal(answered, values)


def infer_often(url: str, client: int) -> int:
    """Requests of any size, some larger than a slot, the inputs in either order; the rows sent."""
    sizes = np.random.default_rng(client).integers(1, 200, 12).tolist()
    with triton.InferenceServerClient(url) as connection:
        for seed, size in enumerate(sizes):
            tensors = rows(size, 100 * client + seed)
            given = asked(tensors)
            check(connection.infer(NAME, given if seed % 2 else given[::-1]), tensors)
    return sum(sizes)


def merged(server: Program, clients: int) -> None:
    with ThreadPoolExecutor(clients) as pool:
        sent = sum(pool.map(lambda client: infer_often(server.grpc, client), range(clients)))
    expected = {"in": sent * X.row_bytes, "out": sent * Y.row_bytes}
    wait_until(lambda: moved(server) == expected, 20, explain=lambda: f"{moved(server)}, expected {expected}")


def moved(server: Program) -> dict[str, int]:
    """The bytes in each direction; those of tritonserver are up to a second old."""
    with urllib.request.urlopen(f"http://{server.ports['Metrics Service']}/metrics", timeout=20) as page:
        text = page.read().decode()
    found = {way: re.findall(rf"fpga_compute_unit_dma_{way}_bytes_total\{{.*\}} (\d+)", text) for way in ("in", "out")}
    return {way: sum(map(int, values)) for way, values in found.items()}


@pytest.fixture(scope="module", params=STARTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = repository(tmp_path_factory.mktemp("several"), Target.SW_EMU)
    with STARTS[request.param](f"--model-repository={place}") as running:
        yield running


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """For what tritonserver does otherwise, whatever the backend (docs/coming-from-triton.md)."""
    with program(f"--model-repository={repository(tmp_path_factory.mktemp('own'), Target.SW_EMU)}") as running:
        yield running


def test_batches_of_several_clients_keep_their_tensors_apart(server: Program) -> None:
    merged(server, 6)


def test_shares_of_one_run_lie_behind_each_other(tmp_path: Path) -> None:
    place = repository(tmp_path, Target.SW_EMU) / NAME
    config = read_config(place / "config.pbtxt", NAME)
    model = FpgaBackend().load(place / "1", config)
    slot = model.instances[0].slots[0]
    every = [rows(count, 40 + count) for count in (9, 30, 1, 20)]
    shares = [Share(PendingRequest(checked(tensors, config), lambda *_: None, 0), 0, len(tensors[0])) for tensors in every]
    shares[1] = Share(shares[1].pending, 5, 11)  # a part of a request that did not fit as a whole
    tracks, flags = every[1]
    every[1] = tracks[5:16], flags[5:16]
    for _ in range(2):
        slot.start(shares)
        assert slot.finish()[2:] == (41 * X.row_bytes, 41 * Y.row_bytes)
        for index, (tracks, flags) in enumerate(every):
            answer = slot.answer(index)
            expected = bench_core_wire((tracks.reshape(len(tracks), 6), flags), X, Y)
            for output, tensor, values in zip(answer.outputs, Y.tensors, expected, strict=True):
                assert (output.datatype, output.shape) == (tensor.datatype, values.shape)
                assert b"".join(output.chunks) == values.tobytes()
        shares, every = shares[::-1], every[::-1]
    for instance in model.instances:
        instance.close()
    model.close()


def checked(tensors: Tensors, config: ModelConfig) -> CheckedRequest:
    given = zip(config.inputs, each_of(tensors), strict=True)
    inputs = (InputTensor(spec.name, spec.datatype, x.shape, memoryview(x.tobytes())) for spec, x in given)
    return check_request(InferRequest("", tuple(inputs)), config)


@needs_build
def test_the_same_on_the_rtl_of_the_kernel(tmp_path: Path) -> None:
    with program(f"--model-repository={repository(tmp_path, Target.HW_EMU)}") as running:
        merged(running, 2)


def test_the_outputs_asked_for_come_in_the_order_asked(own_server: Program) -> None:
    tensors = rows(100, 7)
    with triton.InferenceServerClient(own_server.grpc) as client:
        every = client.infer(NAME, asked(tensors))
        wanted = [triton.InferRequestedOutput(name) for name in ("energy", "mass")]
        some = client.infer(NAME, asked(tensors), outputs=wanted)
    assert [output.name for output in every.get_response().outputs] == list(OUTPUTS)
    assert [output.name for output in some.get_response().outputs] == ["energy", "mass"]
    np.testing.assert_array_equal(some.as_numpy("mass"), every.as_numpy("mass"))


def test_http_serves_the_same_and_tells_all_tensors(server: Program) -> None:
    tensors = rows(70, 8)
    with tritonclient.http.InferenceServerClient(server.ports["HTTPService"]) as client:
        check(client.infer(NAME, asked(tensors, tritonclient.http.InferInput)), tensors)
        told = client.get_model_metadata(NAME)
    assert [(tensor["name"], tensor["datatype"], tensor["shape"]) for tensor in told["inputs"]] == [
        ("tracks", "FP32", [-1, 3, 2]), ("flags", "UINT8", [-1, 5]),
    ]  # fmt: skip
    assert [tensor["name"] for tensor in told["outputs"]] == list(OUTPUTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda given: given[:1],
            "Got input(s) ['tracks'], but missing required input(s) ['flags']. Please provide all required input(s).",
        ),
        (lambda given: [given[0], given[0]], "input 'tracks' already exists in request"),
        (
            lambda given: [given[0], asked(rows(9, 1))[1]],
            "input 'flags' batch size does not match other inputs for 'several'",
        ),
    ],
)
def test_a_request_that_does_not_fit_is_refused_in_tritons_words(own_server: Program, change: Any, message: str) -> None:
    with triton.InferenceServerClient(own_server.grpc) as client:
        with pytest.raises(InferenceServerException) as refused:
            client.infer(NAME, change(asked(rows(10, 2))))
        assert message in refused.value.message()
        check(client.infer(NAME, asked(rows(10, 3))), rows(10, 3))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name: "flags"', 'name: "flag"', r"config\.pbtxt has input 'tracks' FP32 \[3, 2\], 'flag' UINT8 \[5\], but"),
        ('name: "flags"', 'name: "flags" optional: true', "'flags' UINT8 .5. optional, but a kernel takes every input"),
        (
            'name: "mass"',
            'name: "mess"',
            r"has output 'mess' .* manifest has 'mass' FP16 \[3\], 'tag' INT8 \[1\], 'energy' FP32",
        ),
    ],
)
def test_a_config_with_other_tensors_is_refused_at_load(tmp_path: Path, old: str, new: str, message: str) -> None:
    place = repository(tmp_path, Target.SW_EMU) / NAME
    config = place / "config.pbtxt"
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises(ModelLoadError, match=message):
        FpgaBackend().load(place / "1", read_config(config, NAME))
