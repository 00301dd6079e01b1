# SPDX-License-Identifier: Apache-2.0
"""Writes the options of a Keras 2 model's layers in the one way in which hls4ml 1.3.0 reads them.

An option that is True or False can be 1 or 0 in a file, which Keras takes and hls4ml does not. hls4ml ignores a ReLU's
max_value, and has a function of its own for a ReLU to 6.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


def with_plain_options(model: Any, custom_objects: Mapping[str, Any]) -> Any:
    """Return an equivalent Keras 2 model whose options hls4ml reads; the model itself if nothing has to change."""
    config = model.get_config()
    plain = _plain(config, custom_objects)
    if repr(plain) == repr(config):  # 1 == True
        return model
    again = type(model).from_config(plain, custom_objects=dict(custom_objects))
    again.set_weights(model.get_weights())
    return again


def _plain(part: Any, custom_objects: Mapping[str, Any]) -> Any:
    """A part of a configuration with the same options, at any depth."""
    if isinstance(part, list | tuple):
        parts = [_plain(one, custom_objects) for one in part]
        return parts if isinstance(part, list) else tuple(parts)
    if not isinstance(part, dict):
        return part
    inside = {key: _plain(value, custom_objects) for key, value in part.items()}
    kind, options = inside.get("class_name"), inside.get("config")
    if not isinstance(kind, str) or not isinstance(options, dict):
        return inside
    if kind == "ReLU" and options.get("max_value") == 6 and not (options.get("negative_slope") or options.get("threshold")):
        kept = {key: options[key] for key in ("name", "trainable", "dtype") if key in options}
        return {**inside, "class_name": "Activation", "config": {**kept, "activation": "relu6"}}
    given = {key: one for key, one in options.items() if type(one) is int and one in (0, 1)}
    switches = _switches(kind, custom_objects) if given else set()
    return {**inside, "config": {**options, **{key: bool(one) for key, one in given.items() if key in switches}}}


def _switches(kind: str, custom_objects: Mapping[str, Any]) -> set[str]:
    """The options of a class of layers that are True or False."""
    import tf_keras

    made = custom_objects.get(kind, getattr(tf_keras.layers, kind, None))
    own = [vars(base)["__init__"] for base in inspect.getmro(made) if "__init__" in vars(base)] if inspect.isclass(made) else []
    parameters = [
        each for method in own if inspect.isfunction(method) for each in inspect.signature(method).parameters.values()
    ]
    return {each.name for each in parameters if isinstance(each.default, bool)}
