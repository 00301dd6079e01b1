# SPDX-License-Identifier: Apache-2.0
"""Refuses layers that hls4ml 1.3.0 silently converts wrongly, or to C++ that does not compile or aborts the process.

The checks apply to every kind of core. They read the ModelGraph after hls4ml's optimisers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypersonic.hls.errors import Edit, UnsupportedLayerError, layer_place
from hypersonic.hls.frontend.passes import gated
from hypersonic.hls.frontend.reuse import inputs_of
from hypersonic.hls.frontend.softmax.faults import check_softmax, faults
from hypersonic.hls.model_graph import check_arrays, check_merge, is_streamed, number_of, strategy_of

#: widest ap_fixed of Vitis (AP_INT_MAX_W)
_MAX_WIDTH = 1024

#: layers without any C++ of their own
_NO_CODE = ("Input", "InputLayer", "Reshape")

#: layers that read a flattened tensor word by word in io_stream, as they should
_GATHERING = (*_NO_CODE, "Clone", "Concatenate", "Dense")

#: the functions in nnet_activation.h, with those of gated.py, by an Activation's names for them
_ACTIVATIONS = frozenset(
    [
        "linear",
        "relu",
        "relu1",
        "relu6",
        "sigmoid",
        "tanh",
        "softplus",
        "softsign",
        "elu",
        "selu",
        "hard_sigmoid",
        "hard_tanh",
        "binary_tanh",
        "ternary_tanh",
        *gated.SPANS,
    ]
)

#: the functions in nnet_recr_activations.h
_RECURRENT_ACTIVATIONS = ("relu", "sigmoid", "tanh")

_CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv2DBatchnorm", "PointwiseConv1D", "PointwiseConv2D")
_DEPTHWISE = ("DepthwiseConv1D", "DepthwiseConv2D")


def check_graph(graph: Any, *, inexact_softmax: bool = False) -> None:
    """Raise UnsupportedLayerError, with the layers' names, for all layers of a ModelGraph that hls4ml converts wrongly.

    Args:
        inexact_softmax: allow a softmax whose probabilities are wrong, but not one that the C++ cannot compute.
    """
    found: list[UnsupportedLayerError] = []
    for layer in graph.get_layers():
        try:
            _check_layer(layer, inexact_softmax)
        except UnsupportedLayerError as error:
            found.append(error)
    if found:
        raise UnsupportedLayerError(joined(map(str, found)), tuple(edit for error in found for edit in error.edits))
    _check_dimensions(graph)


def joined(sentences: Iterable[str]) -> str:
    """Join several refusals into one text, without repeats."""
    return "; and ".join(dict.fromkeys(sentences))


def _check_layer(layer: Any, inexact_softmax: bool) -> None:
    _check_widths(layer)
    _check_code(layer)
    if is_streamed(layer):
        _check_words(layer)
    for check in _CHECKS.get(layer.class_name, ()):
        if inexact_softmax and check is check_softmax:
            list(faults(layer))
        else:
            check(layer)


def _refused(layer: Any, why: str, remedy: str, *edits: Edit) -> UnsupportedLayerError:
    # in io_stream hls4ml renames a Reshape to repack_<name>
    return UnsupportedLayerError(f"layer {layer.name.removeprefix('repack_')!r} ({layer.class_name}): {why}; {remedy}", edits)


#: the change of the YAML that takes a whole row at once
_PARALLEL = Edit(("hls4ml", "IOType"), None)


def _check_widths(layer: Any) -> None:
    for name, kind in layer.types.items():
        width = int(getattr(kind.precision, "width", 0) or 0)
        if width > _MAX_WIDTH:
            raise _refused(
                layer,
                f"{name.removesuffix('_t')} is {kind.precision}, {width} bits, and ap_fixed has at most {_MAX_WIDTH}",
                f"give it a narrower type under hls4ml.LayerName.{layer.name}.Precision, or Model.Precision.maximum",
            )


def _check_code(layer: Any) -> None:
    """Refuse layers that hls4ml's optimisers should have replaced and did not, such as a convolution with several groups."""
    if layer.class_name not in _NO_CODE and not layer.get_attr("function_cpp"):
        raise _refused(layer, "hls4ml has no C++ for it", "build it from other layers")


