# SPDX-License-Identifier: Apache-2.0
"""ensemble_scheduling: the graph, and whether it fits its models; the texts are a real Triton's."""

from __future__ import annotations

import pytest

from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.ensemble import check_members
from hypersonic.server.core.config.read import parse_config
from hypersonic.server.core.config.schema import EnsembleStep, ModelConfig
from hypersonic.server.errors import ModelConfigError

TENSORS = """
input { name: "x" data_type: TYPE_FP32 dims: 3 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""
X, Y = [("x", "x")], [("y", "y")]
Map = list[tuple[str, str]]


def step(inputs: Map, outputs: Map, model: str = "m", version: int = -1) -> str:
    maps = [f'input_map {{ key: "{k}" value: "{v}" }}' for k, v in inputs]
    maps += [f'output_map {{ key: "{k}" value: "{v}" }}' for k, v in outputs]
    return f'step {{ model_name: "{model}" model_version: {version} {" ".join(maps)} }}'


def read(*steps: str, tensors: str = TENSORS, platform: str = "ensemble", more: str = "", rows: int = 8) -> ModelConfig:
    text = (
        f'name: "e" platform: "{platform}" max_batch_size: {rows} {tensors} {more} ensemble_scheduling {{ {" ".join(steps)} }}'
    )
    return check_config(parse_config(text, "e/config.pbtxt"))


def test_steps_are_read_in_their_order() -> None:
    config = read(step(X, [("y", "t")]), step([("x", "t")], Y, "n", 3))
    assert config.ensemble == (EnsembleStep("m", -1, {"x": "x"}, {"y": "t"}), EnsembleStep("n", 3, {"x": "t"}, {"y": "y"}))
    assert (config.platform, config.backend, config.instance_groups) == ("ensemble", "", ())


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], "must specify 'step' for ensemble 'e'"),
        ([step(X, Y, "")], "must specify 'model_name' in step 0 of ensemble 'e'"),
        ([step([], Y)], "must specify 'input_map' in step 0 of ensemble 'e'"),
        ([step(X, [])], "must specify 'output_map' in step 0 of ensemble 'e'"),
        ([step([("x", "t")], Y)], "ensemble input 'x' for ensemble e' is not used"),
        ([step(X, [("y", "t")])], "ensemble output 'y' for ensemble e' is not used"),
        (
            [step([("x", "a")], [("y", "b")]), step([("x", "b")], [("y", "a")]), step(X, Y)],
            "ensemble tensor 'a' is unused in ensemble 'e'",
        ),
        ([step([("x", "a")], [("y", "a")]), step(X, Y)], "ensemble tensor 'a' is unused in ensemble 'e'"),
        (
            [step(X, Y), step(X, Y)],
            "ensemble tensor 'y' can appear in an output map only once for ensemble 'e' step 1",
        ),
        ([step(X, [("y", "t")]), step(X, Y)], "ensemble tensor 't' is unused in ensemble 'e'"),
        (
            [step([*X, ("w", "t")], Y)],
            "output 'y' for ensemble 'e' is not written: at least one of its depending tensors, 't', is not connected",
        ),
    ],
)
def test_a_graph_that_cannot_run_is_refused(steps: list[str], reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        read(*steps)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("instance_group { }", "instance group should not be specified for ensemble 'e'"),
        ("optimization { }", "optimization should not be specified for ensemble 'e'"),
        ("model_warmup { }", "model_warmup can not be specified for ensemble 'e'"),
    ],
)
def test_what_only_models_have_is_refused(more: str, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        read(step(X, Y), more=more)


def test_scheduling_and_platform_go_together() -> None:
    with pytest.raises(
        ModelConfigError, match="ensemble scheduling cannot be set for model 'e' whose platform is not ensemble"
    ):
        read(step(X, Y), platform="")
    with pytest.raises(ModelConfigError, match="ensemble scheduling must be set for ensemble e whose platform is ensemble"):
        check_config(parse_config('name: "e" platform: "ensemble"' + TENSORS, "e/config.pbtxt"))


def member(max_batch_size: int = 8, tensors: str = TENSORS) -> ModelConfig:
    text = f'name: "m" backend: "sum" max_batch_size: {max_batch_size} {tensors}'
    return check_config(parse_config(text, "m/config.pbtxt"))


@pytest.mark.parametrize(
    ("config", "model", "reason"),
    [
        (
            read(step([("q", "x")], Y)),
            member(),
            "in ensemble e, ensemble tensor x is mapping to non-existing input q in model m",
        ),
        (
            read(step(X, [("q", "y")])),
            member(),
            "in ensemble e, ensemble tensor y is mapped from non-existing output q in model m",
        ),
        (
            read(step(X, Y)),
            member(tensors=TENSORS + 'input { name: "w" data_type: TYPE_FP32 dims: 1 }'),
            "in ensemble e, input w in model m is not mapped to any ensemble tensors",
        ),
        (
            read(step(X, Y), tensors=TENSORS.replace("TYPE_FP32", "TYPE_FP64", 1)),
            member(),
            "ensemble tensor x: inconsistent data type: TYPE_FP64 is inferred from model e while TYPE_FP32 is inferred from",
        ),
        (
            read(step(X, Y), tensors=TENSORS.replace("dims: 3", "dims: 4")),
            member(),
            r"ensemble tensor x: inconsistent shape: \[-1,4\] is inferred from model e while \[-1,3\] is inferred from model m",
        ),
        (
            read(step(X, Y), rows=16),
            member(),
            "ensemble e allows maximum batch size 16, but it contains model m which only allows maximum batch size to be 8",
        ),
    ],
)
def test_an_ensemble_that_does_not_fit_its_models_is_refused(config: ModelConfig, model: ModelConfig, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        check_members(config, lambda _step: model)


@pytest.mark.parametrize("dims", ["3", "-1"])
def test_an_ensemble_that_fits_is_fine(dims: str) -> None:
    check_members(read(step(X, Y), tensors=TENSORS.replace("dims: 3", f"dims: {dims}")), lambda _step: member())
    whole = TENSORS.replace("dims: 3", "dims: [ -1, 3 ]").replace("dims: 1", "dims: [ -1, 1 ]")
    check_members(read(step(X, Y), rows=0, tensors=whole), lambda _step: member())
