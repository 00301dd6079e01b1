# SPDX-License-Identifier: Apache-2.0
"""A U-Net, a residual network and a DeepSets in one network of two inputs and two outputs, under Keras' own names of layers,
are built, served and queried; both emulated cards return the integers of the C++."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.building.csim import build_csim
from hypersonic.building.model import build
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.hls.csim.compiled import Csim
from hypersonic.server_process import start_server

pytestmark = pytest.mark.whole("firmware", "hls", "hypersonic", "requirements.lock", "sim")

ROOT = Path(__file__).resolve().parents[2]
ROWS = 3

_WRITE = """
import sys
from pathlib import Path
from hypersonic.hls.frontend.keras.model import use_keras_2
use_keras_2()
from tests.hls.frontend.topologies import STREAM, Case, write
print(write(Case("event", "rf", STREAM), "collision", Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("event")
    subprocess.run([sys.executable, "-c", _WRITE, str(directory)], check=True, capture_output=True, cwd=ROOT)
    return str(directory / "collision.h5")


@pytest.mark.parametrize("target", ["sw_emu", pytest.param("hw_emu", marks=pytest.mark.whole)])
def test_a_network_of_many_branches_is_served_with_the_integers_of_its_cpp(model: str, tmp_path: Path, target: str) -> None:
    manifest = Manifest.read(build(model, target=target, repository=tmp_path) / "manifest.json")
    assert [tensor.shape for tensor in manifest.outputs.tensors] == [(4, 4, 1), (3,)]
    project, library = build_csim(model)
    rng = np.random.default_rng(2)
    x = [rng.normal(size=(ROWS, tensor.size)) for tensor in manifest.inputs.tensors]
    wire = [tensor.quantise(part) for tensor, part in zip(manifest.inputs.tensors, x, strict=True)]
    expected = manifest.outputs.from_raw(Csim(library, project).predict_raw(manifest.inputs.to_raw(wire)))
    asked = [
        triton.InferInput(tensor.name, [ROWS, *tensor.shape], tensor.datatype).set_data_from_numpy(
            part.reshape(ROWS, *tensor.shape)
        )
        for tensor, part in zip(manifest.inputs.tensors, wire, strict=True)
    ]
    with start_server(tmp_path) as server, triton.InferenceServerClient(server.grpc) as client:
        result = client.infer("collision", asked)
        for tensor, part in zip(manifest.outputs.tensors, expected, strict=True):
            np.testing.assert_array_equal(result.as_numpy(tensor.name).reshape(ROWS, -1), part.reshape(ROWS, -1))