def _check_words(layer: Any) -> None:
    """Refuse a layer that reads a flattened tensor as one word of a stream: Flatten does not change the words, one per pixel.

    Refuse a Repack, too, between words of which neither size divides the other: nnet_stream.h's repack_stream loses elements.
    """
    for tensor in layer.inputs if layer.class_name not in _GATHERING else ():
        variable = layer.get_input_variable(tensor)
        word, size = int(getattr(variable.type, "n_elem", variable.shape[-1])), int(variable.shape[-1])
        out = int(layer.get_output_variable().shape[-1])
        if layer.class_name == "Repack":
            if word % out and out % word:
                raise _refused(
                    layer,
                    f"it repacks words of {word} numbers into words of {out} in io_stream, where hls4ml's C++ loses numbers",
                    "take a last dimension that is a multiple or a divisor of the one before, or IOType io_parallel",
                    _PARALLEL,
                )
        elif word != size:
            raise _refused(
                layer,
                f"it reads {size} numbers from a Flatten, which arrive in words of {word} in io_stream, and hls4ml's C++ takes "
                f"each word for all {size}",
                "put the Flatten after it, or use IOType io_parallel",
                _PARALLEL,
            )


def _check_dimensions(graph: Any) -> None:
    """Refuse a graph with both kinds of depthwise convolution.

    nnet_sepconv1d_latency.h and nnet_sepconv2d_latency.h have the same include guard, so C++ that needs both does not compile.
    """
    kinds = {layer.class_name: layer for layer in graph.get_layers() if layer.class_name in _DEPTHWISE}
    if len(kinds) > 1:
        raise _refused(
            kinds[_DEPTHWISE[0]],
            f"layer {kinds[_DEPTHWISE[1]].name!r} is a DepthwiseConv2D, and hls4ml's C++ of a model with both does not compile",
            "write the one-dimensional convolution as a two-dimensional one with height 1",
        )


def _check_dense(layer: Any) -> None:
    """Refuse unsupported reuse factors, which only a graph that did not pass through frontend/passes/'s flow can have."""
    n_in, reuse = inputs_of(layer), number_of(layer, "reuse_factor", 1)
    if strategy_of(layer) == "resource" and reuse > n_in and reuse % n_in:
        raise _refused(
            layer,
            f"ReuseFactor is {reuse} with Strategy Resource and n_in {n_in}, for which hls4ml has no DenseResource",
            f"take a reuse factor up to {n_in} or a multiple of it",
            Edit(layer_place(layer.name, "ReuseFactor"), n_in),
        )


def _check_convolution(layer: Any) -> None:
    """Refuse reuse factors that do not divide n_in.

    Above n_in, nnet_conv2d_resource.h reads past its buffers, and nnet_conv1d_resource.h aborts the process.
    """
    n_in, reuse = inputs_of(layer), number_of(layer, "reuse_factor", 1)
    if not is_streamed(layer) and strategy_of(layer) == "resource" and n_in % reuse:
        raise _refused(
            layer,
            f"ReuseFactor is {reuse} with Strategy Resource in io_parallel, where hls4ml's C++ is correct only for divisors of "
            f"{n_in}",
            "take one of them, Strategy Latency, or IOType io_stream",
            Edit(layer_place(layer.name, "ReuseFactor"), max(each for each in range(1, reuse + 1) if n_in % each == 0)),
        )


def _check_stride(layer: Any) -> None:
    """Refuse a kernel of height 1 with a vertical stride: nnet_conv2d_stream.h ignores that stride."""
    down = number_of(layer, "stride_height", 1)
    if is_streamed(layer) and number_of(layer, "filt_height", 1) == 1 < down and layer.class_name.endswith("2D"):
        raise _refused(
            layer,
            f"its kernel has height 1 and a vertical stride of {down}, which hls4ml's io_stream ignores",
            "use IOType io_parallel",
            _PARALLEL,
        )


def _check_depthwise(layer: Any) -> None:
    if not is_streamed(layer) and strategy_of(layer) == "resource":
        raise _refused(
            layer,
            "Strategy is Resource, with which hls4ml's C++ for io_parallel aborts the process",
            f"write Strategy: Latency under hls4ml.LayerName.{layer.name}, or use IOType io_stream",
            Edit(layer_place(layer.name, "Strategy"), "Latency"),
        )
    channels, filters = number_of(layer, "n_chan"), number_of(layer, "n_filt")
    if channels != filters:
        raise _refused(
            layer,
            f"its depth multiplier is {filters / max(channels, 1):g}, with which hls4ml's C++ aborts the process; expected 1",
            "use a Conv layer",
        )


