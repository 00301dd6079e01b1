# SPDX-License-Identifier: Apache-2.0
"""config.pbtxt: read as the whole protobuf, refused with file, line and column."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.config import ModelConfig, QueuePolicy, VersionPolicy
from hypersonic.server.config_check import check_config
from hypersonic.server.config_read import parse_config, read_config
from hypersonic.server.errors import ModelConfigError

TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


def read(tmp_path: Path, text: str) -> ModelConfig:
    path = tmp_path / "config.pbtxt"
    path.write_text(text)
    return read_config(path, "m")


def test_a_minimal_config_takes_its_name_from_the_directory(tmp_path: Path) -> None:
    config = read(tmp_path, f'backend: "fpga"\nmax_batch_size: 8{TENSORS}')
    assert (config.name, config.backend, config.max_batch_size, config.dynamic_batching) == ("m", "fpga", 8, None)
    assert config.message.name == "m"
    assert config.message.version_policy.latest.num_versions == 1


def test_everything_that_scheduling_uses_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        TENSORS
        + """
        max_batch_size: 64
        dynamic_batching {
          preferred_batch_size: [ 16, 8, 16 ]
          max_queue_delay_microseconds: 100
          default_queue_policy {
            timeout_action: DELAY default_timeout_microseconds: 5 allow_timeout_override: true max_queue_size: 9
          }
        }
        instance_group [ { kind: KIND_GPU count: 1 gpus: [ 1, 0, 1 ] } ]
        parameters { key: "slots" value { string_value: "4" } }
        """,
    )
    batching = config.dynamic_batching
    assert batching is not None
    assert (batching.preferred_batch_sizes, batching.max_queue_delay_us) == ((8, 16), 100)
    assert batching.queue_policy == QueuePolicy(5, allow_timeout_override=True, delay_on_timeout=True, max_queue_size=9)
    assert config.devices == (1, 0)
    assert (config.integer("slots", 2), config.integer("slot_rows", 7)) == (4, 7)


def test_fields_that_do_not_concern_this_server_are_passed_on(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        TENSORS
        + 'metric_tags { key: "a" value: "b" } cc_model_filenames { key: "7.5" value: "x" }'
        + "optimization { priority: PRIORITY_MAX }",
    )
    assert config.message.metric_tags["a"] == "b"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("maxx_batch_size: 8", r'm/config\.pbtxt:1:1: .*no field named "maxx_batch_size"'),
        ("max_batch_size: 8\nbackend: fpga {", r"m/config\.pbtxt:2:10: "),
        ("max_batch_size: eight", r"m/config\.pbtxt:1:17: "),
        ('name: "other"' + TENSORS, "unexpected directory name 'm' for model 'other', directory name must equal model name"),
        ("max_batch_size: -1" + TENSORS, "'max_batch_size' must be non-negative value for m"),
        ("max_batch_size: 4", "model 'm' has 0 inputs"),
        (TENSORS.replace('"y"', '""'), "model output must specify 'name' for m"),
        (TENSORS.replace("TYPE_FP32", "TYPE_INVALID"), "input 'x' must specify 'data_type'"),
        (TENSORS.replace("[ 3 ]", "[ 0 ]"), "input 'x' dimension must be integer >= 1, or -1"),
        (TENSORS.replace("[ 3 ]", "[ ]"), "input 'x' must specify 'dims'"),
        (
            TENSORS + "max_batch_size: 4 dynamic_batching { preferred_batch_size: 5 }",
            "preferred size must be <= max batch size for m",
        ),
        (TENSORS + "max_batch_size: 4 dynamic_batching { preferred_batch_size: 0 }", "preferred size must be positive for m"),
        (TENSORS + "ensemble_scheduling { }", "ensemble scheduling cannot be set for model 'm' whose platform is not ensemble"),
        (TENSORS + "version_policy { specific { } }", "at least one version must be available under the version policy"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        read(tmp_path, text)


def test_a_missing_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"failed to read m/config\.pbtxt: No such file"):
        read_config(tmp_path / "config.pbtxt", "m")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelConfigError, match=r"failed to read m/config\.pbtxt"):
        read_config(path, "m")


@pytest.mark.parametrize("text", ["", "x", "0", "-3", "1.5"])
def test_a_parameter_that_is_no_positive_integer_is_refused(tmp_path: Path, text: str) -> None:
    config = read(tmp_path, TENSORS + f'parameters {{ key: "slots" value {{ string_value: "{text}" }} }}')
    with pytest.raises(ModelConfigError, match=r"parameter slots is .*, expected an integer of at least 1"):
        config.integer("slots", 2)


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (VersionPolicy(latest=1), (9,)),
        (VersionPolicy(latest=2), (3, 9)),
        (VersionPolicy(latest=7), (1, 3, 9)),
        (VersionPolicy(), (1, 3, 9)),
        (VersionPolicy(specific=(9, 1, 4)), (1, 9)),
    ],
)
def test_version_policies_choose_as_triton_does(policy: VersionPolicy, chosen: tuple[int, ...]) -> None:
    assert policy.choose([9, 1, 3]) == chosen


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_the_file_named(text: str) -> None:
    with contextlib.suppress(ModelConfigError):
        check_config(parse_config(text, "m/config.pbtxt"))
