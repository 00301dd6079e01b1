# SPDX-License-Identifier: Apache-2.0
"""From a model.py to a running process: arguments, completion, and the reasons why it does not load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.errors import (
    ModelLoadError,
)
from tests.server.python_models import (
    DOUBLE,
    FLOATS,
    WORDS,
    Loaded,
    config_of,
    message_of,
    source,
    write_python,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_initialize_gets_tritons_arguments(tmp_path: Path) -> None:
    group = "instance_group [ { count: 2 kind: KIND_CPU } ]"
    config = WORDS + group + 'parameters { key: "k" value { string_value: "v" } }'
    write_python(tmp_path, "m", source("return [text(json.dumps(self.args)) for _ in requests]"), config)
    model = PythonBackend().load(tmp_path / "m" / "1", config_of(config))
    try:
        assert [instance.name for instance in model.instances] == ["m_0_0", "m_0_1"]
        arguments = json.loads(Loaded(config_of(config), model.instances[1]).run(X[0])[0][0])
    finally:
        for instance in model.instances:
            instance.close()
    given = json.loads(arguments.pop("model_config"))
    assert arguments == {
        "model_instance_kind": "CPU",
        "model_instance_name": "m_0_1",
        "model_instance_device_id": "0",
        "model_repository": str(tmp_path / "m"),
        "model_version": "1",
        "model_name": "m",
    }
    assert given["input"][0] == {
        "name": "x", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [-1], "is_shape_tensor": False,
        "allow_ragged_batch": False, "optional": False, "is_non_linear_format_io": False,
    }  # fmt: skip
    assert given["parameters"] == {"k": {"string_value": "v"}}


def test_a_model_finds_files_and_modules_beside_it(tmp_path: Path) -> None:
    code = source("return [text((a.V, b.V, pb_utils.get_model_dir())) for _ in requests]")
    code = "from . import a\nimport b\n" + code
    directory = write_python(tmp_path, "m", code, WORDS)
    (directory / "a.py").write_text("V = 'a'")
    (directory.parent / "b.py").write_text("V = 'b'")
    model = PythonBackend().load(directory, config_of(WORDS))
    try:
        text = Loaded(config_of(WORDS), model.instances[0]).run(X[0])[0][0].decode()
    finally:
        model.instances[0].close()
    assert text == f"('a', 'b', '{directory}')"
    assert not list(tmp_path.rglob("__pycache__"))


NO_BLS = "TritonModelException: BLS is only supported during the 'execute' function.\n\nAt:\n  m/1/model.py(19): initialize\n"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(:\n", "SyntaxError: invalid syntax (model.py, line 1)"),
        ("x = 1\n", "AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
        ("raise OSError('no é')\n", "OSError: no é\n\nAt:\n  m/1/model.py(1): <module>\n"),
        (
            source(DOUBLE, "raise pb_utils.TritonModelException('not today')"),
            "TritonModelException: not today\n\nAt:\n  m/1/model.py(19): initialize\n",
        ),
        (source(DOUBLE, "os._exit(3)"), "Stub process 'm_0' is not healthy."),
        (
            source(DOUBLE, "pb_utils.InferenceRequest(model_name='m', requested_output_names=['y'], inputs=[]).exec()"),
            NO_BLS,
        ),
    ],
)
def test_a_model_that_does_not_load_says_why_in_tritons_words(tmp_path: Path, code: str, reason: str) -> None:
    directory = write_python(tmp_path, "m", code)
    with pytest.raises(ModelLoadError) as failed:
        PythonBackend().load(directory, config_of(FLOATS))
    assert str(failed.value) == reason


def test_a_missing_or_straying_source_and_an_environment_of_its_own_are_refused(tmp_path: Path) -> None:
    directory = write_python(tmp_path, "m", source(DOUBLE))
    with pytest.raises(ModelLoadError, match="EXECUTION_ENV_PATH is not supported"):
        PythonBackend().load(
            directory, config_of(FLOATS + 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "e.tar.gz" } }')
        )
    with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
        PythonBackend().load(directory, config_of(FLOATS + 'default_model_filename: "../../x.py"'))
    (directory / "model.py").unlink()
    with pytest.raises(ModelLoadError, match=r"m/1/model\.py is missing"):
        PythonBackend().load(directory, config_of(FLOATS))
    (tmp_path / "elsewhere.py").write_text("")
    (directory / "model.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
        PythonBackend().load(directory, config_of(FLOATS))


COMPLETION = """
@staticmethod
def auto_complete_config(config):
    config.add_input({'name': 'x', 'data_type': 'TYPE_FP32', 'dims': [3]})
    config.add_output({'name': 'y', 'data_type': 'TYPE_FP32', 'dims': [3]})
    config.set_max_batch_size(4)
    config.set_dynamic_batching()
    return config
"""


def test_a_model_completes_its_configuration(tmp_path: Path) -> None:
    directory = write_python(tmp_path, "m", source(DOUBLE, more=COMPLETION), "")
    message = message_of("")
    PythonBackend().complete(directory, message)
    config = config_of(str(message).replace('name: "m"', "", 1).replace('backend: "python"', ""))
    assert (config.max_batch_size, config.input_names, config.output_names) == (4, ("x",), ("y",))
    assert config.dynamic_batching is not None
    assert message.default_model_filename == "model.py"


@pytest.mark.parametrize(
    ("completion", "config", "reason"),
    [
        (COMPLETION, "max_batch_size: 8", "ValueError: configuration specified max_batch_size 8, but"),
        (
            COMPLETION,
            'input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]',
            r"the model expects dims \[3\] but the model configuration specifies dims \[4\]",
        ),
        (COMPLETION.replace("return config", ""), "", "must return a valid pb.ModelConfig object."),
        (COMPLETION.replace("TYPE_FP32", "TYPE_NONE"), "", "auto_complete_config does not return a valid configuration"),
    ],
)
def test_a_completion_that_contradicts_the_configuration_is_refused(
    tmp_path: Path, completion: str, config: str, reason: str
) -> None:
    directory = write_python(tmp_path, "m", source(DOUBLE, more=completion), "")
    with pytest.raises(ModelLoadError, match=reason):
        PythonBackend().complete(directory, message_of(config))
