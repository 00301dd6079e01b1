# SPDX-License-Identifier: Apache-2.0
"""How `hypersonic new` changes a description until a build takes it, with verdicts made by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hypersonic.hls.errors import ConversionError, Edit
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.tune.settle import Described, applied, changes, settle
from hypersonic.hls.tune.verdict import CONVERTS, Verdict

DESCRIBED: Described = {
    "name": "m",
    "input": {"name": "x", "precision": "ap_fixed<16,2>"},
    "output": {"name": "last", "precision": "ap_fixed<16,4>"},
    "hls4ml": {
        "IOType": "io_stream",
        "Model": {"Precision": {"default": "ap_fixed<16,6>"}, "Strategy": "distributed_arithmetic"},
        "LayerName": {"dense": {"Precision": {"weight": "ap_fixed<16,1>", "result": "ap_fixed<16,3>"}}, "last": {}},
    },
}
RESULT = ("hls4ml", "LayerName", "dense", "Precision", "result")


def width(described: Described, *place: str) -> int:
    inner: Any = described
    for key in place:
        inner = inner[key]
    return FixedPoint.parse(inner).width


def settled(judge: Callable[[Described, str], Verdict], limit: float = 0.01) -> tuple[Described, Verdict, list[str]]:
    said: list[str] = []
    before = copy.deepcopy(DESCRIBED)
    found = settle(DESCRIBED, judge, limit, said.append)
    assert before == DESCRIBED, "the description that was given has changed"
    return found.described, found.verdict, said


def test_a_description_that_is_good_stays_as_it_is() -> None:
    assert settled(lambda described, core: CONVERTS) == (DESCRIBED, CONVERTS, [])


def test_what_a_refusal_advises_is_written_and_said() -> None:
    def judge(described: Described, core: str) -> Verdict:
        if described["hls4ml"].get("IOType"):
            raise ConversionError("layer 'pool' is not in io_stream", (Edit(("hls4ml", "IOType"), None),))
        return CONVERTS

    described, _, said = settled(judge)
    assert list(changes(DESCRIBED, described)) == [Edit(("hls4ml", "IOType"), None)]
    assert said == ["changed, because layer 'pool' is not in io_stream"]


def test_other_choices_of_io_type_and_strategy_are_tried_where_a_refusal_advises_nothing() -> None:
    def judge(described: Described, core: str) -> Verdict:
        options = described["hls4ml"]
        if "IOType" in options or options["Model"]["Strategy"] != "Resource":
            raise ConversionError("only rf in io_parallel has it")
        return CONVERTS

    described, _, _ = settled(judge)
    assert described["hls4ml"]["Model"]["Strategy"] == "Resource"
    assert "IOType" not in described["hls4ml"]


def test_a_network_that_no_core_computes_is_left_to_the_cpp() -> None:
    def judge(described: Described, core: str) -> Verdict:
        if core != "csim":
            raise ConversionError("no core has it")
        return CONVERTS

    found = settle(DESCRIBED, judge, 0.01)
    assert (found.described, found.core, found.no_core) == (DESCRIBED, "csim", "no core has it")


def test_a_network_that_nothing_converts_is_refused_with_its_first_refusal() -> None:
    def judge(described: Described, core: str) -> Verdict:
        raise ConversionError("layer 'odd' is not known")

    with pytest.raises(ConversionError, match="layer 'odd' is not known"):
        settle(DESCRIBED, judge, 0.01)


def test_types_that_would_wrap_are_written_until_none_does() -> None:
    """The second wrap shows only when the first is mended, with the same loss."""

    def judge(described: Described, core: str) -> Verdict:
        layer = described["hls4ml"]["LayerName"]["dense"]["Precision"]
        for key in ("accum", "result"):
            if layer.get(key) != "ap_fixed<20,8>":
                edit = Edit(("hls4ml", "LayerName", "dense", "Precision", key), "ap_fixed<20,8>")
                return Verdict("numbers wrap", is_far=False, loss=0.3, edits=(edit,), binding="", begin="")
        return replace(CONVERTS, loss=0.001)

    described, verdict, _ = settled(judge)
    assert verdict.loss == 0.001
    assert described["hls4ml"]["LayerName"]["dense"]["Precision"]["accum"] == "ap_fixed<20,8>"


def test_the_layer_that_binds_gets_bits_right_of_the_point_until_the_loss_is_within_the_limit() -> None:
    def judge(described: Described, core: str) -> Verdict:
        loss = 0.04 * 2.0 ** (16 - width(described, *RESULT))
        return replace(CONVERTS, loss=loss, binding="dense" if loss > 0.001 else "")

    described, verdict, said = settled(judge, limit=0.001)
    assert verdict.loss <= 0.001
    assert [width(described, *RESULT), width(described, *RESULT[:-1], "weight")] == [24, 24]
    assert described["input"] == DESCRIBED["input"]
    assert said[0].startswith("wider types, because the rms difference is 4 % of the answers' spread: hls4ml.LayerName.dense")


def test_all_types_get_bits_if_those_of_the_layer_that_binds_do_not_help() -> None:
    def judge(described: Described, core: str) -> Verdict:
        return replace(CONVERTS, loss=0.04 * 2.0 ** (16 - width(described, "input", "precision")), binding="dense")

    described, verdict, _ = settled(judge)
    assert verdict.loss <= 0.01
    assert width(described, "input", "precision") == 20


def test_types_that_do_not_help_are_not_kept() -> None:
    tried = []

    def judge(described: Described, core: str) -> Verdict:
        tried.append(described)
        return replace(CONVERTS, loss=0.04, binding="dense")

    described, _, _ = settled(judge)
    assert described == DESCRIBED
    assert len(tried) == 3  # as it was, one layer wider, all wider


def test_the_result_of_an_output_s_layer_and_an_input_have_their_types_beside_their_names() -> None:
    edits = (
        Edit(("hls4ml", "LayerName", "last", "Precision", "result"), "ap_fixed<9,9>"),
        Edit(("input", "x"), "ap_fixed<8,8>"),
    )
    changed = applied(DESCRIBED, edits)
    assert changed is not None
    assert list(changes(DESCRIBED, changed)) == [
        Edit(("input", "precision"), "ap_fixed<8,8>"),
        Edit(("output", "precision"), "ap_fixed<9,9>"),
    ]
    assert applied(DESCRIBED, ()) is None
