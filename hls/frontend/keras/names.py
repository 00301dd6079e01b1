# SPDX-License-Identifier: Apache-2.0
"""Gives layers names that hls4ml 1.3.0 can work with.

hls4ml's C++ identifiers begin with a layer's name, and it stores settings by the lower-case name. It finds a weight by looking
for its word (such as "kernel") in the variables' full names, which begin with the layer's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.names import Namespace, cleaned

#: identifiers in the C++ files that hls4ml writes for every model
_TAKEN = ("input_t", "result_t", "model_default_t", "nnet", "hls", "weights", "parameters", "defines")

#: the names of layers that hls4ml adds for a layer of the model
_BESIDE = ("{}", "{}_linear", "{}_depthwise", "{}_pointwise", "clone_{}", "repack_{}", "zp1d_{}", "zp2d_{}")


def named_for_hls4ml(model: Any, custom_objects: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return a Keras 2 model whose layers have suitable names, and the new name of each renamed layer by its old one.

    The model itself is returned if no name has to change; otherwise a copy with the same weights.
    """
    scope, names = Namespace(_TAKEN), dict[str, str]()
    for layer in model.layers:
        wanted = type(layer).__name__ if _misleads(layer) else layer.name
        identifier = scope.identifier(wanted, tuple(_forms(layer)))
        if identifier != layer.name:
            names[layer.name] = identifier
    return (_rebuilt(model, names, custom_objects), names) if names else (model, names)


def _misleads(layer: Any) -> bool:
    """Return whether a layer's name contains the word for one of its weights, or no usable character."""
    words = {weight.name.rsplit("/", 1)[-1].split(":")[0] for weight in layer.weights}
    return any(word in layer.name for word in words) or not cleaned(layer.name)


def _forms(layer: Any) -> Iterator[str]:
    yield from _BESIDE
    activation = layer.get_config().get("activation")
    name = activation.get("class_name") if isinstance(activation, dict) else activation
    if isinstance(name, str) and name != "linear":
        yield f"{{}}_{cleaned(name)}"


def _rebuilt(model: Any, names: Mapping[str, str], custom_objects: Mapping[str, Any]) -> Any:
    import tf_keras

    config = model.get_config()
    for layer in config["layers"]:
        layer["config"]["name"] = names.get(layer["config"]["name"], layer["config"]["name"])
        if "name" in layer:
            layer["name"] = names.get(layer["name"], layer["name"])
        for node in layer.get("inbound_nodes", ()):
            for source in node:
                source[0] = names.get(source[0], source[0])
    for source in (*config.get("input_layers", ()), *config.get("output_layers", ())):
        source[0] = names.get(source[0], source[0])
    kind = tf_keras.Sequential if isinstance(model, tf_keras.Sequential) else tf_keras.Model
    again = kind.from_config(config, custom_objects=dict(custom_objects))
    again.set_weights(model.get_weights())
    return again


@contextmanager
def in_the_models_names(names: Mapping[str, str]) -> Iterator[None]:
    """Put the model's own layer names into an UnsupportedLayerError that is raised inside the context."""
    try:
        yield
    except UnsupportedLayerError as error:
        text = str(error)
        for old, new in names.items():
            text = text.replace(repr(new), repr(old))
        raise UnsupportedLayerError(text, error.edits) from error


def translated(names: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the keys of `settings` from the model's layer names to hls4ml's, also in <name>_<part> for added layers."""

    def translate(name: str) -> str:
        if name in names:
            return names[name]
        fitting = [old for old in names if name.startswith(f"{old}_")]
        return names[longest] + name[len(longest) :] if (longest := max(fitting, key=len, default="")) else name

    return {translate(name): value for name, value in settings.items()}
