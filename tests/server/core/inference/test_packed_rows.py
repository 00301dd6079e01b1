# SPDX-License-Identifier: Apache-2.0
"""A served model with packed rows: its configuration has the layout, clients pack by it or send bytes of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.client import Client
from hypersonic.firmware.errors import FirmwareError, ManifestError
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.packing.layout import Field, Packing
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.server.backends.fpga.backend import FpgaBackend
from hypersonic.server.core.config.read import read_config
from hypersonic.server.errors import ModelLoadError
from hypersonic.sim.bench_core import bench_core_wire
from tests.support.both_servers import STARTS, Start
from tests.support.multi_tensor_kernel import NAME, software

PACKING = Packing((
    Field("ieta", 6, signed=True),
    Field("adc", 8, 4, table=tuple(tuple(1.5 * k * (s + 1) for k in range(256)) for s in range(2)), select="gain"),
    Field("depth", 3, one_hot=7, first=1),
    Field("gain", 4, table=(tuple(range(16)),)),
))  # fmt: skip
X = Row((TensorSpec("x", (PACKING.row_bytes,), FixedPoint(16, 11), "UINT8", packing=PACKING),))
Y = Row((TensorSpec("y", (2,), FixedPoint(24, 18), "FP16"),))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Manifest]:
    xclbin = assemble_xclbin(NAME, Target.SW_EMU, find_platform("u250"), software(X, Y).read_bytes())
    manifest = Manifest.of(
        xclbin, model=NAME, platform="u250", core="bench", inputs=X, outputs=Y, ii=1, latency_cycles=8, max_batch_size=10_000
    )
    models = tmp_path_factory.mktemp("packed") / "models"
    publish(models, xclbin, manifest, config_pbtxt(manifest))
    return models, xclbin, manifest


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_client_packs_by_the_servers_description_and_any_client_sends_bytes(published: Any, start: Start) -> None:
    draw = np.random.default_rng(2)
    codes = {field.name: draw.integers(*field.allowed, (300, field.count), endpoint=True) for field in PACKING.fields}
    with start(f"--model-repository={published[0]}") as server:
        with Client(server.grpc) as client:
            model = client.model(NAME)
            layout = model.inputs[0].packing
            assert layout is not None
            rows = layout.pack(codes)
            ours = model.infer(rows)
        with triton.InferenceServerClient(server.grpc) as other:
            config = other.get_model_config(NAME, as_json=True)["config"]
            sent = triton.InferInput("x", list(rows.shape), "UINT8")
            sent.set_data_from_numpy(rows)
            theirs = other.infer(NAME, [sent]).as_numpy("y")
    described = json.loads(config["parameters"]["packed_rows"]["string_value"])
    assert [(field["name"], field["bits"]) for field in described["x"]["fields"]] == [
        ("ieta", 6), ("adc", 8), ("depth", 3), ("gain", 4),
    ]  # fmt: skip
    np.testing.assert_array_equal(rows, PACKING.pack(codes))
    (expected,) = bench_core_wire([rows], X, Y)
    np.testing.assert_array_equal(theirs.view(np.uint16), expected.view(np.uint16))
    np.testing.assert_array_equal(ours, expected)


def test_a_layout_that_is_not_the_kernels_is_not_told_to_clients(published: Any, tmp_path: Path) -> None:
    place = published[0] / NAME
    (tmp_path / "config.pbtxt").write_text((place / "config.pbtxt").read_text().replace("ieta", "iphi"))
    config = read_config(tmp_path / "config.pbtxt", NAME)
    with pytest.raises(ModelLoadError, match=r"parameter packed_rows is .*: correct config.pbtxt or publish the model again"):
        FpgaBackend().load(place / "1", config)


def test_a_version_with_other_fields_needs_another_name(published: Any) -> None:
    models, xclbin, manifest = published
    fields = (replace(PACKING.fields[0], signed=False), *PACKING.fields[1:])
    other = Row((replace(X.tensors[0], packing=Packing(fields)),))
    with pytest.raises(FirmwareError, match=r"has inputs x UINT8 \[6\] of .*; versions share one config.pbtxt"):
        publish(models, xclbin, replace(manifest, inputs=other), config_pbtxt(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 99}, "inputs is not a valid row: field 'ieta': bits is 99, expected 1 to 16"),
        ({"count": 1 << 60}, "inputs is not a valid row: field 'ieta': count is .*, expected 1 to 4194304"),
        ({"table": [[1e400]]}, "inputs is not a valid row: field 'ieta'"),
        ({"name": None, "bits": None}, "inputs is not a valid row: field 'None': bits is None, expected an integer"),
    ],
)
def test_the_layout_of_a_manifest_is_checked(published: Any, change: dict[str, Any], message: str) -> None:
    fields = json.loads(published[2].to_json())
    fields["inputs"][0]["packing"][0].update(change)
    with pytest.raises(ManifestError, match=message):
        Manifest.parse(json.dumps(fields))
