# SPDX-License-Identifier: Apache-2.0
"""Numbers too wide for a module, or for a table of hls4ml's, are refused by the layer's name before anything is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow
from hypersonic.hls.network.attributes import constants
from hypersonic.hls.network.base import Layer, Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.layernorm import LayerNorm
from hypersonic.hls.network.layers.map import Map, MapFunction, linear
from hypersonic.hls.network.layers.matmul import Matmul
from hypersonic.hls.network.layers.softmax import Softmax, SoftmaxKind
from hypersonic.hls.network.layers.table import Table
from hypersonic.hls.network.registry import ACTIVATIONS, READERS
from hypersonic.hls.network.tables import SELU_SCALE, exp_values, inverse_values
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.registry import layer_plan
from hypersonic.hls.rf.stages.matmul import in_words
from tests.hls.rf.fit.networks import Net
from tests.hls.rf.lint_networks import clean, single

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

Y = fixed_point(16, 10)


def tensor(name: str, kind: FixedPoint) -> Tensor:
    return Tensor(name, (2,), kind)


def table(x: FixedPoint, scale: Constants, *, negative_only: bool = True) -> Table:
    values = Constants(np.arange(8), Y.fraction)
    return Table("curve", tensor("x", x), tensor("y", Y), values, 3, negative_only, scale)


def softmax(x: FixedPoint, kind: SoftmaxKind, normalised: FixedPoint, accum: FixedPoint, inverse: FixedPoint) -> Softmax:
    eight = fixed_point(8, 4)
    exp, inv = exp_values(eight, 4, fixed_point(18, 8), negative=True), inverse_values(eight, 4, fixed_point(18, 8))
    return Softmax("soft", tensor("x", x), tensor("y", Y), kind, normalised, accum, inverse, exp, inv)


ONE = Constants(np.array([1]), 0)
STABLE, NARROW = SoftmaxKind.STABLE, fixed_point(8, 4)

WIDE = [
    (table(fixed_point(120, 100), SELU_SCALE), "layer 'curve': a product of 138 bits in its rf_table, expected up to 128"),
    (table(fixed_point(126, 60), ONE), "layer 'curve': a product of 129 bits in its rf_table, expected up to 128"),
    (table(fixed_point(120, 118), ONE), "layer 'curve': an index's fraction of 121 bits in its rf_table, expected up to 120"),
    (
        table(fixed_point(120, 118), ONE, negative_only=False),
        "layer 'curve': an index's fraction of 121 bits in its rf_table, expected up to 120",
    ),
    (table(fixed_point(8, 4), Constants(np.array([1 << 40]), 30)), "layer 'curve': GAIN of its rf_table is 1099511627776, "),
    (
        softmax(fixed_point(128, 60), STABLE, NARROW, Y, NARROW),
        "layer 'soft': a difference of 129 bits in its rf_softmax, expected up to 128",
    ),
    (
        softmax(fixed_point(20, 10), STABLE, fixed_point(140, 130), Y, NARROW),
        "layer 'soft': a normalised input of 140 bits in its rf_softmax, expected up to 128",
    ),
    (
        softmax(fixed_point(20, 10), SoftmaxKind.LATENCY, NARROW, Y, fixed_point(130, 120)),
        "layer 'soft': an inverse's input of 130 bits in its rf_softmax, expected up to 128",
    ),
    (
        linear("cast", tensor("x", fixed_point(8, 300)), tensor("y", fixed_point(8, -150))),
        "layer 'cast': a shift of 450 bits in its rf_map, expected up to 400",
    ),
    (
        softmax(fixed_point(20, 600), STABLE, NARROW, Y, NARROW),
        "layer 'soft': a shift of 596 bits in its rf_softmax, expected up to 400",
    ),
]


@pytest.mark.parametrize(("layer", "words"), WIDE, ids=[words.split(":")[1][:28] for _, words in WIDE])
def test_what_a_module_does_not_hold_is_refused_by_the_layers_name(layer: Layer, words: str) -> None:
    with pytest.raises(UnsupportedLayerError) as refusal:
        plan(Network("net", layer.inputs, (layer.y,), (layer,)))
    assert str(refusal.value).startswith(words)


@pytest.mark.parametrize(
    "layer",
    [
        table(fixed_point(125, 60), ONE),
        table(fixed_point(110, 100), SELU_SCALE),
        table(fixed_point(120, 117), ONE, negative_only=False),
        softmax(fixed_point(127, 60), STABLE, NARROW, Y, NARROW),
        softmax(fixed_point(20, 10), STABLE, NARROW, fixed_point(100, 80), NARROW),
        linear("cast", tensor("x", fixed_point(8, 250)), tensor("y", fixed_point(8, -150))),
        Map(
            "leaky",
            tensor("x", NARROW),
            tensor("y", Y),
            MapFunction.LEAKY,
            Constants(np.array([3]), -2),
            Constants(np.zeros(0, np.int64), 0),
        ),
    ],
    ids=["elu", "selu", "sigmoid", "softmax", "sums", "cast", "leaky"],
)
def test_what_it_holds_at_most_is_a_core(layer: Layer, tmp_path: Path) -> None:
    source = linear("widen", tensor("source", NARROW), layer.inputs[0])
    clean(Network("net", source.inputs, (layer.y,), (source, layer)), "net", tmp_path)


# ---------------------------------------------------------------- in hls4ml's graph
class FixedPrecisionType:
    """As hls4ml's."""

    saturation_bits = 0

    def __init__(self, width: int, integer: int, rounding: str = "TRN", saturation: str = "WRAP") -> None:
        self.width, self.integer, self.signed = width, integer, True
        self.rounding_mode, self.saturation_mode = rounding, saturation

    def __str__(self) -> str:
        return f"fixed<{self.width},{self.integer}>"


