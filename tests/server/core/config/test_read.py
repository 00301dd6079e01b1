# SPDX-License-Identifier: Apache-2.0
"""config.pbtxt: read as the whole protobuf, refused with file, line and column."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.backends.known import BACKENDS
from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.read import infer_backend, parse_config, parse_json_config, read_config
from hypersonic.server.core.config.schema import (
    BatchInput,
    BatchOutput,
    InstanceGroup,
    ModelConfig,
    QueuePolicy,
    TensorConfig,
    VersionPolicy,
    Warmup,
    WarmupInput,
)
from hypersonic.server.errors import ModelConfigError

TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


def read(tmp_path: Path, text: str) -> ModelConfig:
    path = tmp_path / "config.pbtxt"
    path.write_text(text)
    return read_config(path, "m", BACKENDS)


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
        ("max_batch_size: 4", "model 'm' has 0 inputs, expected 1 to 4096"),
        (TENSORS.replace('"y"', '""'), "model output must specify 'name' for m"),
        (TENSORS + TENSORS, "model 'm': input 'x' is specified more than once"),
        (TENSORS.replace("TYPE_FP32", "TYPE_INVALID"), "model input 'x' must specify 'data_type' for m"),
        (
            TENSORS.replace("[ 3 ]", "[ 0 ]"),
            "model input 'x' dimension must be integer >= 1, or -1 to indicate a var",
        ),
        (TENSORS.replace("[ 3 ]", "[ ]"), "model input 'x' must specify 'dims' for m"),
        (
            TENSORS.replace("[ 3 ]", "[ 3 ] is_shape_tensor: true"),
            "shape tensors are only supported for TensorRT platform",
        ),
        (TENSORS.replace("[ 3 ]", "[ 3 ] format: FORMAT_NHWC"), "model input NHWC/NCHW require 3 dims for m"),
        (
            "max_batch_size: 4" + TENSORS.replace("[ 3 ]", "[ -1, 2 ] reshape { shape: [ 2, -1 ] }"),
            "model input 'x' has different size for dims and reshape for m",
        ),
        (
            TENSORS.replace("[ 3 ]", "[ 1 ] reshape { }"),
            "model input 'x' cannot have empty reshape for non-batching model as scalar tensors are not supported for m",
        ),
        (
            TENSORS.replace("[ 1 ]", '[ 1 ] label_filename: "../l"'),
            "model output 'y' label_filename leads out of its",
        ),
        (TENSORS + "version_policy { specific { } }", "at least one version must be available under the version policy"),
        (TENSORS + "version_policy { latest { } }", "at least one version must be available under the version policy"),
        (TENSORS + 'platform: "nope"', "unexpected platform type 'nope' for m"),
        (
            TENSORS + 'backend: "python" instance_group { kind: KIND_GPU }',
            "instance group m_0 of model m has kind KIND_GPU but no GPUs are available",
        ),
        (
            TENSORS + "instance_group { kind: KIND_CPU gpus: 0 }",
            "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
        ),
        (
            TENSORS + "instance_group { count: 2000000000 }",
            "instance_group asks for 2000000000 instances, expected 1024",
        ),
        (TENSORS + "batch_input { kind: BATCH_ELEMENT_COUNT }", "batch input data type must be TYPE_INT32 or TYPE_FP32 for m"),
        (
            TENSORS + 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "c" data_type: TYPE_FP32 }',
            "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for m",
        ),
        (
            TENSORS + 'batch_input { kind: BATCH_ITEM_SHAPE target_name: "c" data_type: TYPE_FP32 source_input: "q" }',
            "unknown source input name 'q' for m",
        ),
        (TENSORS + 'batch_output { target_name: "q" source_input: "x" }', "unknown target output name 'q' for m"),
        (
            TENSORS + 'batch_output { target_name: [ "y", "y" ] source_input: "x" }',
            "target output name 'y' can only be specified once for m",
        ),
        (
            TENSORS + 'max_batch_size: 4 model_warmup { name: "w" batch_size: 9 }',
            "failed to run warmup sample 'w': batch size 9 for 'm', max allowed is 4",
        ),
        (
            TENSORS + 'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: -1 zero_data: true } } }',
            "warmup setting expects all variable-size dimensions are specified for input 'x'",
        ),
        (
            TENSORS + 'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 } } }',
            "warmup setting expects input 'x' to have input_data_type set",
        ),
        (
            TENSORS + 'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 input_data_file: "/etc/x" } } }',
            "warmup input 'x' input_data_file leads out of its directory",
        ),
        (
            TENSORS + "model_transaction_policy { decoupled: true } response_cache { enable: true }",
            "Response Cache does not currently support model m with 'decoupled' transaction policy",
        ),
        (
            TENSORS + 'backend: "python" parameters { key: "fallback_backend" value { string_value: "python" } }',
            "fallback_backend is 'python', expected a backend other than the model's own",
        ),
        ("parameters { " * 101 + "}" * 101, r"m/config\.pbtxt:1:1312: nested deeper than 100"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        read(tmp_path, text)


def test_every_noun_of_a_tensor_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        max_batch_size: 4
        input { name: "s" data_type: TYPE_STRING dims: -1 optional: true allow_ragged_batch: true }
        input { name: "z" data_type: TYPE_BF16 dims: 1 reshape { } }
        output { name: "y" data_type: TYPE_INT64 dims: [ 2, 3 ] reshape { shape: 6 } label_filename: "labels.txt" }
        """,
    )
    assert config.inputs[0] == TensorConfig("s", "BYTES", (-1,), optional=True, ragged=True)
    assert (config.inputs[1].dims, config.inputs[1].model_dims) == ((1,), ())
    assert config.outputs == (TensorConfig("y", "INT64", (2, 3), reshape=(6,), label_filename="labels.txt"),)
    assert config.outputs[0].model_dims == (6,)


