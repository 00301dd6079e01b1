# SPDX-License-Identifier: Apache-2.0
"""A model file -> a TrainedModel, by the framework that reads it; and the files that it keeps its weights in."""

from __future__ import annotations

from pathlib import Path

from hypersonic.hls.frontend.trained import TrainedModel


def data_beside(model_file: Path) -> list[str | bytes | Path]:
    """Files that an ONNX file keeps its weights in."""
    if model_file.suffix != ".onnx":
        return []
    from hypersonic.hls.frontend.onnx.graph import data_files

    return list(data_files(model_file))


def load_trained(model_file: Path) -> TrainedModel:
    """A .h5, .keras or .onnx file by the framework that reads it. Raises ConversionError."""
    if model_file.suffix == ".onnx":
        from hypersonic.hls.frontend.onnx.model import load_onnx

        return load_onnx(model_file)
    from hypersonic.hls.frontend.keras.model import load_keras, use_keras_2

    use_keras_2()
    return load_keras(model_file)