def graph_layer(io_type: str = "io_parallel", **attributes: Any) -> Any:
    """A layer of a ModelGraph."""
    config = SimpleNamespace(get_config_value=lambda _: io_type, get_reuse_factor=lambda _: 2)
    read = {"table_size": 1024, **attributes}
    return SimpleNamespace(
        name="act", class_name="Activation", get_attr=lambda name, default=None: read.get(name, default),
        model=SimpleNamespace(config=config),
    )  # fmt: skip


def kind(width: int, integer: int, *modes: str) -> Any:
    return SimpleNamespace(precision=FixedPrecisionType(width, integer, *modes), name="some_t")


@pytest.mark.parametrize(
    ("layer", "x", "words"),
    [
        (graph_layer(activation="tanh", table_t=kind(80, 10)), NARROW, "layer 'act': table_t: ap_fixed<80,10"),
        (
            graph_layer("io_stream", activation="selu", table_t=kind(18, 8)),
            fixed_point(70, 60),
            "layer 'act': its input: ap_fixed<70,10",
        ),
        (
            graph_layer(activation="leakyrelu", activ_param=0.5, param_t=kind(90, 2)),
            NARROW,
            "layer 'act': param_t: ap_fixed<90,2",
        ),
    ],
    ids=["table", "selu", "parameter"],
)
def test_a_type_too_wide_for_a_table_or_a_parameter_is_refused_by_the_layers_name(
    layer: Any, x: FixedPoint, words: str
) -> None:
    with pytest.raises(
        UnsupportedLayerError, match=r"width is .*, expected 1 to 62; give it fewer bits in the model's YAML"
    ) as refusal:
        ACTIVATIONS[layer.get_attr("activation")](layer, tensor("x", x), tensor("y", Y))
    assert str(refusal.value).startswith(words)


@pytest.mark.parametrize("name", ["exp_table_t", "inv_table_t"])
def test_a_type_too_wide_for_softmaxs_tables_is_refused_by_the_layers_name(name: str) -> None:
    types = {"exp_table_t": kind(18, 8), "inv_table_t": kind(18, 8), "accum_t": kind(18, 8), "inv_inp_t": kind(18, 8)}
    layer = graph_layer(activation="softmax", implementation="latency", **types | {name: kind(70, 10)})
    with pytest.raises(UnsupportedLayerError, match=rf"layer 'act': {name}: .*width is 70, expected 1 to 62"):
        READERS["Softmax"](layer, tensor("x", fixed_point(12, 6)), tensor("y", Y))


def test_weights_too_wide_for_exact_integers_are_refused_by_the_layers_name() -> None:
    variable = SimpleNamespace(type=SimpleNamespace(precision=FixedPrecisionType(80, 10)), data=np.array([0.5]))
    layer = SimpleNamespace(name="act", weights={"weight": _Written(variable)})
    with pytest.raises(UnsupportedLayerError, match=r"layer 'act': weight: .*width is 80, expected 1 to 62"):
        constants(layer, "weight")


class _Written:
    """A weight as hls4ml writes it: it iterates over texts."""

    def __init__(self, variable: Any) -> None:
        self.type, self.data = variable.type, variable.data

    def __iter__(self) -> Any:
        return iter(["0.5"])


