# SPDX-License-Identifier: Apache-2.0
"""Checks the YAML's hls4ml settings: hls4ml silently ignores keys that it does not know, and reads some in one place only.

hls4ml.config_from_keras_model(granularity="name") gives every layer by name a ReuseFactor of 1, a ParallelizationFactor of 1
and precisions "auto", which override anything under Model or LayerType.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hypersonic.hls.fixed import Overflow, Rounding
from hypersonic.hls.frontend.checks import integer
from hypersonic.hls.frontend.description import DescriptionError
from hypersonic.hls.near import nearest
from hypersonic.hls.network.base import WeightsIn

Settings = Mapping[str, Any]

_MODEL = frozenset(
    [
        "Precision",
        "ReuseFactor",
        "Strategy",
        "TargetCycles",
        "Compression",
        "ConvImplementation",
        "ParallelizationFactor",
        "TraceOutput",
        "PipelineStyle",
        "PipelineInterval",
        "BramFactor",
        "WeightsIn",
        "softmax",
    ]
)
#: keys that hls4ml reads for every layer, whether it proposes them or not
_LAYER = frozenset({"Precision", "ReuseFactor", "Strategy", "Trace", "TargetCycles", "Compression", "WeightsIn"})
_EXACT = _LAYER | {"ParallelizationFactor", "ConvImplementation"}
#: the keys of Model that hls4ml's proposal would override in every layer
_SPREAD = ("ReuseFactor", "ParallelizationFactor", "ConvImplementation")
_WHOLE = ("ReuseFactor", "ParallelizationFactor", "TableSize", "TargetCycles", "table_size", "exp_table_size", "inv_table_size")

#: limits of TableRangePower2: 16,384 values have one per unit of variance; an index into 1,024 values still fits an int
_POWERS = (-14, 20)

#: types of activations that hls4ml reads as keys beside Precision, not inside it
_BESIDE = ("table", "exp_table", "inv_table", "inv_inp", "inp_norm")
_SOFTMAX = ("exp_table_t", "inv_table_t", "inv_inp_t", "inp_norm_t", "exp_table_size", "inv_table_size")

#: hls4ml silently treats any other value as Latency
_STRATEGIES = (
    "Latency",
    "latency",
    "Resource",
    "resource",
    "ResourceUnrolled",
    "resource_unrolled",
    "distributed_arithmetic",
    "da",
)

#: values of WeightsIn, this project's own key: block RAM, UltraRAM, the card's DDR or HBM (network/base.py)
_PLACES = tuple(place for place in WeightsIn if place is not WeightsIn.LUT)

_MODES = ["|".join(mode.removeprefix("AP_") for mode in modes) for modes in (Rounding, Overflow)]
_TYPE = re.compile(
    r"auto|float|double|(ap_float|std_float|ac_\w+)<[^<>]+>|(ap_)?u?int<\s*\d+\s*>|(ap_)?u?fixed<\s*\d+\s*,\s*-?\d+\s*"
    rf"(,\s*(AP_)?({_MODES[0]})\s*(,\s*(AP_)?({_MODES[1]})\s*(,\s*\d+\s*)?)?)?>"
)


def check_settings(options: Settings, proposed: Settings) -> None:
    """Refuse settings that hls4ml would silently ignore.

    Args:
        options: the YAML's `hls4ml`.
        proposed: hls4ml's own configuration, granularity "name".

    Raises:
        DescriptionError: Which gives the key, the known ones, and the right place for it.
    """
    _check_model(options.get("Model") or {})
    if options.get("LayerType"):
        raise DescriptionError(
            f"hls4ml.LayerType names {', '.join(map(str, options['LayerType']))}: hls4ml's settings by name override it, so it "
            "has no effect; set Model for all layers, or LayerName for each"
        )
    layers = proposed.get("LayerName", {})
    _check_names(layers)
    for layer, settings in (options.get("LayerName") or {}).items():
        if layer in layers:
            _check_layer(layer, settings or {}, layers[layer])


def spread_model_settings(options: Settings, layers: Settings) -> dict[str, dict[str, Any]]:
    """Return LayerName with Model's settings copied into every layer for which the YAML does not set them by name.

    Args:
        options: the YAML's `hls4ml`.
        layers: LayerName of the configuration, with the YAML's settings already in it.
    """
    model, named = options.get("Model") or {}, options.get("LayerName") or {}
    return {layer: _spread(settings, model, named.get(layer) or {}) for layer, settings in layers.items()}


def _spread(settings: Settings, model: Settings, layer_settings: Settings) -> dict[str, Any]:
    whole = {key: model[key] for key in _SPREAD if key in model and key in settings and key not in layer_settings}
    if "WeightsIn" in model:  # not one of hls4ml's keys, but it becomes the layer's attribute like them
        whole.setdefault("WeightsIn", layer_settings.get("WeightsIn", model["WeightsIn"]))
    return {**settings, **whole, **_spread_types(settings, model, layer_settings)}


def _spread_types(settings: Settings, model: Settings, layer_settings: Settings) -> dict[str, Any]:
    types, wanted, own = settings.get("Precision"), model.get("Precision"), layer_settings.get("Precision", {})
    if not isinstance(types, dict) or not isinstance(wanted, dict) or not isinstance(own, dict):
        return {}
    common = {name for name in types.keys() & wanted.keys() - own.keys() if types[name] == "auto"}
    return {"Precision": {**types, **{name: wanted[name] for name in common}}}


def _check_model(model: Settings) -> None:
    _check_known("hls4ml.Model", model, _MODEL)
    if "BramFactor" in model:
        raise DescriptionError(
            f"hls4ml.Model.BramFactor is {model['BramFactor']!r}, with which hls4ml makes weights an input of the kernel; "
            "leave it out"
        )
    if model.get("softmax", "exact") != "exact":
        raise DescriptionError(f"hls4ml.Model.softmax is {model['softmax']!r}, expected 'exact', or leave it out")
    _check_values("hls4ml.Model", model)


def _check_names(layers: Collection[str]) -> None:
    """Refuse names that differ only in case: hls4ml stores its settings by the lower-case name."""
    seen: dict[str, str] = {}
    for layer in layers:
        other = seen.setdefault(layer.lower(), layer)
        if other != layer:
            raise DescriptionError(
                f"layers {other!r} and {layer!r} differ only in case, and hls4ml confuses their settings; rename one"
            )


def _check_layer(layer: str, settings: Settings, proposed: Settings) -> None:
    where = f"hls4ml.LayerName.{layer}"
    types = proposed.get("Precision") or {}
    if not isinstance(types, dict):
        types = {}
    _check_precisions(where, settings.get("Precision"), types)
    known = {*_LAYER, *(proposed.keys() - _split(types)), *_unproposed(types)}
    # an attribute's name may be in CamelCase or snake_case; the keys in _EXACT are read in CamelCase only
    _check_known(where, settings, known, {re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower() for word in known - _EXACT})
    _check_values(where, settings)


def _split(types: Settings) -> frozenset[str]:
    """Keys that hls4ml proposes for a separable convolution but no longer reads once it has split it into two layers."""
    return frozenset({"DepthwiseReuseFactor", "PointwiseReuseFactor"}) if "depthwise" in types else frozenset()


def _unproposed(types: Settings) -> Iterator[str]:
    """Keys that hls4ml reads for a layer with these types, although it does not propose them."""
    if types.keys() & {"weight", "depthwise"}:
        yield "ParallelizationFactor"
    if "table" in types:
        yield "table_t"
    if "exp_table" in types:
        yield from _SOFTMAX


def _check_precisions(where: str, precision: Any, types: Settings) -> None:
    for name in precision if isinstance(precision, dict) else ():
        if name in _BESIDE and (name in types or (name == "inp_norm" and "exp_table" in types)):
            raise DescriptionError(
                f"{where}.Precision.{name}: hls4ml does not read {name} there; write {name}_t: '{precision[name]}' beside "
                "Precision"
            )
        if name in ("slope", "shift") and name in types:
            raise DescriptionError(f"{where}.Precision.{name}: hls4ml 1.3.0 sets this type itself; leave it out")
        _check_known(f"{where}.Precision", {name: None}, {"default", *(types.keys() - {*_BESIDE, "slope", "shift"})})


def _check_known(where: str, settings: Settings, known: Collection[str], also: Collection[str] = ()) -> None:
    for key in settings:
        if key in known or key in also:
            continue
        text = str(key)
        near = {word.lower().replace("_", ""): word for word in known}
        close = nearest(text.lower().replace("_", ""), near)
        meant = f", did you mean {near[close]}" if close else ""
        raise DescriptionError(
            f"{where}: hls4ml does not read {text!r} there and would ignore it{meant}; it reads {', '.join(sorted(known))}"
        )


def _check_values(where: str, settings: Settings) -> None:
    for key in _WHOLE:
        value = settings.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise DescriptionError(f"{where}.{key} is {value!r}, expected an integer, 1 or more")
    if (power := settings.get("TableRangePower2")) is not None:
        integer(f"{where}.TableRangePower2", power, *_POWERS)
    if (place := settings.get("WeightsIn", "BRAM")) not in _PLACES:
        raise DescriptionError(f"{where}.WeightsIn is {place!r}, expected {', '.join(_PLACES)}")
    strategy = settings.get("Strategy", "Latency")
    if strategy not in _STRATEGIES:
        raise DescriptionError(
            f"{where}.Strategy is {strategy!r}, which hls4ml treats as Latency; expected {', '.join(_STRATEGIES)}"
        )
    precision = settings.get("Precision")
    types = precision if isinstance(precision, dict) else {"": precision} if precision else {}
    types = {f"Precision.{name}".rstrip("."): text for name, text in types.items()}
    types |= {key: text for key, text in settings.items() if str(key).endswith("_t")}
    for key, text in types.items():
        _check_type(f"{where}.{key}", text)


def _check_type(where: str, text: Any) -> None:
    if not isinstance(text, str) or not _TYPE.fullmatch(text):
        raise DescriptionError(f"{where} is {text!r}, expected a type of hls4ml's, for example ap_fixed<16,6,AP_RND,AP_SAT>")
