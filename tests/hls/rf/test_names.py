# SPDX-License-Identifier: Apache-2.0
"""A core's identifiers and files are unique whatever the layers are called."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.hls.core import Core
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Layer, Network, Tensor, WeightsIn
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.read import distinct
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore, compile_cores
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.verilator import lint
from tests.hls.frontend.layer_names import NAMES
from tests.hls.rf.golden import random_rows

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

KIND, OTHER, WIDE = fixed_point(8, 4), fixed_point(9, 4), fixed_point(24, 8)
NONE = Constants(np.zeros(0, dtype=np.int64), 0)

#: of two inputs and eight layers
COUNT = 10

#: as Keras names the layers of a small residual network: the copies of a tensor must not be called as the next layer
KERAS = ["input_1", "input_2", "activation", "dense", "activation_1", "add", "activation_2", "dense_1", "add_1", "concatenate"]


def residual(names: list[str]) -> Network:
    """Two blocks whose first tensor is read twice, joined with a second input; weights at every place."""
    called = {f"t{index}": Tensor(name, (8,), KIND) for index, name in enumerate(names)}
    x, z, first, dense, second, add, third, again, last, join = called.values()

    def product(source: Tensor, y: Tensor, place: WeightsIn) -> Dense:
        weight = Constants(np.random.default_rng(len(y.name)).integers(-7, 8, (8, 8)), 4)
        return Dense(y.name, source, y, weight, Constants(np.arange(8), 4), WIDE, 16, 16, weights_in=place)

    def relu(source: Tensor, y: Tensor) -> Map:
        return Map(y.name, source, y, MapFunction.RELU, NONE, NONE)

    joined = Tensor(join.name, (16,), OTHER)
    layers: tuple[Layer, ...] = (
        relu(x, first), product(first, dense, WeightsIn.BRAM), relu(dense, second),
        Merge(add.name, second, first, add, MergeOperation.ADD),
        relu(add, third), product(third, again, WeightsIn.DRAM), Merge(last.name, again, third, last, MergeOperation.ADD),
        Concatenate(join.name, last, z, joined, 0),
    )  # fmt: skip
    return Network("net", (x, z), (joined,), layers)


def written(network: Network, name: str, directory: Path, whole_row_bits: int = 8192) -> Core:
    x, y = (
        Row(tuple(TensorSpec(f"t{index}", tensor.shape, tensor.precision.checked()) for index, tensor in enumerate(side)))
        for side in (network.inputs, network.outputs)
    )
    return write_rf_core(network, name, x, y, directory, whole_row_bits)[0]


def declared(text: str) -> list[str]:
    """Wires, ports and instances of a core's top."""
    code = re.sub(r"//.*", "", text)
    wires = [names.split(",") for names in re.findall(r"\b(?:logic|wire)(?: signed)? (?:\[[^\]]*\] )?([\w, ]+)[;=,\n]", code)]
    return [name.strip() for names in wires for name in names if name.strip()] + re.findall(r"\b(\w+) \(\n", code)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=COUNT, max_size=COUNT, unique=True), st.sampled_from([0, 8192]))
def test_no_identifier_and_no_file_comes_twice_whatever_the_layers_are_called(
    tmp_path: Path, names: list[str], whole: int
) -> None:
    core = written(residual(names), "net", tmp_path, whole)
    identifiers = declared((tmp_path / "net_core.sv").read_text())
    assert len(identifiers) > 60
    assert len({name.lower() for name in identifiers}) == len(identifiers)
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) for name in identifiers)
    assert len({file.name.lower() for file in core.memories}) == len(core.memories)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_layers_that_are_called_as_the_generated_text_calls_its_own_are_other_identifiers(first: int, tmp_path: Path) -> None:
    """The identifiers that one core declares are the layers' names of another, a few at a time until all are used."""
    text = written(residual(KERAS), "net", tmp_path / "one", 0 if first else 8192)
    own = sorted({re.sub("^[sxu]_", "", name) for name in declared(text.sources[-1].read_text())})
    for at in range(first * COUNT, len(own) - COUNT, 3 * COUNT):
        core = written(residual(own[at : at + COUNT]), "net", tmp_path / str(at), 0 if first else 8192)
        identifiers = declared(core.sources[-1].read_text())
        assert len({name.lower() for name in identifiers}) == len(identifiers)
        if at == first * COUNT:
            lint(core.sources, core.top)


def test_networks_with_the_names_that_keras_gives_and_with_names_that_no_tool_takes_are_cores_that_answer(
    tmp_path: Path,
) -> None:
    sets = (
        KERAS,
        ["a/b", "a.b", "a_b", "a b", "A_b", "a__b", "_a_b", "à_b", "a_b\n", "a_b\\"],
        ["verilator lint_off", "synopsys translate_off", "module", "int", "class", "", "1", "*/", "x" * 300, "`include x"],
        ["logic", "axis_x", "s_axis_x", "clk", "packets", "entrance", "row", "beat_q", "load_0", "unused"],
    )
    networks = [residual(names) for names in sets]
    cores = [written(network, f"net{k}", tmp_path / str(k), 0) for k, network in enumerate(networks)]
    compile_cores(cores, "-O0")
    for network, core in zip(networks, cores, strict=True):
        lint(core.sources, core.top)
        x = random_rows(network, 20, 1)
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            np.testing.assert_array_equal(rtl.predict_raw(x), evaluate(network, x).astype(np.int64))


def test_files_of_two_cores_beside_each_other_never_have_one_name(tmp_path: Path) -> None:
    one = written(residual(["b_" + name for name in KERAS]), "a", tmp_path)
    two = written(residual(KERAS), "a_b", tmp_path)
    assert not {file.name for file in one.memories} & {file.name for file in two.memories}


def test_a_tensor_inside_a_layer_of_the_model_is_called_as_no_other() -> None:
    """A pooling that is computed in two steps, beside a layer that is called as the first step's result."""
    x, inner, y = (Tensor(name, (4,), KIND) for name in ("pool_accum", "pool_accum", "pool"))
    steps = tuple(Map("pool", source, to, MapFunction.LINEAR, NONE, NONE) for source, to in ((x, inner), (inner, y)))
    first, second = distinct(steps, taken := {"pool_accum", "pool"})
    assert isinstance(first, Map)
    assert isinstance(second, Map)
    assert (first.x.name, first.y.name, second.x.name, second.y.name) == ("pool_accum", "pool_accum_2", "pool_accum_2", "pool")
    assert taken == {"pool_accum", "pool_accum_2", "pool"}


def test_a_network_that_makes_a_tensor_twice_is_no_network() -> None:
    a, b = Tensor("a", (4,), KIND), Tensor("b", (4,), KIND)
    with pytest.raises(ValueError, match="'b' are made twice"):
        Network("net", (a,), (b,), tuple(Map(name, a, b, MapFunction.RELU, NONE, NONE) for name in "cd"))
