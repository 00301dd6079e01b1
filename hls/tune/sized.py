# SPDX-License-Identifier: Apache-2.0
"""Copies a model file, with sizes for the input dimensions that it leaves open, because hardware has fixed sizes."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.saved import model_config

Shapes = Mapping[str, tuple[int, ...]]


class _UnfitError(ValueError):
    """The model has other inputs, or other sizes."""


#: the keys of the shape of an input, with the batch, in the configurations of Keras 3 and Keras 2
_SHAPE_KEYS = ("batch_shape", "batch_input_shape")


def write_sized(file: Path, shapes: Shapes, copy: Path) -> None:
    """Write a copy of a .keras, .h5 or .onnx file whose inputs have these shapes.

    The copy of an ONNX file contains its external data.

    Args:
        shapes: of one row, without the batch, by the input's name; "" names the only input.

    Raises:
        ConversionError: For a file that cannot be read, for an input that the model does not have, and for a shape that differs
            from a size that the file gives.
    """
    write = {".onnx": _write_onnx, ".keras": _write_keras, ".h5": _write_h5}[file.suffix]
    try:
        with tempfile.TemporaryDirectory(dir=copy.parent, prefix=f".{copy.name}-") as scratch:
            write(file, shapes, made := Path(scratch) / copy.name)
            made.replace(copy)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, ConversionError):
            raise
        why = error if isinstance(error, _UnfitError) else f"it does not hold a model whose inputs can be given sizes: {error}"
        raise ConversionError(f"{file}: {why}") from error


def named_with(file: Path, shapes: Shapes) -> Path:
    """Return the path of a copy with these shapes: model_16x4.onnx for model.onnx and one shape, (16, 4)."""
    sizes = ("x".join(map(str, shape)) for shape in shapes.values())
    return file.with_name("_".join([file.stem, *sizes]) + file.suffix)


def _write_onnx(file: Path, shapes: Shapes, copy: Path) -> None:
    import onnx
    from onnxruntime.tools.onnx_model_utils import make_dim_param_fixed

    from hypersonic.hls.frontend.onnx.graph import computed_inputs, load_proto

    proto = load_proto(file)
    inputs = {tensor.name: tensor for tensor in computed_inputs(proto.graph)}
    for name, shape in _by_name(shapes, list(inputs)).items():
        batch, *sizes = inputs[name].type.tensor_type.shape.dim or (None,)
        _check(name, [size.dim_value if size.dim_value > 0 else size.dim_param or None for size in sizes], shape)
        for size, number in zip(sizes, shape, strict=True):
            if size.dim_value < 1 and size.dim_param and (batch is None or size.dim_param != batch.dim_param):
                make_dim_param_fixed(proto.graph, size.dim_param, number)
            size.dim_value = number
    del proto.graph.value_info[:]  # shapes that were inferred for open sizes
    onnx.save(proto, str(copy))


def _write_keras(file: Path, shapes: Shapes, copy: Path) -> None:
    configured = _configured(file, shapes)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w") as written:
        for entry in archive.infolist():
            if entry.filename == "config.json":
                written.writestr(entry, configured)
                continue
            with archive.open(entry) as source, written.open(entry.filename, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)


def _write_h5(file: Path, shapes: Shapes, copy: Path) -> None:
    import h5py

    configured = _configured(file, shapes)
    shutil.copyfile(file, copy)
    with h5py.File(copy, "r+") as content:
        content.attrs["model_config"] = configured


def _configured(file: Path, shapes: Shapes) -> str:
    """The configuration of a Keras model with the shapes in its inputs, as JSON."""
    config = model_config(file)
    inputs = {name: (options, key) for name, options, key in _inputs(config.get("config", {}).get("layers", ()))}
    for name, shape in _by_name(shapes, list(inputs)).items():
        options, key = inputs[name]
        _check(name, options[key][1:], shape)
        options[key] = [options[key][0], *shape]
    config.pop("build_config", None)  # that of a Sequential has the open sizes
    config.get("config", {}).pop("build_input_shape", None)
    return json.dumps(config)


def _inputs(layers: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the inputs of a Keras model: their names, their options, and the key of the shape among these."""
    for layer in layers:
        options = layer.get("config") or {}
        for key in _SHAPE_KEYS:
            if options.get(key) and (layer.get("class_name") == "InputLayer" or layer is layers[0]):
                yield str(options.get("name")), options, key


def _by_name(shapes: Shapes, names: list[str]) -> dict[str, tuple[int, ...]]:
    """The shapes by the model's names of its inputs."""
    if list(shapes) == [""] and len(names) == 1:
        return {names[0]: shapes[""]}
    if unknown := [name for name in shapes if name not in names]:
        given = f"names {', '.join(unknown)}" if any(unknown) else "names no input"
        known = ", ".join(names) or "none"
        raise _UnfitError(f"--shape {given}, the inputs of the model are {known}; write --shape NAME=SIZE,...")
    return dict(shapes)


def _check(name: str, sizes: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Refuse a shape with another number of axes, or another size than the file gives.

    Args:
        sizes: a name or None if open.
    """
    fits = len(sizes) == len(shape) and all(not isinstance(a, int) or a == b for a, b in zip(sizes, shape, strict=True))
    if not fits:
        listed = ", ".join("?" if size is None else str(size) for size in sizes)
        raise _UnfitError(
            f"--shape gives input {name!r} the shape {','.join(map(str, shape))}, and the file ({listed}), without the batch; "
            "expected the same number of sizes, and those that the file has"
        )
