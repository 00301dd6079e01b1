# SPDX-License-Identifier: Apache-2.0
"""Makes hls4ml's configuration of a model: hls4ml's proposal, overridden by the YAML, with the types that hls4ml would lose."""

from __future__ import annotations

from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.description import DescriptionError, Side
from hypersonic.hls.frontend.settings import check_settings, spread_model_settings
from hypersonic.hls.frontend.trained import TrainedModel

#: the descriptions of all inputs, or of all outputs, in the model's order
Sides = tuple[Side, ...]


def configure(
    trained: TrainedModel, options: dict[str, Any], inputs: Sides, outputs: Sides, *, unrolled: bool
) -> dict[str, Any]:
    """Return hls4ml's configuration: its proposal, overridden by the YAML, and by the types of the inputs and outputs.

    Args:
        options: the YAML's `hls4ml` without IOType.
        unrolled: True for the da core, which sets Strategy Latency and ReuseFactor 1 everywhere.

    Raises:
        DescriptionError: For settings that hls4ml would ignore.
        UnsupportedLayerError: For a quantiser that it would drop.
    """
    check_settings(options, trained.config)
    named = {layer: settings or {} for layer, settings in options.get("LayerName", {}).items()}
    config: dict[str, Any] = _merged(trained.config, {**options, "LayerName": named})
    config["LayerName"] = layers = spread_model_settings(options, config["LayerName"])
    unknown = named.keys() - trained.config.get("LayerName", {}).keys()
    if unknown:
        raise DescriptionError(f"hls4ml.LayerName names {sorted(unknown)}, the model has {sorted(trained.config['LayerName'])}")
    for layer, settings in named.items():
        if f"{layer}_linear" not in named:
            _pin_linear(layers, layer, settings)
    for side, tensor in (*zip(inputs, trained.inputs, strict=True), *zip(outputs, trained.outputs, strict=True)):
        if side.fixed:
            _pin(layers, tensor.layer, str(side.fixed))
            _pin_linear(layers, tensor.layer, layers[tensor.layer])
    for layer, before in reversed(trained.linear):
        _pin_before(layers, layer, before)
    _check_branches(trained, layers)
    for settings in (config["Model"], *layers.values()):
        # hls4ml 1.3.0's da strategy needs an older da4ml than the core does; all strategies compute the same bits
        if str(settings.get("Strategy", "")).lower() in ("distributed_arithmetic", "da"):
            settings["Strategy"] = "Latency"
        if unrolled and "Strategy" in settings:
            settings.update(Strategy="Latency", ReuseFactor=1)
    return config


def _pin(layers: dict[str, Any], layer: str, precision: str) -> None:
    options = layers.setdefault(layer, {})
    previous = options.get("Precision")
    options["Precision"] = {**(previous if isinstance(previous, dict) else {}), "result": precision}


def _pin_linear(layers: dict[str, Any], layer: str, options: Any) -> None:
    """Set the type of `<layer>_linear` too: hls4ml adds this linear activation to every Dense, and only its type counts."""
    precision = options.get("Precision") if isinstance(options, dict) else None
    if isinstance(precision, dict) and "result" in precision and f"{layer}_linear" in layers:
        _pin(layers, f"{layer}_linear", precision["result"])


def _pin_before(layers: dict[str, Any], layer: str, before: str) -> None:
    """Give a linear quantiser's type to the layer before it, if that layer's type is automatic.

    hls4ml 1.3.0 would remove the quantiser together with its type.
    """
    result = asked_result(layers, layer)
    if result != "auto" and asked_result(layers, before) == "auto":
        _pin(layers, before, result)
        if f"{before}_linear" in layers:
            _pin(layers, f"{before}_linear", result)


def _check_branches(trained: TrainedModel, layers: dict[str, Any]) -> None:
    for layer, before in trained.branching:
        if asked_result(layers, layer) != "auto" and asked_result(layers, before) == "auto":
            raise UnsupportedLayerError(
                f"layer {layer!r}: it quantises one branch after layer {before!r}, whose type is automatic, and hls4ml would "
                f"leave it out; give {before!r} a result precision of its own"
            )


def asked_result(layers: dict[str, Any], layer: str) -> str:
    """Return the type that the configuration gives a layer's result, or "auto".

    Args:
        layers: its LayerName.
    """
    precision = layers.get(layer, {}).get("Precision", "auto")
    return str(precision.get("result", "auto") if isinstance(precision, dict) else precision)


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **over, **{key: _merged(base[key], over[key]) for key in base.keys() & over.keys()}}
    return over
