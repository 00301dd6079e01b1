# SPDX-License-Identifier: Apache-2.0
"""The rows of a sw_emu slot when a model's own C++ takes seconds per row: no more than a run's timeout allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from tests.firmware.publish.manifests import MANIFEST


def slots(manifest: Manifest) -> tuple[int, int]:
    """Rows of a slot, and ms that a run may take."""
    config = text_format.Parse(config_pbtxt(manifest), model_config_pb2.ModelConfig())
    return int(config.parameters["slot_rows"].string_value), int(config.parameters["timeout_ms"].string_value)


@pytest.mark.parametrize(
    ("multiplications", "expected"),
    [
        (0, (16_384, 10_000)),
        (1_000, (16_384, 10_000)),
        (100_000, (16_384, 120_000)),
        (1_000_000, (4_000, 120_000)),
        (3_858_000_000, (1, 120_000)),
        (10**30, (1, 120_000)),
        ("many", (16_384, 10_000)),
        (-1, (16_384, 10_000)),
    ],
)
def test_a_run_of_the_models_own_cpp_is_cut_to_what_it_computes_in_time(
    multiplications: object, expected: tuple[int, int]
) -> None:
    slow = replace(MANIFEST, target=Target.SW_EMU, core="csim", report={"multiplications": multiplications})
    assert slots(slow) == expected


def test_a_core_is_not_cut_for_its_multiplications() -> None:
    for target in (Target.HW_EMU, Target.HW):
        core = replace(MANIFEST, target=target, core="rf", report={"multiplications": 10**9})
        assert slots(core) == (16_384, 10_000)