def test_a_tables_numbers_are_exact_however_wide_the_result_and_the_parameter_are() -> None:
    wide = tensor("y", fixed_point(100, 80))
    layer = graph_layer(activation="elu", activ_param=0.75, table_t=kind(60, 10), param_t=kind(40, 2))
    x = tensor("x", NARROW)
    read = ACTIVATIONS["elu"](layer, x, wide)
    assert isinstance(read, Table)
    narrow = ACTIVATIONS["elu"](
        graph_layer(activation="elu", activ_param=0.75, table_t=kind(60, 10), param_t=kind(4, 2)), x, wide
    )
    assert isinstance(narrow, Table)
    assert [int(raw) for raw in read.values.raw] == [int(raw) for raw in narrow.values.raw]
    assert min(int(raw) for raw in read.values.raw) < -(1 << 78)
    assert plan(single(read)).stages


def test_a_layer_normalisation_whose_sums_saturate_to_zero_is_refused() -> None:
    layer = Net(2, 4).layernorm().layers[0]
    assert isinstance(layer, LayerNorm)
    zero = replace(layer, accum=replace(layer.accum, overflow=Overflow.SAT_ZERO))
    with pytest.raises(
        UnsupportedLayerError, match=r"layer 'l0': accum is ap_fixed<14,4,.*>, which rf_layernorm lacks: use AP_SAT"
    ):
        plan(single(zero))


def test_dense_layers_keep_their_limit() -> None:
    x = tensor("x", fixed_point(120, 60))
    layer = Dense("d", x, tensor("y", Y), Constants(np.full((2, 2), 1 << 10), 4), Constants(np.zeros(2, np.int64), 0), Y, 1, 1)
    with pytest.raises(UnsupportedLayerError, match="layer 'd': a product of 132 bits in its rf_mac, expected up to 128"):
        plan(single(layer))


# ---------------------------------------------------------------- products of two tensors
EINSUM = {
    "n_inplace": 1, "n_free0": 3, "n_free1": 2, "n_contract": 4, "inp0_shape": (3, 4), "inp1_shape": (2, 4),
    "inp0_tpose_idxs": (0, 1), "inp1_tpose_idxs": (0, 1), "out_interpert_shape": (3, 2), "out_tpose_idxs": (0, 1),
    "strategy": "latency", "reuse_factor": 2, "accum_t": kind(30, 21),
}  # fmt: skip


def einsum(io_type: str = "io_parallel", **options: Any) -> Any:
    """hls4ml's layer of ac,bc->ab, read: products with 9 fraction bits, sums up to 2**14."""
    sides = Tensor("a", (3, 4), fixed_point(8, 5)), Tensor("b", (2, 4), fixed_point(6, 4)), Tensor("y", (3, 2), Y)
    steps = READERS["Einsum"](graph_layer(io_type, **{**EINSUM, **options}), *sides)
    for step in steps if isinstance(steps, tuple) else (steps,):
        layer_plan(step).check(step)
    return steps


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "Resource"}, "its Strategy is Resource, expected Latency"),
        ({"io_type": "io_stream"}, "hls4ml 1.3.0 has no C\\+\\+ for it in io_stream: use io_parallel"),
        ({"accum_t": kind(30, 26, "RND_CONV")}, "it cuts 5 bits of each product by AP_RND_CONV"),
        ({"accum_t": kind(15, 6, "TRN", "SAT")}, "its sums can leave that range"),
    ],
)
def test_an_einsum_that_the_multipliers_would_sum_otherwise_than_the_cpp_is_refused(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnsupportedLayerError, match=rf"layer 'act'.*: .*{words}"):
        einsum(**options)


def test_an_einsums_accumulator_that_saturates_is_taken_where_no_sum_reaches_its_ends() -> None:
    assert isinstance(einsum(accum_t=kind(16, 7, "TRN", "SAT"))[1], Matmul)


def test_a_product_of_two_tensors_too_wide_for_the_multipliers_is_refused_by_the_layers_name() -> None:
    a, b = (Tensor(name, (2, 2), fixed_point(64, 4, signed)) for name, signed in (("a", True), ("b", False)))
    layer = Matmul("wide", a, b, Tensor("y", (2, 2), Y), fixed_point(30, 9), 1, 1, np.arange(4).reshape(1, 2, 2))
    with pytest.raises(UnsupportedLayerError, match="layer 'wide': a product of 129 bits in its rf_matmul, expected up to 128"):
        plan(Network("net", (a, b), (layer.y,), (layer,)))


def test_the_words_of_a_matrix_are_groups_of_results_and_in_each_the_beats_of_a_vector() -> None:
    places = np.arange(2 * 4 * 6).reshape(2, 4, 6)  # matrix, result, term
    words = in_words(places, 3, 2).reshape(2, 2, 2, 2, 3)  # matrix, group, beat, result of the group, term of the beat
    for matrix, group, beat, q, p in np.ndindex(words.shape):
        assert words[matrix, group, beat, q, p] == places[matrix, 2 * group + q, 3 * beat + p]