def test_what_batches_and_warms_up_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        TENSORS
        + """
        max_batch_size: 4
        batch_input { kind: BATCH_ITEM_SHAPE target_name: "c" data_type: TYPE_INT32 source_input: "x" }
        batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "y" source_input: "x" }
        model_transaction_policy { decoupled: true }
        model_warmup {
          name: "w" batch_size: 2 count: 3
          inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 input_data_file: "sample" } }
        }
        parameters { key: "fallback_backend" value { string_value: "onnxruntime" } }
        """,
    )
    assert config.batch_inputs == (BatchInput("BATCH_ITEM_SHAPE", ("c",), "INT32", ("x",)),)
    assert config.batch_outputs == (BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", ("y",), ("x",)),)
    assert config.warmups == (Warmup("w", 2, {"x": WarmupInput("FP32", (3,), "file", "sample")}, 3),)
    assert (config.decoupled, config.fallback) == (True, "onnxruntime")


@pytest.mark.parametrize(
    ("given", "files", "backend", "platform", "file"),
    [
        ('platform: "onnxruntime_onnx"', (), "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ('backend: "onnxruntime"', (), "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ("", ("model.onnx",), "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ("", ("model.py", "weights"), "python", "", "model.py"),
        ("", ("model.xclbin", "manifest.json"), "fpga", "", "model.xclbin"),
        ('default_model_filename: "model.py"', (), "python", "", "model.py"),
        ('backend: "python" default_model_filename: "other.py"', (), "python", "", "other.py"),
        ('platform: "ensemble"', ("model.py",), "", "ensemble", ""),
        ("", ("weights",), "", "", ""),
    ],
)
def test_backend_platform_and_file_follow_from_each_other(
    given: str, files: tuple[str, ...], backend: str, platform: str, file: str
) -> None:
    message = parse_config(given, "m/config.pbtxt")
    infer_backend(message, files, BACKENDS)
    assert (message.backend, message.platform, message.default_model_filename) == (backend, platform, file)


def test_instance_groups_are_named_and_placed_as_tritons(tmp_path: Path) -> None:
    groups = read(tmp_path, TENSORS + 'backend: "python" instance_group [ { }, { count: 2 kind: KIND_CPU } ]').instance_groups
    assert groups == (InstanceGroup("m_0", "KIND_CPU", 1), InstanceGroup("m_1", "KIND_CPU", 2))
    assert read(tmp_path, TENSORS + 'backend: "python"').instance_groups == (InstanceGroup("m", "KIND_CPU", 1),)
    assert read(tmp_path, TENSORS + 'backend: "fpga"').instance_groups == (InstanceGroup("m", "KIND_CPU", 1),)
    groups = read(
        tmp_path, TENSORS + 'backend: "fpga" instance_group [ { gpus: [ 1 ] }, { }, { kind: KIND_MODEL } ]'
    ).instance_groups
    assert [(group.kind, group.devices) for group in groups] == [("KIND_GPU", (1,)), ("KIND_CPU", ()), ("KIND_MODEL", ())]


def test_no_configuration_leaves_the_kind_of_its_instances_open(tmp_path: Path) -> None:
    """KIND_AUTO is 0, which gRPC's JSON leaves out: PyTriton's client then finds no kind."""
    for backend in ("fpga", "python", "onnxruntime", "sum"):
        for groups in ("", "instance_group [ { } ]", "instance_group [ { count: 2 kind: KIND_AUTO } ]"):
            message = read(tmp_path, f'{TENSORS} backend: "{backend}" {groups}').message
            kinds = [group.get("kind") for group in json_format.MessageToDict(message)["instanceGroup"]]
            assert kinds == ["KIND_CPU"], f"{backend}, {groups or 'no group'}"


def test_the_json_form_takes_integers_as_strings() -> None:
    text = """{"backend": "sum", "maxBatchSize": "8", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["3", -1]}],
               "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}]}"""
    config = check_config(parse_json_config(text, "m"))
    assert (config.name, config.max_batch_size, config.inputs[0].dims) == ("m", 8, (3, -1))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "failed to parse the model configuration"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"foo": 1}', 'no field named "foo"'),
        ('{"max_batch_size": 3000000000}', "failed to parse the model configuration"),
        ('{"max_batch_size": 1e400}', "failed to parse the model configuration"),
        ('{"name": "other"}', "unexpected directory name 'm' for model 'other'"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested deeper than 100"),
        ("[" * 100_000, "nested deeper than 100"),
    ],
)
def test_json_that_is_no_model_configuration_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        parse_json_config(text, "m")


def test_a_missing_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"failed to read m/config\.pbtxt: No such file"):
        read_config(tmp_path / "config.pbtxt", "m")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelConfigError, match=r"failed to read m/config\.pbtxt"):
        read_config(path, "m", BACKENDS)


