# SPDX-License-Identifier: Apache-2.0
"""Reads hls4ml's ModelGraph, after its optimisers, as a Network; refuses layers that no core computes exactly.

hls4ml is not imported here. In an io_stream graph hls4ml inserts a Clone where a tensor is read more than once, a Repack for a
Reshape, and a ZeroPadding before a padded convolution; an io_parallel graph has none of them. Both kinds of graph are read.

A TimeDistributed is two layers in hls4ml's graph, NAME and NAME_end. The C++ computes what is between them in a loop over the
steps (nnet_time_distributed.h). The tensors between them have the shape of one step there, and `(steps, *image)` here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import prod
from typing import Any

from hypersonic.hls.model_graph import TIME_DISTRIBUTED, is_end, steps_of
from hypersonic.hls.network.attributes import refuse, shape_text, streamed, tensor
from hypersonic.hls.network.base import Layer, Network, Tensor
from hypersonic.hls.network.binary import reads_bits
from hypersonic.hls.network.layer_type import Reader
from hypersonic.hls.network.layers.map import Map, linear
from hypersonic.hls.network.registry import ACTIVATION_CLASSES, ACTIVATIONS, JOINS, READERS, layer_of

#: hls4ml's classes without C++ for io_stream
_ARRAYS_ONLY = ("TimeDistributed", "GarNet", "GarNetStack")


def read_network(model: Any) -> Network:
    """Return the network of a ModelGraph. Raises UnsupportedLayerError, which names the layer."""
    layers = list(model.get_layers())
    sources, taken = _sources(layers), {name for layer in layers for name in layer.outputs}
    inside = steps_of(layers)
    tensors: dict[str, Tensor] = {}
    read: list[Layer] = []
    inputs: list[Tensor] = []
    for layer in layers:
        if layer.class_name in ("Input", "InputLayer"):
            inputs.append(tensor(layer.get_output_variable(), layer.outputs[0], layer))
            tensors[layer.outputs[0]] = inputs[-1]
        elif layer.class_name == "Clone":
            copied = _cloned(layer, tensors[layer.inputs[0]])
            read += [copied] if isinstance(copied, Map) else []
            tensors |= dict.fromkeys(layer.outputs, copied.y if isinstance(copied, Map) else copied)
        elif layer.class_name == TIME_DISTRIBUTED and not streamed(layer):
            name = layer.inputs[0]
            tensors[layer.outputs[0]] = _passed(layer, tensors[name if name in tensors else sources[name]])
        else:
            taking = [tensors[name if name in tensors else sources[name]] for name in layer.inputs]
            steps = _read(layer, taking, inside.get(layer.name, 0))
            read += distinct(steps, taken)
            tensors[layer.outputs[0]] = steps[-1].y
    ordered = [next(t for t in inputs if t.name == name) for name in model.inputs]
    outputs = tuple(tensors[_output_name(layers, name)] for name in model.outputs)
    return Network(model.config.get_project_name(), tuple(ordered), outputs, tuple(read))


def distinct(layers: tuple[Layer, ...], taken: set[str]) -> tuple[Layer, ...]:
    """Return the layers of one layer of the model with unique names for the tensors between them.

    Args:
        taken: the names of all tensors; the new ones are added to it.
    """
    renamed: dict[str, str] = {}
    steps: list[Layer] = []
    for layer in layers:
        read = _with_tensors(layer, ("x", "a", "b"), renamed)
        if layer is not layers[-1]:
            renamed[layer.y.name] = _free(layer.y.name, taken)
            taken.add(renamed[layer.y.name])
            read = _with_tensors(read, ("y",), renamed)
        steps.append(read)
    return tuple(steps)


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else next(free for n in count(2) if (free := f"{name}_{n}") not in taken)


def _with_tensors(layer: Layer, fields: tuple[str, ...], renamed: dict[str, str]) -> Layer:
    """Return the layer with the tensors in the given fields renamed."""
    tensors = {field: getattr(layer, field, None) for field in fields}
    named: dict[str, Any] = {
        field: replace(tensor, name=renamed[tensor.name])
        for field, tensor in tensors.items()
        if isinstance(tensor, Tensor) and tensor.name in renamed
    }
    return replace(layer, **named)


def _sources(layers: list[Any]) -> dict[str, str]:
    """Return aliases of tensors, layer name -> tensor name, because the optimisers may refer to a tensor by its layer."""
    return {layer.name: layer.outputs[0] for layer in layers if layer.outputs and layer.name not in layer.outputs}


def _output_name(layers: list[Any], name: str) -> str:
    known = {output for layer in layers for output in layer.outputs}
    return name if name in known else next(layer.outputs[0] for layer in layers if layer.name == name)


def _passed(layer: Any, x: Tensor) -> Tensor:
    """Return what is behind a TimeDistributed of hls4ml's graph: x as the images of its steps, or as one tensor again."""
    y = tensor(layer.get_output_variable(), layer.outputs[0], layer)
    check_passed(layer, x, y)
    steps = 0 if is_end(layer) else int(layer.get_attr("n_time_steps"))
    return over_steps(replace(x, shape=y.shape), steps)


