# SPDX-License-Identifier: Apache-2.0
"""A small model for each layer of Keras 2 or Keras 3, of QKeras, and each operator of ONNX, converted up to the C++:

    python tests/hls/frontend/every/every_layer.py keras_2|qkeras|keras_3|rebuilt|onnx DIRECTORY

Writes DIRECTORY/<kind>.json: the layer -> "" if it converts, or its refusal. "not refused: " and an exception stand for what
ends in another way, "not made: " and the reason for a layer of which no model can be made or saved. rebuilt: what keras_3 made.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

#: inputs of a layer, without the batch; the first with which a model can be made is taken
SHAPES = ((4,), (4, 3), (4, 4, 3), (4, 4, 4, 3), (2, 4, 4, 4, 3))

#: options without which a layer is not made, by the end of its class's name; the first that fits is taken
OPTIONS: dict[str, dict[str, Any]] = {
    "EinsumDense": {"equation": "ab,bc->ac", "output_shape": (2,)},
    "Embedding": {"input_dim": 5, "output_dim": 2},
    "Dense": {"units": 2},
    "DepthwiseConv1D": {"kernel_size": 2},
    "DepthwiseConv2D": {"kernel_size": 2},
    "MobileNet": {"filters": 2, "kernel_size": 2},
    "Transpose": {"filters": 2, "kernel_size": 2},
    "Conv1D": {"filters": 2, "kernel_size": 2},
    "Conv2D": {"filters": 2, "kernel_size": 2},
    "Conv3D": {"filters": 2, "kernel_size": 2},
    "QConv2DBatchnorm": {"filters": 2, "kernel_size": 2},
    "QDepthwiseConv2DBatchnorm": {"kernel_size": 2},
    "ConvLSTM1D": {"filters": 2, "kernel_size": 2},
    "ConvLSTM2D": {"filters": 2, "kernel_size": 2},
    "ConvLSTM3D": {"filters": 2, "kernel_size": 2},
    "Cell": {"units": 2},
    "LSTM": {"units": 2},
    "GRU": {"units": 2},
    "SimpleRNN": {"units": 2},
    "MultiHeadAttention": {"num_heads": 1, "key_dim": 2},
    "GroupQueryAttention": {"head_dim": 2, "num_query_heads": 1, "num_key_value_heads": 1},
    "GroupedQueryAttention": {"head_dim": 2, "num_query_heads": 1, "num_key_value_heads": 1},
    "GroupNormalization": {"groups": 1},
    "Permute": {"dims": (1,)},
    "Reshape": {"target_shape": (-1,)},
    "RepeatVector": {"n": 2},
    "Discretization": {"bin_boundaries": [0.0, 1.0]},
    "CategoryEncoding": {"num_tokens": 4, "output_mode": "multi_hot"},
    "HashedCrossing": {"num_bins": 4},
    "Hashing": {"num_bins": 4},
    "Lookup": {"vocabulary": [1, 2, 3]},
    "Resizing": {"height": 2, "width": 2},
    "CenterCrop": {"height": 2, "width": 2},
    "RandomCrop": {"height": 2, "width": 2},
    "RandomHeight": {"factor": 0.2},
    "RandomWidth": {"factor": 0.2},
    "RandomFlip": {},
    "RandomTranslation": {"height_factor": 0.1, "width_factor": 0.1},
    "RandomZoom": {"height_factor": 0.1},
    "RandomRotation": {"factor": 0.1},
    "RandomContrast": {"factor": 0.1},
    "RandomBrightness": {"factor": 0.1},
    "Rescaling": {"scale": 0.5, "offset": 1.0},
    "BatchNormalization": {},
    "LayerNormalization": {},
    "RMSNormalization": {},
    "UnitNormalization": {},
    "SpectralNormalization": {},
    "Normalization": {"mean": 1.0, "variance": 4.0},
    "Dropout1D": {"rate": 0.1},
    "Dropout2D": {"rate": 0.1},
    "Dropout3D": {"rate": 0.1},
    "Connected1D": {"filters": 2, "kernel_size": 2},
    "Connected2D": {"filters": 2, "kernel_size": 2},
    "Dropout": {"rate": 0.1},
    "GaussianNoise": {"stddev": 0.1},
    "Dot": {"axes": 1},
    "Pooling1D": {"pool_size": 2},
    "Pooling2D": {"pool_size": 2},
    "Pooling3D": {"pool_size": 2},
    "QConv2DTranspose": {"filters": 2, "kernel_size": 2},
    "QActivation": {"activation": "quantized_relu(4)"},
    "QAdaptiveActivation": {"activation": "quantized_relu", "total_bits": 6},
    "Activation": {"activation": "relu"},
}  # fmt: skip

#: how the messages for ONNX models begin that onnxruntime or onnx reject: the operator needs other inputs or attributes
INVALID = ("onnxruntime, which is the reference, does not run", "the shapes of the ONNX model cannot be found")

#: layers that read two tensors
TWO = (
    "Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot", "Attention", "AdditiveAttention",
)  # fmt: skip


def options_of(name: str) -> dict[str, Any]:
    if "Global" in name or "Adaptive" in name:
        return {"output_size": 1} if "Adaptive" in name else {}
    return next((options for end, options in OPTIONS.items() if name.endswith(end)), {})


def classes(module: Any, base: type, outside: tuple[str, ...] = ()) -> Iterator[tuple[str, type]]:
    """The public layers of a module, each once, without those of texts."""
    seen: set[type] = set()
    outside = (*outside, "InputLayer", "TextVectorization", "StringLookup")
    for name, kind in sorted(vars(module).items()):
        if inspect.isclass(kind) and issubclass(kind, base) and kind is not base and kind not in seen and name not in outside:
            seen.add(kind)
            yield name, kind


def made(keras: Any, name: str, kind: Any) -> Any:
    """A model with one layer of this class, called `mine`. Raises ValueError if none can be made."""
    layers, reasons = keras.layers, []
    inner = {
        "TimeDistributed": lambda: layers.Dense(2), "Bidirectional": lambda: layers.LSTM(2), "RNN": lambda: layers.LSTMCell(2),
        "SpectralNormalization": lambda: layers.Dense(2), "StackedRNNCells": lambda: [layers.LSTMCell(2)],
    }  # fmt: skip
    for shape in SHAPES:
        try:
            first = keras.Input(shape, name="x")
            own = (inner[name](),) if name in inner else ()
            layer = kind(*own, **options_of(name), name="mine")
            x = keras.layers.ReLU(name="r")(first)
            y = layer([x, keras.layers.Dense(shape[-1], name="d")(x)]) if name in TWO else layer(*[x] * _reads(kind))
            return keras.Model(first, y)
        except Exception as error:  # noqa: BLE001 - each layer says in its own way that it does not take a shape
            reasons.append(f"{type(error).__name__}: {str(error)[:200]}")
    raise ValueError(reasons[1])


def _reads(kind: Any) -> int:
    """How many tensors a layer reads as arguments of their own: query and value of an attention."""
    return 1 + ("value" in inspect.signature(kind.call).parameters)


def said(converted: Callable[[], object]) -> str:
    """The refusal of a conversion; "" if there is none."""
    from hypersonic.hls.errors import ConversionError

    try:
        converted()
    except ConversionError as error:
        return " ".join(str(error).split())
    except Exception as error:  # noqa: BLE001 - it is what the test looks for
        return f"not refused: {type(error).__name__}: {error}"
    return ""


def convert(file: Path, directory: Path) -> None:
    """Convert a model up to the C++, with types for everything."""
    from hypersonic.hls.convert import write_converted
    from hypersonic.hls.core_kind import CoreKind
    from hypersonic.hls.frontend.description import read_description
    from hypersonic.hls.frontend.load import load_trained

    trained = load_trained(file)
    names = {"inputs": trained.inputs, "outputs": trained.outputs}
    sides = {side: {tensor.name: {"datatype": "FP32"} for tensor in tensors} for side, tensors in names.items()}
    for tensor in sides["inputs"].values():
        tensor["precision"] = "ap_fixed<16,6>"
    described = {"name": "net", **sides, "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<16,6>"}}}}
    file.with_suffix(".yaml").write_text(json.dumps(described))
    write_converted(trained, read_description(file), directory, CoreKind.CSIM)


def rebuild(keras: Any, file: Path) -> None:
    """Write the model of a file of Keras 3 in Keras 2, beside it, as hls/frontend/keras/rebuild.py does."""
    from hypersonic.hls.frontend.keras.rebuild import check_alike, rebuilt

    model = keras.models.load_model(file, compile=False)
    twin = rebuilt(model)
    check_alike(model, twin)
    twin.save(file.with_suffix(".h5"))


def keras_layers(keras: Any, kinds: Iterator[tuple[str, type]], directory: Path, suffix: str) -> dict[str, str]:
    """Save a model for each layer; return the layers of which none was made or saved, with the reason."""
    missing = {}
    for name, kind in kinds:
        keras.backend.clear_session()
        try:
            made(keras, name, kind).save(directory / f"{name}{suffix}")
        except Exception as error:  # noqa: BLE001 - of the framework's
            (directory / f"{name}{suffix}").unlink(missing_ok=True)
            missing[name] = f"not made: {str(error)[:300]}"
    return missing


def main(kind: str, directory: Path) -> None:
    found: dict[str, str] = {}
    place = directory / kind
    place.mkdir(exist_ok=True)
    if kind == "keras_3":
        os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
        import keras

        found = keras_layers(keras, classes(keras.layers, keras.layers.Layer), place, ".keras")
        for file in sorted(place.glob("*.keras")):
            found[file.stem] = said(partial(rebuild, keras, file))
    elif kind == "onnx":
        found = onnx_operators(place)
    else:
        from hypersonic.hls.frontend.keras.model import use_keras_2

        use_keras_2()
        import qkeras
        import tf_keras

        base = tf_keras.layers.Layer
        if kind == "rebuilt":
            files = sorted((directory / "keras_3").glob("*.h5"))
        elif kind == "torch":
            files = sorted(place.glob("*.onnx"))
        else:
            kinds = classes(tf_keras.layers, base) if kind == "keras_2" else classes(qkeras, base, tuple(vars(tf_keras.layers)))
            found = keras_layers(tf_keras, kinds, place, ".h5")
            files = sorted(place.glob("*.h5"))
        for file in files:
            found[file.stem] = said(partial(convert, file, place / f"out_{file.stem}"))
    (directory / f"{kind}.json").write_text(json.dumps(found, indent=1, sort_keys=True))


def onnx_operators(place: Path) -> dict[str, str]:
    """A node of each operator of ONNX' own domain, which reads as many copies of one tensor as it must."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    found = {}
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    latest = {schema.name: schema for schema in onnx.defs.get_all_schemas() if schema.domain == "" and not schema.deprecated}
    for name, schema in sorted(latest.items()):
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="first"),
            helper.make_node(name, ["m"] * max(1, schema.min_input), ["y"], name="mine"),
        ]
        x, y = (helper.make_tensor_value_info(tensor, TensorProto.FLOAT, ["n", 4]) for tensor in ("x", "y"))
        graph = helper.make_graph(nodes, "g", [x], [y], [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        file = place / f"{name}.onnx"
        file.write_bytes(model.SerializeToString())
        text = said(partial(convert, file, place / f"out_{file.stem}"))
        found[name] = f"not made: {text}" if text.startswith(INVALID) else text
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
