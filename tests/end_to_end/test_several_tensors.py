# SPDX-License-Identifier: Apache-2.0
"""From a Keras model with two inputs and two outputs to tritonclient: build, serve, query; the answers are csim's integers."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml
from numpy.typing import NDArray

from hypersonic.building.csim import build_csim
from hypersonic.building.model import build
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.hls.csim.compiled import Csim
from hypersonic.server_process import start_server
from tests.hls.several_models import INPUTS, OUTPUTS, gate_rows

pytestmark = pytest.mark.whole("client", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim")

_WRITE = """
import sys
from pathlib import Path
from hypersonic.hls.frontend.keras.model import use_keras_2
use_keras_2()
from tests.hls.several_models import keras_file
keras_file(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("two") / "two.h5"
    subprocess.run([sys.executable, "-c", _WRITE, str(file)], check=True, capture_output=True)
    description = {
        "name": "two",
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<16,6>"}}},
        "gate": {"rows": "tests.hls.several_models:gate_rows", "tolerance": "none", "quantised_tolerance": 0.0},
    }
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
    return str(file)


def infer(url: str, inputs: dict[str, NDArray[np.generic]], datatypes: tuple[str, str]) -> dict[str, NDArray[np.generic]]:
    given = [
        triton.InferInput(name, list(x.shape), datatype) for (name, x), datatype in zip(inputs.items(), datatypes, strict=True)
    ]
    for tensor, x in zip(given, inputs.values(), strict=True):
        tensor.set_data_from_numpy(x)
    with triton.InferenceServerClient(url) as client:
        result = client.infer("two", given)
        return {name: result.as_numpy(name) for name in ("flag", "energy")}


@pytest.mark.parametrize(
    ("target", "wires", "datatypes"),
    [
        ("sw_emu", ("", ""), ("UINT8", "FP32")),
        ("hw_emu", ("", ""), ("UINT8", "FP32")),
        ("sw_emu", ("FP16", "FP32"), ("FP16", "FP16")),
    ],
)
def test_a_keras_model_with_two_inputs_and_outputs_is_served(
    model: str, tmp_path: Path, target: str, wires: tuple[str, str], datatypes: tuple[str, str]
) -> None:
    place = build(model, target=target, repository=tmp_path, datatypes=wires)
    manifest = Manifest.read(place / "manifest.json")
    inputs, outputs = manifest.inputs, manifest.outputs
    assert tuple(tensor.datatype for tensor in inputs.tensors) == datatypes
    project, library = build_csim(model)
    wire = tuple(tensor.quantise(x) for tensor, x in zip(inputs.tensors, gate_rows(), strict=True))
    expected = outputs.from_raw(Csim(library, project).predict_raw(inputs.to_raw(wire)))
    shaped = {"tracks": wire[0], "calo": wire[1].reshape(-1, 2, 3)}
    with start_server(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: infer(server.grpc, shaped, datatypes), range(8)))
    for answer in answers:
        np.testing.assert_array_equal(answer["flag"], expected[0])
        np.testing.assert_array_equal(answer["energy"], expected[1])
