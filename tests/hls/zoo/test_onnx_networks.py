# SPDX-License-Identifier: Apache-2.0
"""ParticleNet and DeepTau in ONNX: the published tensors and counts, answers as numpy computes them from the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest
from numpy.typing import NDArray

from hypersonic.hls.zoo.deeptau import events as taus
from hypersonic.hls.zoo.deeptau import network as deeptau
from hypersonic.hls.zoo.particlenet import events as jets
from hypersonic.hls.zoo.particlenet import network as particlenet

Float = NDArray[np.float64]
Array = NDArray[np.float32]
Weights = Mapping[str, Float]

CELLS = {kind: (1, 1, size) for kind, size in deeptau.CELL_FEATURES.items()}
WHOLE = {
    "input_tau": (47,),
    **{f"input_inner_{kind}": (11, 11, size) for kind, size in (("egamma", 86), ("muon", 64), ("hadrons", 38))},
    **{f"input_outer_{kind}": (21, 21, size) for kind, size in (("egamma", 86), ("muon", 64), ("hadrons", 38))},
}
#: build, inputs and outputs without their first dimension (None: varies), floats
NETWORKS: dict[str, tuple[Callable[[int], bytes], dict[str, tuple[int | None, ...]], dict[str, tuple[int, ...]], int]] = {
    "particlenet": (
        particlenet.build,
        {
            "pf_points": (2, None), "pf_features": (20, None), "pf_mask": (1, None),
            "sv_points": (2, None), "sv_features": (11, None), "sv_mask": (1, None),
        },
        {"softmax": (8,)},
        235_495,
    ),
    "deeptau": (deeptau.build, {**WHOLE}, {"main_output/Softmax": (4,)}, 1_163_201),
    "deeptau_inner": (
        deeptau.build_inner,
        {f"input_inner_{kind}": shape for kind, shape in CELLS.items()},
        {"inner_all_dropout_4/Identity": (1, 1, 64)},
        211_783,
    ),
    "deeptau_outer": (
        deeptau.build_outer,
        {f"input_outer_{kind}": shape for kind, shape in CELLS.items()},
        {"outer_all_dropout_4/Identity": (1, 1, 64)},
        211_783,
    ),
    "deeptau_core": (
        deeptau.build_core,
        {"input_tau": (47,), "input_inner": (11, 11, 64), "input_outer": (21, 21, 64)},
        {"main_output/Softmax": (4,)},
        739_635,
    ),
}  # fmt: skip


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def answer(loaded: onnxruntime.InferenceSession, inputs: Mapping[str, Array]) -> Array:
    output: Array = loaded.run(None, dict(inputs))[0]
    return output


def weights_of(model: bytes) -> dict[str, Float]:
    constants = onnx.load_from_string(model).graph.initializer
    return {
        c.name: onnx.numpy_helper.to_array(c).astype(np.float64) for c in constants if c.data_type == onnx.TensorProto.FLOAT
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_tensors_and_counts_are_the_published_ones(name: str) -> None:
    build, inputs, outputs, floats = NETWORKS[name]
    model = build(1)
    loaded = session(model)
    for side, wanted in ((loaded.get_inputs(), inputs), (loaded.get_outputs(), outputs)):
        assert [tensor.name for tensor in side] == list(wanted)
        assert all(tensor.type == "tensor(float)" and isinstance(tensor.shape[0], str) for tensor in side)
        shapes = [tuple(size if isinstance(size, int) else None for size in tensor.shape[1:]) for tensor in side]
        assert shapes == list(wanted.values())
    assert sum(values.size for values in weights_of(model).values()) == floats


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    build = NETWORKS[name][0]
    assert build(3) == build(3) != build(4)


def test_the_counts_the_modules_name_are_those() -> None:
    assert particlenet.PARAMETERS == 235_495
    assert (deeptau.PARAMETERS, deeptau.CORE_PARAMETERS, deeptau.CELL_PARAMETERS) == (1_163_201, 739_635, 211_783)
    assert [deeptau.widths(size, 1.6) for size in deeptau.CELL_FEATURES.values()] == [
        [207, 129, 104],
        [154, 96, 77],
        [92, 57, 46],
    ]
    assert deeptau.widths(deeptau.TAU_FEATURES, 1.4) == [113, 80, 57]


# ---- ParticleNet ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tagger() -> onnxruntime.InferenceSession:
    return session(particlenet.build())


@pytest.fixture(scope="module")
def sample() -> jets.Jets:
    return jets.generate(24, 5, candidates=40, vertices=4)


def normalised(x: Float, w: Weights, name: str, epsilon: float) -> Float:
    """x (channels, ...)."""
    gamma, beta, mean, variance = (
        w[f"{name}/{field}"].reshape(-1, *[1] * (x.ndim - 1)) for field in ("gamma", "beta", "mean", "variance")
    )
    return np.asarray((x - mean) / np.sqrt(variance + epsilon) * gamma + beta)


def pointwise(x: Float, w: Weights, name: str) -> Float:
    """A 1x1 convolution with its normalisation and without a bias, x (channels, ...)."""
    kernel = w[f"{name}/kernel"].reshape(len(w[f"{name}/kernel"]), -1)
    return normalised(np.tensordot(kernel, x, 1), w, f"{name}_norm", 1e-5)


def relu(x: Float) -> Float:
    return np.maximum(x, 0.0)


def softmax(x: Float) -> Float:
    return np.asarray(np.exp(x) / np.exp(x).sum())


def tagged(w: Weights, jet: Mapping[str, Array]) -> Float:
    """ParticleNet of one jet, from the formulas of its papers; candidates and vertices that are not there are left out."""
    there = {kind: jet[f"{kind}_mask"][0] > 0.0 for kind in ("pf", "sv")}
    space = np.concatenate([jet[f"{kind}_points"][:, there[kind]] for kind in there], axis=1).astype(np.float64)
    x = np.concatenate([
        relu(pointwise(normalised(jet[f"{k}_features"][:, there[k]].astype(np.float64), w, f"{k}_norm", 1e-5), w, f"{k}_conv"))
        for k in there
    ], axis=1)  # fmt: skip
    blocks = []
    for i in range(3):
        x = edge_convolution(w, f"edge{i}", space, x)
        space = x
        blocks.append(x)
    mean = relu(pointwise(np.concatenate(blocks), w, "fusion")).mean(axis=1)
    hidden = relu(mean @ w["dense/kernel"] + w["dense/bias"])
    return softmax(hidden @ w["output/kernel"] + w["output/bias"])


def edge_convolution(w: Weights, name: str, space: Float, x: Float) -> Float:
    distance = ((space[:, :, None] - space[:, None, :]) ** 2).sum(axis=0)
    np.fill_diagonal(distance, -1.0)
    neighbours = np.argsort(distance, axis=1, kind="stable")[:, 1 : particlenet.NEIGHBOURS + 1]
    here = np.broadcast_to(x[:, :, None], (*x.shape, neighbours.shape[1]))
    edges = np.concatenate([here, x[:, neighbours] - here])
    for i in range(3):
        edges = relu(pointwise(edges, w, f"{name}/conv{i}"))
    return relu(edges.mean(axis=-1) + pointwise(x, w, f"{name}/around"))


def test_jets_are_tagged_as_the_formulas_say(tagger: onnxruntime.InferenceSession, sample: jets.Jets) -> None:
    w = weights_of(particlenet.build())
    got = answer(tagger, sample.inputs())
    large = np.flatnonzero(sample.pf_mask.sum(axis=(1, 2)) + sample.sv_mask.sum(axis=(1, 2)) > particlenet.NEIGHBOURS)
    assert len(large) > 12
    for i in large:
        expected = tagged(w, {name: values[i] for name, values in sample.inputs().items()})
        np.testing.assert_allclose(got[i], expected, rtol=2e-3, atol=2e-5)
    assert got[large].std(axis=0).max() > 0.01


def test_nothing_is_read_of_what_is_masked(tagger: onnxruntime.InferenceSession, sample: jets.Jets) -> None:
    rng = np.random.default_rng(0)
    filled = sample.inputs()
    for name, values in sample.inputs().items():
        if not name.endswith("mask"):
            mask = filled[f"{name[:2]}_mask"] > 0.0
            filled[name] = np.where(mask, values, rng.normal(0.0, 9.0, values.shape)).astype(np.float32)
    np.testing.assert_array_equal(answer(tagger, filled), answer(tagger, sample.inputs()))


def test_room_for_more_and_another_order_change_nothing(tagger: onnxruntime.InferenceSession, sample: jets.Jets) -> None:
    enough = sample.pf_mask.sum(axis=(1, 2)) > particlenet.NEIGHBOURS
    got = answer(tagger, sample.inputs())
    wider = {name: np.pad(values, ((0, 0), (0, 0), (0, 7))) for name, values in sample.inputs().items()}
    np.testing.assert_allclose(answer(tagger, wider)[enough], got[enough], rtol=1e-4, atol=1e-6)
    order = np.random.default_rng(1).permutation(sample.pf_mask.shape[2])
    mixed = {name: values[:, :, order] if name.startswith("pf") else values for name, values in sample.inputs().items()}
    np.testing.assert_allclose(answer(tagger, mixed)[enough], got[enough], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("candidates", "vertices"), [(1, 1), (3, 2), (8, 1), (9, 1), (150, 1)])
def test_jets_of_any_size_are_tagged(tagger: onnxruntime.InferenceSession, candidates: int, vertices: int) -> None:
    got = answer(tagger, jets.generate(3, 2, candidates, vertices).inputs())
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=1e-5)


def test_jets_of_a_batch_do_not_see_each_other(tagger: onnxruntime.InferenceSession, sample: jets.Jets) -> None:
    together = answer(tagger, sample.inputs())
    alone = np.concatenate([answer(tagger, sample.inputs(i, 1)) for i in range(len(together))])
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-7)


# ---- DeepTau -------------------------------------------------------------------------------------------------------------


def prelu(x: Float, slope: Float) -> Float:
    return np.where(x > 0.0, x, slope * x)


def convolved(w: Weights, x: Float, name: str) -> Float:
    """All layers `name`_conv_1, 2, ... of x (channels, rows, columns)."""
    i = 1
    while f"{name}_conv_{i}/kernel" in w:
        kernel = w[f"{name}_conv_{i}/kernel"]
        windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[2:], (1, 2))
        x = np.einsum("oikl,irckl->orc", kernel, windows, optimize=True) + w[f"{name}_conv_{i}/bias"][:, None, None]
        x = prelu(normalised(x, w, f"{name}_norm_{i}", 1e-3), w[f"{name}_activation_{i}/slope"])
        i += 1
    return x


def dense(w: Weights, x: Float, name: str) -> Float:
    i = 1
    while f"{name}_dense_{i}/kernel" in w:
        x = x @ w[f"{name}_dense_{i}/kernel"] + w[f"{name}_dense_{i}/bias"]
        x = prelu(x * w[f"{name}_norm_{i}/scale"] + w[f"{name}_norm_{i}/offset"], w[f"{name}_activation_{i}/slope"])
        i += 1
    return x


def identified(w: Weights, tau: Mapping[str, Array]) -> Float:
    """DeepTau of one tau."""
    parts = [dense(w, tau["input_tau"].astype(np.float64), "tau")]
    for grid in deeptau.GRIDS:
        kinds = [
            convolved(w, tau[f"input_{grid}_{kind}"].transpose(2, 0, 1).astype(np.float64), f"{grid}_{kind}")
            for kind in deeptau.CELL_FEATURES
        ]
        parts.append(convolved(w, convolved(w, np.concatenate(kinds), f"{grid}_all"), f"{grid}_all_3x3").ravel())
    final = dense(w, np.concatenate(parts), "final")
    return softmax(final @ w["final_dense_last/kernel"] + w["final_dense_last/bias"])


@pytest.fixture(scope="module")
def candidates() -> taus.Taus:
    return taus.generate(8, 5)


@pytest.fixture(scope="module")
def identifier() -> onnxruntime.InferenceSession:
    return session(deeptau.build())


def test_taus_are_identified_as_the_formulas_say(identifier: onnxruntime.InferenceSession, candidates: taus.Taus) -> None:
    w = weights_of(deeptau.build())
    got = answer(identifier, candidates.inputs(0, 4))
    for i in range(4):
        expected = identified(w, {name: values[i] for name, values in candidates.inputs().items()})
        np.testing.assert_allclose(got[i], expected, rtol=1e-4)
    assert got.std(axis=0).max() > 0.01


def test_the_parts_chained_are_the_whole(identifier: onnxruntime.InferenceSession, candidates: taus.Taus) -> None:
    grids = {}
    for grid, (build, size) in {"inner": (deeptau.build_inner, 11), "outer": (deeptau.build_outer, 21)}.items():
        lists, places = taus.cells_of(candidates, grid)
        cells = answer(session(build()), lists)[:, 0, 0]
        grids[f"input_{grid}"] = np.tile(cells[-1], (8, size, size, 1))
        grids[f"input_{grid}"][tuple(places.T)] = cells[:-1]
    chained = answer(session(deeptau.build_core()), {"input_tau": candidates.input_tau, **grids})
    np.testing.assert_allclose(chained, answer(identifier, candidates.inputs()), rtol=1e-5)


# ---- what they are asked with --------------------------------------------------------------------------------------------


def test_generators_give_the_same_for_the_same_seed_and_begin_alike() -> None:
    for short, long, other in (
        (jets.generate(3, 1), jets.generate(6, 1), jets.generate(3, 2)),
        (taus.generate(3, 1), taus.generate(6, 1), taus.generate(3, 2)),
    ):
        for name, values in vars(short).items():
            assert values.dtype == np.float32
            np.testing.assert_array_equal(vars(long)[name][:3], values)
        assert any(not np.array_equal(values, vars(other)[name]) for name, values in vars(short).items())


def test_jets_have_room_for_100_candidates_and_heavy_quarks_leave_vertices() -> None:
    sample = jets.generate(800, 3)
    assert {name: values.shape[1:] for name, values in sample.inputs().items()} == {
        "pf_points": (2, 100), "pf_features": (20, 100), "pf_mask": (1, 100),
        "sv_points": (2, 10), "sv_features": (11, 10), "sv_mask": (1, 10),
    }  # fmt: skip
    assert sum(values[0].nbytes for values in sample.inputs().values()) == 9_760
    vertices = sample.sv_mask.sum(axis=(1, 2))
    mean = {label: vertices[sample.label == i].mean() for i, label in enumerate(particlenet.LABELS)}
    assert mean["bb"] > mean["b"] > 5 * mean["uds"]
    assert mean["cc"] > mean["c"] > 5 * mean["uds"]
    assert not sample.pf_features[np.broadcast_to(sample.pf_mask == 0.0, sample.pf_features.shape)].any()
    assert np.abs(sample.pf_features).max() <= jets.LIMIT


def test_taus_fill_grids_sparsely_and_cells_know_their_places(candidates: taus.Taus) -> None:
    assert {name: values.shape[1:] for name, values in candidates.inputs().items()} == WHOLE
    assert sum(values[0].nbytes for values in candidates.inputs().values()) == 422_812
    for grid, size in deeptau.GRIDS.items():
        lists, places = taus.cells_of(candidates, grid)
        assert 0.0 < len(places) < 0.2 * 8 * size * size
        for name, cells in lists.items():
            assert cells.shape[0] == len(places) + 1
            assert not cells[-1].any()
            again = np.zeros_like(vars(candidates)[name])
            again[tuple(places.T)] = cells[:-1, 0, 0]
            np.testing.assert_array_equal(again, vars(candidates)[name])
