# SPDX-License-Identifier: Apache-2.0
"""An xclbin that a load request brings: the simulator of an emulated card is native code in the server's process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls import verilator
from tests.server.backends.fpga.repositories import Repository, linked
from tests.server.python_serving import client_of, infer, serving

FILES = ("model.xclbin", "manifest.json")


def upload(version: Path) -> tuple[str, dict[str, bytes]]:
    """The configuration, as JSON, and the files of a load request."""
    message = text_format.Parse((version.parent / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    return json_format.MessageToJson(message), {f"file:1/{name}": (version / name).read_bytes() for name in FILES}


def test_native_code_of_an_emulated_card_does_not_come_over_the_network_unless_allowed(tmp_path: Path, image: bytes) -> None:
    version = Repository(tmp_path / "elsewhere").publish("m", linked(image))
    config, files = upload(version)
    (tmp_path / "models").mkdir()
    options = {"model_control_mode": "explicit", "allow_xclbin_override": True}
    with serving(tmp_path / "models", **options) as server, client_of(server) as client:
        with pytest.raises(InferenceServerException, match=r"target sw_emu.*native code.*'--allow-emulated-override=true'"):
            client.load_model("m", config=config, files=files)
        assert not client.is_model_ready("m")
    with serving(tmp_path / "models", **options, allow_emulated_override=True) as server, client_of(server) as client:
        client.load_model("m", config=config, files=files)
        assert infer(client, np.ones((1, 18), np.float32)).tolist() == [[3]]


@pytest.mark.parametrize("target", [Target.SW_EMU, Target.HW_EMU])
def test_the_simulator_of_a_refused_upload_is_never_loaded(target: Target, tmp_path: Path) -> None:
    """The simulator is a library that makes a file when it is loaded."""
    (tmp_path / "models").mkdir()
    (tmp_path / "loaded.c").write_text(f"""
    #include <stdio.h>
    __attribute__((constructor)) static void loaded(void) {{ fclose(fopen("{tmp_path}/was_loaded", "w")); }}
    """)
    verilator.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "loaded.so", tmp_path / "loaded.c"], tmp_path)
    image = (tmp_path / "loaded.so").read_bytes()
    xclbin = assemble_xclbin("facile", target, find_platform("u250"), image, digest="d" * 64)
    config, files = upload(Repository(tmp_path / "elsewhere").publish("m", xclbin))
    options = {"model_control_mode": "explicit", "allow_xclbin_override": True}
    with (
        serving(tmp_path / "models", **options) as server,
        client_of(server) as client,
        pytest.raises(InferenceServerException, match=rf"target {target}.*native code"),
    ):
        client.load_model("m", config=config, files=files)
    assert not (tmp_path / "was_loaded").exists()


def test_a_model_of_the_repository_is_loaded_with_a_configuration_of_a_load_request(tmp_path: Path, image: bytes) -> None:
    repository = Repository(tmp_path / "models")
    config, _ = upload(repository.publish("m", linked(image)))
    with serving(repository.place, model_control_mode="explicit") as server, client_of(server) as client:
        client.load_model("m", config=config)
        assert infer(client, np.ones((1, 18), np.float32)).tolist() == [[3]]
