# SPDX-License-Identifier: Apache-2.0
"""Column mappings: what the YAML may say, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from hypersonic.client.columns import MappingError, parse_mapping, read_mapping, shipped_mappings
from hypersonic.client.columns.mapping import Constant, FromTable, OneHot, find_input
from hypersonic.client.specs import ModelSpec, TensorSpec
from hypersonic.hls.zoo.facile.events import FEATURES

ROOT = Path(__file__).resolve().parents[3]
GAINS = "ieta,iphi,depth,gain\n-1,1,1,0.5\n1,1,2,0.25\n1,72,1,0.125\n"


def test_the_shipped_mapping_of_facile_has_the_networks_features_in_order() -> None:
    mapping = read_mapping("facile")
    assert (mapping.collection, mapping.filter, mapping.finite, mapping.width) == ("DigiHB", "valid", True, 18)
    labels = list(mapping.labels())
    assert labels[:2] == ["DigiHB_ieta", "DigiHB_iphi"]
    assert labels[3:11] == [f"DigiHB_fc{i}" for i in range(8)]
    assert labels[11:] == [f"DigiHB_depth == {i}" for i in range(1, 8)]
    assert [label.removeprefix("DigiHB_") for label in labels[:2]] == list(FEATURES[:2])
    assert mapping.output_name("anything") == "DigiHB_energy"
    assert list(shipped_mappings()) == ["facile"]


def test_the_page_shows_the_shipped_mapping() -> None:
    (shown, *_) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "columns.md").read_text(), re.DOTALL | re.MULTILINE)
    assert parse_mapping(shown).as_data() == read_mapping("facile").as_data()


def test_features_of_every_kind_are_read(tmp_path: Path) -> None:
    (tmp_path / "gains.csv").write_text(GAINS)
    text = """
        collection: H
        input: x
        filter: ok
        fill: -1
        features: [a, fc2..fc4, {one_hot: depth, values: [3, 1]}, {constant: 2.5}, {block: rows, width: 3},
          {column: b, help: why}, {table: gains.csv, keys: [ieta, iphi, depth], value: gain}]
        outputs: {y: energy, z: time}
    """
    (tmp_path / "mapping.yaml").write_text(text)
    mapping = read_mapping(tmp_path / "mapping.yaml")
    assert mapping.width == 1 + 3 + 2 + 1 + 3 + 1 + 1
    assert mapping.columns == tuple(
        f"H_{name}" for name in ("a", "fc2", "fc3", "fc4", "depth", "rows", "b", "ieta", "iphi", "ok")
    )
    assert mapping.features[4:6] == (OneHot("depth", (3, 1)), Constant(2.5))
    assert (mapping.fill, mapping.output_name("y"), mapping.output_name("z")) == (-1.0, "H_energy", "H_time")
    assert (mapping.help_for("H_b"), mapping.help_for("H_a")) == ("why", "")
    table = mapping.features[-1]
    assert isinstance(table, FromTable)
    keys = [np.array([1, -1, 1, 5]), np.array([72, 1, 1, 1]), np.array([1, 1, 2, 1])]
    numbers, missing = table.table.look_up(keys)
    assert (numbers[:3].tolist(), missing) == ([0.125, 0.5, 0.25], 3)


def test_defaults_are_flat_columns_and_names_that_every_file_can_have() -> None:
    mapping = parse_mapping("features: [a]")
    assert (mapping.columns, mapping.output_name("output/BiasAdd")) == (("a",), "output_BiasAdd")
    assert math.isnan(mapping.fill)
    assert not mapping.finite


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("features: [a]\nfeature: [b]", "unknown key 'feature'; did you mean features?"),
        ("features: [a]\nfeatures: [b]", "the key 'features' is given twice"),
        ("collection: H", "the key 'features' is missing"),
        ("[a, b]", "the mapping is a list, expected keys and values"),
        ("", "the mapping is empty"),
        ("features: a", "'features' is a text, expected a list"),
        ("features: []", "'features' is a list, expected a list of features"),
        ("features: [a, b, a]", "the feature 'a' is given twice"),
        ("features: [fc0..fc2, fc1]", "the feature 'fc1' is given twice"),
        ("features: [fc3..fc1]", "the range 'fc3..fc1' goes from 3 to 1"),
        ("features: [fc0..fc99999999999]", "the range"),
        ("features: [1]", "a feature is 1, expected a column's name or one of the keys"),
        ("features: [{columns: a}]", "expected a column's name or one of the keys column, one_hot"),
        ("features: [{column: a, constant: 1}]", "a feature is"),
        ("features: [{column: a, width: 1}]", "a column has the unknown key 'width'"),
        ("features: ['']", "expected a name of printable characters"),
        ('features: ["a\\nb"]', "expected a name of printable characters"),
        ("features: [{one_hot: a}]", "one_hot lacks the key 'values'"),
        ("features: [{one_hot: a, values: [1, 1]}]", "'values' has a number twice"),
        ("features: [{one_hot: a, values: [1.5]}]", "expected a range such as 1..7 or a list of integers"),
        ("features: [{one_hot: a, values: 7..1}]", "goes from 7 to 1"),
        ("features: [{constant: one}]", "'constant' is 'one', expected a number"),
        ("features: [{constant: true}]", "'constant' is True, expected a number"),
        ("features: [{constant: 1}]", "no feature is a column"),
        ("features: [{block: a, width: 0}]", "'width' is 0, expected an integer of 1 or more"),
        ("features: [a]\nfinite: 1", "'finite' is 1, expected true or false"),
        ("features: [a]\nfill: x", "'fill' is 'x', expected a number"),
        ("features: [a]\ncollection: 3", "'collection' is 3, expected a name"),
        ("features: [a]\noutputs: {y: e, z: e}", "gives two outputs the same column"),
        ("features: [a]\noutputs: e", "'outputs' is a text"),
        ("features: [a]\noutput: e\noutputs: {y: e}", "'output' and 'outputs' are both given"),
        ("features: [{table: t.csv, keys: a, value: g}]", "'keys' is 'a', expected a list of different columns"),
        ("features: [{table: nowhere.csv, keys: [a], value: g}]", "the table nowhere.csv cannot be read"),
        ("features: [a", "is not valid YAML"),
        ("features: !!python/object:os.system [a]", "is not valid YAML"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(MappingError) as caught:
        parse_mapping(text, "m.yaml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ieta,iphi,depth,gain\n1,1,1,2\n1,1,1,3\n", "line 3 of the table .* has the keys of an earlier line: 1,1,1,3"),
        ("ieta,iphi,depth,gain\n1,x,1,2\n", "line 2 of the table .* is not 3 integers and a number"),
        ("ieta,iphi,depth,gain\n1,1,1\n", "line 2 of the table"),
        ("ieta,iphi,gain\n1,1,1\n", "has no column 'depth'; it has ieta, iphi, gain"),
        ("ieta,iphi,depth,depth,gain\n", "has several columns 'depth'"),
        ("ieta,iphi,depth,gain\n", "has no lines"),
        ("", "has no column 'ieta'"),
        ("ieta,iphi,depth,gain\n0,0,0,1\n4000000000000000000,4000000000,2,1\n", "span too many combinations"),
    ],
)
def test_a_faulty_table_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "m.yaml").write_text("features: [{table: t.csv, keys: [ieta, iphi, depth], value: gain}]")
    with pytest.raises(MappingError, match=words):
        read_mapping(tmp_path / "m.yaml")


def test_a_missing_file_is_an_error_that_lists_the_shipped_ones() -> None:
    with pytest.raises(MappingError, match=r"nowhere\.yaml cannot be read: .*; shipped mappings: facile"):
        read_mapping("nowhere.yaml")


def spec(*inputs: TensorSpec, batch: int = 8) -> ModelSpec:
    return ModelSpec("m", "", ("1",), inputs, (TensorSpec("y", "FP32", (1,)),), batch)


def test_the_mapping_has_to_fit_the_model() -> None:
    mapping = parse_mapping("features: [a, b]")
    x = TensorSpec("x", "FP32", (2,))
    assert find_input(mapping, spec(x)) == x
    assert find_input(mapping, spec(x, TensorSpec("z", "FP32", (5,), optional=True))) == x
    for model, words in (
        (spec(TensorSpec("x", "FP32", (3,))), "has 2 features, and input 'x' of model 'm' takes 3"),
        (spec(TensorSpec("x", "FP32", (1,))), "has 2 features, and input 'x' of model 'm' takes 1"),
        (spec(x, TensorSpec("z", "FP32", (2,))), "needs the inputs x, z, and a mapping is for one input"),
        (spec(x, batch=0), "takes no batches"),
        (spec(TensorSpec("x", "BYTES", (2,))), "expected numbers of a fixed shape"),
        (spec(TensorSpec("x", "FP32", (-1,))), "expected numbers of a fixed shape"),
    ):
        with pytest.raises(MappingError, match=words):
            find_input(mapping, model)
    with pytest.raises(MappingError, match="has no input 'w', only x"):
        find_input(parse_mapping("{input: w, features: [a, b]}"), spec(x))