@pytest.mark.parametrize("text", ["", "x", "0", "-3", "1.5"])
def test_a_parameter_that_is_no_positive_integer_is_refused(tmp_path: Path, text: str) -> None:
    config = read(tmp_path, TENSORS + f'parameters {{ key: "slots" value {{ string_value: "{text}" }} }}')
    with pytest.raises(ModelConfigError, match=r"parameter slots is .*, expected an integer from 1 to 64"):
        config.integer("slots", 2)


@pytest.mark.parametrize("text", ["", "x", "0", "-3", "nan", "inf", "1e-320", "1e300"])
def test_a_share_that_is_no_positive_number_is_refused(tmp_path: Path, text: str) -> None:
    config = read(tmp_path, TENSORS + f'parameters {{ key: "share" value {{ string_value: "{text}" }} }}')
    with pytest.raises(ModelConfigError, match=r"parameter share is .*, expected a number from 0.001 to 1000"):
        config.number("share", 1.0)


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


@pytest.mark.parametrize(("text", "cards"), [("0", (0,)), ("2,0", (2, 0)), (" 1, 1 ,3", (1, 3)), ("63", (63,))])
def test_the_parameter_cards_names_cards_in_both_servers_and_comes_before_gpus(
    tmp_path: Path, text: str, cards: tuple[int, ...]
) -> None:
    group = "instance_group [ { kind: KIND_GPU gpus: [ 7 ] } ]"
    parameter = f'parameters {{ key: "cards" value {{ string_value: "{text}" }} }}'
    assert read(tmp_path, f'backend: "fpga"\nmax_batch_size: 8{TENSORS}{group}').devices == (7,)
    assert read(tmp_path, f'backend: "fpga"\nmax_batch_size: 8{TENSORS}{group}{parameter}').devices == cards


@pytest.mark.parametrize("text", ["", "0,", "-1", "64", "99999999999999999999", "all", "0;1", "٣"])
def test_a_list_of_cards_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    parameter = f'parameters {{ key: "cards" value {{ string_value: "{text}" }} }}'
    with pytest.raises(ModelConfigError, match=r"parameter cards is '.*', expected indices from 0 to 63, such as '0,1'"):
        _ = read(tmp_path, f'backend: "fpga"\nmax_batch_size: 8{TENSORS}{parameter}').devices
