# SPDX-License-Identifier: Apache-2.0
"""From a model with packed rows to tritonclient, which sends bytes: build, serve, query; the answers are csim's integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.building.csim import build_csim
from hypersonic.building.model import build
from hypersonic.hls.csim.compiled import Csim
from hypersonic.server_process import start_server
from tests.hls.packing.linear_model import FIELDS, write_model

pytestmark = pytest.mark.whole("firmware", "hls", "hypersonic/building", "requirements.lock", "server", "sim")


@pytest.mark.parametrize("target", ["sw_emu", pytest.param("hw_emu", marks=pytest.mark.whole)])
def test_packed_rows_are_served_to_a_client_that_sends_bytes(tmp_path: Path, target: str) -> None:
    model = str(write_model(tmp_path, {"fields": FIELDS, "scale_exponents": 1}))
    build(model, target=target, repository=tmp_path / "models")
    project, library = build_csim(model)
    rows = np.random.default_rng(4).integers(0, 256, (200, 3), dtype=np.uint8)
    (expected,) = project.outputs.from_raw(Csim(library, project).predict_raw(project.inputs.to_raw([rows])))
    with start_server(tmp_path / "models") as server, triton.InferenceServerClient(server.grpc) as client:
        sent = triton.InferInput("input", list(rows.shape), "UINT8")
        sent.set_data_from_numpy(rows)
        answer = client.infer("codes", [sent]).as_numpy("output")
    assert len(np.unique(expected)) > 100
    np.testing.assert_array_equal(answer, expected)