def _check_format(layer: Any) -> None:
    for axis in ("", "_height", "_width"):
        if number_of(layer, f"dilation{axis}", 1) != 1:
            raise _refused(layer, f"dilation is {layer.get_attr(f'dilation{axis}')}, which hls4ml's C++ ignores", "expected 1")
    if str(layer.get_attr("data_format", "channels_last")) != "channels_last":
        raise _refused(layer, "data_format is channels_first, for which hls4ml has no C++", "expected channels_last")


def _check_pool(layer: Any) -> None:
    """Refuse what nnet_pooling_stream.h asserts against: padding, and strides other than the pool's size (2D)."""
    if not is_streamed(layer):
        return
    padding = [number_of(layer, f"pad_{side}") for side in ("top", "bottom", "left", "right")]
    sizes = [tuple(number_of(layer, f"{what}_{axis}", 1) for axis in ("height", "width")) for what in ("pool", "stride")]
    if any(padding) or (layer.class_name.endswith("2D") and sizes[0] != sizes[1]):
        raise _refused(
            layer,
            f"pool {sizes[0]}, stride {sizes[1]}, padding {padding} (top, bottom, left, right) in io_stream, where hls4ml's "
            "C++ aborts the process unless the stride is the pool and there is no padding",
            "use IOType io_parallel",
            _PARALLEL,
        )


def _check_activation(layer: Any) -> None:
    function = str(layer.get_attr("activation")).lower()
    if function not in _ACTIVATIONS:
        raise _refused(
            layer, f"hls4ml has no C++ for the activation {function}", f"it has {', '.join(sorted(_ACTIVATIONS))} and softmax"
        )


def _check_recurrence(layer: Any) -> None:
    """Refuse activations that nnet_recr_activations.h does not have, and a GRU that resets its state before the product."""
    for direction in ("", "forward_", "backward_"):
        for option in ("activation", "recurrent_activation"):
            function = str(layer.get_attr(f"{direction}{option}", "tanh")).lower()
            if function not in _RECURRENT_ACTIVATIONS:
                raise _refused(
                    layer,
                    f"its {direction}{option} is {function}, for which hls4ml has no C++ there",
                    f"it has {', '.join(_RECURRENT_ACTIVATIONS)}",
                )
        if str(layer.get_attr(f"{direction}apply_reset_gate", "after")) != "after":
            raise _refused(layer, "reset_after is False, which hls4ml's C++ ignores", "expected True")


def _check_resize(layer: Any) -> None:
    if str(layer.get_attr("algorithm")) != "nearest":
        raise _refused(layer, f"it resizes by {layer.get_attr('algorithm')}, for which hls4ml has no C++", "expected nearest")


def _check_normalization(layer: Any) -> None:
    """Refuse io_stream, and a table beyond a variance of 1 that has no whole number of entries for each unit of variance."""
    check_arrays(layer)
    size, power = int(layer.get_attr("table_size")), int(layer.get_attr("table_range_power2"))
    if power < 0 and (size & (size - 1) or size >> -power == 0):
        raise _refused(
            layer,
            f"its TableRangePower2 is {power}, a range of {2**-power}, with a table of {size}",
            f"expected a power of two, {2**-power} or more, for TableSize",
            Edit(layer_place(layer.name, "TableSize"), 2 ** max(10, -power)),
        )


_Check = Callable[[Any], object]
_CHECKS: dict[str, tuple[_Check, ...]] = {
    "Dense": (_check_dense,),
    **dict.fromkeys(_CONVOLUTIONS[:3], (_check_format, _check_convolution, _check_dense, _check_stride)),
    **dict.fromkeys(_CONVOLUTIONS[3:], (_check_format, _check_convolution, _check_dense)),
    **dict.fromkeys(_DEPTHWISE, (_check_format, _check_depthwise, _check_stride)),
    **dict.fromkeys(("Pooling1D", "Pooling2D"), (_check_pool,)),
    "Activation": (_check_activation,),
    "Resize": (_check_resize,),
    "LayerNormalization": (_check_normalization,),
    **dict.fromkeys(("LSTM", "GRU", "Bidirectional"), (_check_recurrence,)),
    "Merge": (check_merge,),
    "Softmax": (check_softmax,),
}
