# SPDX-License-Identifier: Apache-2.0
"""ONNX files as exporters write them, read and converted in one process:

    python tests/hls/frontend/onnx_files/onnx_session.py DIRECTORY

Writes DIRECTORY/found.json: name -> the largest |Keras drawing - onnxruntime| and the shapes of the served tensors, or what was
said; DIRECTORY/cnn is a conversion.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.frontend.onnx.draw import draw
from hypersonic.hls.frontend.onnx.graph import load_proto, read_graph
from hypersonic.hls.frontend.onnx.model import load_onnx
from tests.hls.frontend.onnx_files.onnx_attention import attention_cases, mixing_cases
from tests.hls.frontend.onnx_files.onnx_cases import IMAGE, Case, Node, cases, conv, gemm, relu


def write(case: Case, file: Path) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(3)
    constants: list[Any] = []
    nodes: list[Any] = []
    for i, node in enumerate(case.nodes):
        names = []
        for weight in node.weights:
            names.append(f"onnx::{node.kind}_{len(constants)}")
            numbers = rng.normal(scale=0.5, size=weight).astype(np.float32) if isinstance(weight, tuple) else np.asarray(weight)
            constants.append(numpy_helper.from_array(numbers, names[-1]))
        sides = [*node.inputs, *names], node.output.split()
        nodes.append(helper.make_node(node.kind, *sides, f"/{i}/{node.kind}", **node.options))
    shapes = zip("xy", case.sides or ([case.batch, *case.shape], None), strict=True)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes)
    listed = [helper.make_tensor_value_info(c.name, c.data_type, c.dims) for c in constants] if case.listed else []
    graph = helper.make_graph(nodes, "main_graph", [x, *listed], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=case.ir_version)
    options = {"save_as_external_data": True, "location": f"{file.name}.data", "size_threshold": 0} if case.external else {}
    onnx.save(model, file, **options)
    return file


def quantised(file: Path) -> list[float]:
    """A network with quantisers of QONNX: how far its answers are from those without, and how far these lie apart."""
    quant = Node("Quant", ["x"], "q", [np.float32(1 / 64), np.float32(0), np.float32(10)],
                 {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"})  # fmt: skip
    plain = Case([conv("x", "a", (3, 2, 3, 3)), relu("a", "b"), Node("Flatten", ["b"], "f"), gemm("f", "y", 24, 2)], IMAGE)
    plain = plain._replace(sides=([1, *IMAGE], [1, 2]))
    both = [plain, plain._replace(nodes=[conv("q", *plain.nodes[0][2:3], (3, 2, 3, 3)), *plain.nodes[1:], quant])]
    x = np.random.default_rng(0).normal(size=(5, *IMAGE)).astype(np.float32)
    trained = [load_onnx(write(case, file)) for case in both]
    answers = [one.predict([np.moveaxis(x, 1, -1) if one.inputs[0].shape[-1] == 2 else x])[0] for one in trained]
    return [float(np.abs(answers[1] - answers[0]).max()), float(np.ptp(answers[0]))]


def answer(file: Path) -> Any:
    """How far the drawing is from the file, and the shapes as they are served; or what is said."""
    import tf_keras as keras

    keras.backend.clear_session()
    try:
        trained = load_onnx(file)
        model = draw(read_graph(load_proto(file))).model
    except ConversionError as error:
        return str(error)
    x = np.random.default_rng(0).normal(size=(19, *trained.inputs[0].shape)).astype(np.float32)
    (y,) = trained.predict([x])
    worst = float(np.abs(np.asarray(model(x)).reshape(19, -1) - y).max())
    return [worst, float(np.ptp(y)), trained.inputs[0].shape, trained.outputs[0].shape]


def narrow(directory: Path) -> str:
    """The error for a network whose first weights do not fit their type."""
    file = write(cases()["linear"], directory / "narrow.onnx")
    types = {"LayerName": {"Gemm_0": {"Precision": {"weight": "ap_fixed<8,-3>"}}}}
    description = {"name": "narrow", "input": {"precision": "ap_fixed<16,6>"}, "output": {}, "hls4ml": types}
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
    try:
        convert(file, directory / "narrow", core="csim")
    except ConversionError as error:
        return str(error)
    return "converted"


def rows() -> Any:
    """For the gate: channels last, as the model is served."""
    return np.random.default_rng(1).normal(size=(100, 48)).astype(np.float32)


def main(directory: Path) -> None:
    use_keras_2()
    listed = cases() | attention_cases() | mixing_cases()
    answers = {name: answer(write(case, directory / f"{name}.onnx")) for name, case in listed.items()}
    description = {
        "name": "cnn",
        "input": {"precision": "ap_fixed<16,5,AP_RND_CONV,AP_SAT>"},
        "output": {"precision": "ap_fixed<24,10,AP_RND,AP_SAT>"},
        "hls4ml": {"IOType": "io_stream", "Model": {"Precision": {"default": "ap_fixed<20,6,AP_RND_CONV,AP_SAT>"}}},
        "gate": {"rows": "tests.hls.frontend.onnx_files.onnx_session:rows", "tolerance": 0.02},
    }
    (directory / "cnn.yaml").write_text(yaml.safe_dump(description))
    convert(directory / "cnn.onnx", directory / "cnn", core="csim")
    (directory / "narrow.txt").write_text(narrow(directory))
    (directory / "quantised.json").write_text(json.dumps(quantised(directory / "quantised.onnx")))
    (directory / "found.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
