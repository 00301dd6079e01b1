# SPDX-License-Identifier: Apache-2.0
"""Converts the ONNX graphs of onnx_layer_rows.py, in one process: python tests/hls/layers/onnx_layer_session.py OUT [LABEL ...]

Each is described as `hypersonic new` describes it. OUT gets, in JSON: label -> {"drawn": how far its Keras model is from
onnxruntime, "layers": the classes of that model's layers, and for each column of the page what was said, or "exact"}; "far" is
what the build would say of the difference from onnxruntime, "" if it accepts it; "share" is the rms difference over the
answers' spread, "worst" the largest over their span. A label may also be a folder with model.onnx and rows.npy.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.convert import write_converted
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.gate import compare
from hypersonic.hls.csim.rows import rows_of
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.frontend.onnx.draw import draw
from hypersonic.hls.frontend.onnx.graph import load_proto, read_graph
from hypersonic.hls.frontend.onnx.model import load_onnx
from hypersonic.hls.frontend.rows import Wanted, read_rows
from hypersonic.hls.frontend.softmax.error import judged_outputs
from hypersonic.hls.frontend.survey import survey_trained
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.tune.describe import describe_model
from tests.hls.frontend.onnx_files.onnx_session import write
from tests.hls.layers.computed import computed
from tests.hls.layers.layer_session import COLUMNS, compute
from tests.hls.layers.onnx_layer_rows import CASES

ROWS = 200
#: rows that are also computed by the cores' graphs of Python integers, which are slow
MOST_EXACT = 40


def answer(file: Path, rows: Path, scale: float = 0.0) -> dict[str, Any]:
    """Return the answers about one model. rows: a file with rows; they are drawn and written if there is none."""
    import tf_keras as keras

    keras.backend.clear_session()
    try:
        trained = load_onnx(file)
    except ConversionError as error:
        return dict.fromkeys(COLUMNS, str(error))
    if not rows.exists():
        rng = np.random.default_rng(2)
        np.savez(rows, allow_pickle=False, **{one.name: scale * rng.normal(size=(ROWS, *one.shape)) for one in trained.inputs})
    shapes = [Wanted((tensor.name,), tensor.shape) for tensor in trained.inputs]
    x = [part.reshape(-1, *one.shape) for part, one in zip(read_rows(rows, shapes), shapes, strict=True)]
    model = draw(read_graph(load_proto(file))).model
    drawn = model(x if len(x) > 1 else x[0])
    pairs = zip(drawn if isinstance(drawn, list) else [drawn], trained.predict(x), strict=True)
    apart = max(float(np.abs(np.asarray(a).reshape(len(b), -1) - b).max()) for a, b in pairs)
    said: dict[str, Any] = {"drawn": apart, "layers": [type(layer).__name__ for layer in model.layers]}
    text = describe_model(file, survey_trained(trained, rows), str(rows))
    for io_type in dict.fromkeys(kind for _, kind in COLUMNS.values()):
        said |= _columns(trained, text, io_type, file)
    return said


def _columns(trained: TrainedModel, text: str, io_type: str, file: Path) -> dict[str, Any]:
    """The answers of the columns of one io_type."""
    columns = {column: core for column, (core, kind) in COLUMNS.items() if kind == io_type}
    described = yaml.safe_load(text)
    described["hls4ml"]["IOType"] = io_type
    described["hls4ml"]["Model"] |= {"Strategy": "Latency", "ReuseFactor": 1}
    place = file.with_suffix(".yaml")
    place.write_text(yaml.safe_dump(described))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            description = read_description(file)
            conversion = write_converted(trained, description, Path(scratch), CoreKind.CSIM)
            project, graph = conversion.project, conversion.graph
        except ConversionError as error:
            return dict.fromkeys(columns, str(error))
        csim = Csim(compile_csim(project, optimisation="-O0"), project)
        rows = rows_of(project, trained, description.gate, [0] * len(project.inputs.tensors))
        (worst,) = [compare(csim, trained, rows, judged_outputs(graph)).worst]
        span = worst.greatest - worst.least
        said: dict[str, Any] = {
            f"{io_type} far": worst.far_because,
            f"{io_type} share": worst.total.share,
            f"{io_type} worst": worst.total.worst / span,
        }
        few = rows.raw[:MOST_EXACT]
        expected = csim.predict_raw(few)
        for column, core in columns.items():
            try:
                found = computed(compute(graph, core), few)
            except ConversionError as error:
                said[column] = str(error)
                continue
            same = np.array_equal(found, expected) and len(np.unique(expected)) > 1
            said[column] = "exact" if same else f"csim and the core differ, or every answer is the same: {expected[:2]}"
    return said


def main(out: Path, labels: list[str]) -> None:
    use_keras_2()
    warnings.simplefilter("ignore")
    answers = {}
    with tempfile.TemporaryDirectory() as scratch:
        for index, label in enumerate(labels or CASES):
            if label in CASES:
                file, rows = write(CASES[label].graph, Path(scratch) / f"m{index}.onnx"), Path(scratch) / f"m{index}.npz"
            else:
                file = Path(scratch) / "model.onnx"
                file.write_bytes((Path(label) / "model.onnx").read_bytes())
                rows = (Path(label) / "rows.npy").resolve()
            answers[label] = answer(file, rows, CASES[label].scale if label in CASES else 0.0)
            sys.stderr.write(f"{json.dumps({label: answers[label]})}\n")
    out.write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