def _read(layer: Any, inputs: list[Tensor], steps: int) -> tuple[Layer, ...]:
    """Read one layer.

    Args:
        steps: of the TimeDistributed around the layer, or 0.
    """
    y, name = over_steps(tensor(layer.get_output_variable(), layer.outputs[0], layer), steps), layer.class_name
    expected = 2 if name in JOINS else 1
    if name in _ARRAYS_ONLY and streamed(layer):
        raise refuse(layer, "hls4ml 1.3.0 has no C++ for it in io_stream")
    if expected == 1 and len(inputs) == 2:
        raise refuse(layer, "hypersonic does not compute it with two inputs")
    if name not in READERS and name not in ACTIVATION_CLASSES:
        known = ", ".join(sorted({*READERS, *ACTIVATION_CLASSES}))
        raise refuse(layer, f"it is none of the layers that the cores compute: {known}")
    if len(inputs) != expected:
        raise refuse(layer, f"it has {len(inputs)} inputs, expected {expected}")
    reads_bits(layer)
    reader: Reader = READERS.get(name, _activation)
    read = reader(layer, *inputs, y)
    several = read if isinstance(read, tuple) else (read,)
    if steps:
        check_inside(layer, several)
    return several


def _activation(layer: Any, x: Tensor, y: Tensor) -> Layer | tuple[Layer, ...]:
    function = str(layer.get_attr("activation")).lower()
    if function not in ACTIVATIONS:
        raise refuse(layer, f"the activation is {function}, the cores compute {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[function](layer, x, y)


def _cloned(layer: Any, x: Tensor) -> Tensor | Map:
    """Return the tensor itself, or a cast if hls4ml gives the copies another type, as for a Repack behind a Clone."""
    y = tensor(layer.get_output_variable(layer.outputs[0]), layer.outputs[0], layer)
    return x if x.precision == y.precision else linear(layer.name, x, replace(y, shape=x.shape))


def over_steps(tensor: Tensor, steps: int) -> Tensor:
    """Return a step's tensor as all steps, `(steps, *image)`; with 0 steps, the tensor itself."""
    return replace(tensor, shape=(steps, *tensor.image)) if steps else tensor


def check_passed(layer: Any, x: Tensor, y: Tensor) -> None:
    """Raise UnsupportedLayerError for a TimeDistributed of hls4ml's graph that casts, or has another number of elements."""
    if x.precision != y.precision:
        raise refuse(
            layer,
            f"it reads {x.precision} and its own result is {y.precision}, with which hls4ml's C++ does not compile; give both "
            "the same type",
        )
    steps, sizes = int(layer.get_attr("n_time_steps")), [prod(map(int, layer.get_input_variable().shape)), y.size]
    step, all_steps = sizes if is_end(layer) else sizes[::-1]
    if steps * step != all_steps:
        raise refuse(layer, f"hls4ml gives it the shape {shape_text(y.shape)}, which is not that of {steps} steps")


def check_inside(layer: Any, read: tuple[Layer, ...]) -> None:
    """Raise UnsupportedLayerError if a layer inside a TimeDistributed cannot be computed step by step."""
    if not all(layer_of(one).by_image for one in read):
        raise refuse(
            layer, "it is inside a TimeDistributed, where the cores compute products, pooling, activations and Reshape"
        )
