# SPDX-License-Identifier: Apache-2.0
"""Layers and functions of Keras 2 that stand for what only Keras 3 has, or for what hls4ml's reader does not know.

A model that was rebuilt in Keras 2 holds them, so a file of it is loaded with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError

#: layers that change a tensor during training only
TRAINING_ONLY = (
    "GaussianNoise", "GaussianDropout", "AlphaDropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "ActivityRegularization", "Identity", "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast",
    "RandomBrightness", "RandomCrop", "RandomHeight", "RandomWidth", "RandomHue", "RandomSaturation", "RandomSharpness",
    "RandomShear", "RandomGrayscale", "RandomColorJitter", "RandomColorDegeneration", "RandomErasing", "RandomGaussianBlur",
    "RandomPerspective", "RandomElasticTransform", "RandomInvert", "RandomPosterization", "AugMix", "RandAugment", "MixUp",
    "CutMix",
)  # fmt: skip


def own_classes() -> dict[str, Any]:
    """Return the classes by name. The first call adds Keras 3's functions to Keras 2's activations."""
    import tensorflow as tf
    import tf_keras

    class TrainingOnly(tf_keras.layers.Layer):  # type: ignore[misc]
        """A layer of the class `of`, which has no effect on a trained model's answers."""

        def __init__(self, of: str = "", **options: Any) -> None:
            super().__init__(**options)
            self.of = of

        def call(self, x: Any) -> Any:
            return tf.identity(x)

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "of": self.of}

    class CappedReLU(tf_keras.layers.Layer):  # type: ignore[misc]
        """A ReLU with a largest value."""

        def __init__(self, max_value: float = 6.0, **options: Any) -> None:
            super().__init__(**options)
            self.max_value = float(max_value)

        def call(self, x: Any) -> Any:
            return tf.minimum(tf.nn.relu(x), self.max_value)

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "max_value": self.max_value}

    _add_functions()
    return {kind.__name__: kind for kind in (TrainingOnly, CappedReLU, _einsum())}


def with_hard_sigmoid(made: type, name: str, options: Mapping[str, Any]) -> Any:
    """Return a layer of Keras 2 whose activation is Keras 3's hard_sigmoid, as a Sequential of several layers.

    Keras 3's is min(max(x / 6 + 0.5, 0), 1); that of Keras 2 and of hls4ml has the slope 0.2, so x is multiplied by 5/6 first.
    """
    from tf_keras import Sequential, layers

    alone = made is layers.Activation
    first = [] if alone else [made(name=name, **{**options, "activation": "linear"})]
    last = layers.Activation("hard_sigmoid", name=name if alone else f"{name}_hard_sigmoid")
    return Sequential([*first, layers.Rescaling(5 / 6, name=f"{name}_slope"), last], name=f"{name}_layers")


def _add_functions() -> None:
    """Register hard_silu as an activation of Keras 2, which does not write other functions' names into a configuration."""
    import tensorflow as tf
    from tf_keras.src import activations
    from tf_keras.utils import get_custom_objects

    def hard_silu(x: Any) -> Any:
        return x * tf.nn.relu6(x + 3.0) / 6.0

    for name in ("hard_silu", "hard_swish"):
        if not hasattr(activations, name):
            setattr(activations, name, hard_silu)
            get_custom_objects()[name] = hard_silu


def _einsum() -> Any:
    import tensorflow as tf
    import tf_keras

    class Einsum(tf_keras.layers.Layer):  # type: ignore[misc]
        """A sum of products of two tensors.

        Args:
            equation: as numpy's einsum has it, of the axes of a row, without the batch.
        """

        def __init__(self, equation: str = "a,a->a", **options: Any) -> None:
            super().__init__(**options)
            self.equation = equation

        def call(self, x: Any) -> Any:
            read, made = self.equation.split("->")
            first, second = read.split(",")
            return tf.einsum(f"...{first},...{second}->...{made}", *x)

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "equation": self.equation}

    return Einsum


def check_classes(config: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise UnsupportedLayerError for the first layer of a model's configuration whose class is not Keras'.

    Args:
        config: as a file of Keras 2 or 3 has it.
        known: other classes that can be loaded.
    """
    import tf_keras

    for layer in _layers(config):
        kind, name = str(layer.get("class_name", "")), (layer.get("config") or {}).get("name", layer.get("name", ""))
        module, registered = str(layer.get("module") or "keras"), str(layer.get("registered_name") or "")
        plain = module.startswith(("keras", "tf_keras", "tensorflow.")) and ">" not in registered
        if kind == "Lambda":
            raise UnsupportedLayerError(
                f"layer {name!r} (Lambda): it holds Python code, which cannot be converted; replace it by layers of Keras, or "
                "serve the model with the server's onnxruntime backend"
            )
        bare = "module" not in layer and not hasattr(tf_keras.layers, kind) and kind not in _MODELS
        if kind not in known and (not plain or bare):
            raise UnsupportedLayerError(
                f"layer {name!r} ({kind}): it is a class of your own, whose code is not in the file; replace it by layers of "
                "Keras that compute the same, or export the model to ONNX and serve it with the server's onnxruntime backend"
            )


#: classes of models and of operations, which are not layers
_MODELS = (
    "Functional",
    "Model",
    "Sequential",
    "TFOpLambda",
    "SlicingOpLambda",
    "ClassMethod",
    "InstanceMethod",
    "InstanceProperty",
)


def _layers(config: Any) -> Any:
    """Yield the configurations of layers in a model's, at any depth: in models, and in wrappers."""
    options = config.get("config") if isinstance(config, dict) else None
    inside = options.get("layers", []) if isinstance(options, dict) else options if isinstance(options, list) else []
    wrapped = [
        options[key] for key in ("layer", "backward_layer") if isinstance(options, dict) and isinstance(options.get(key), dict)
    ]
    for layer in (*inside, *wrapped):
        if isinstance(layer, dict):
            yield layer
            yield from _layers(layer)
