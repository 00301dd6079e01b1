# SPDX-License-Identifier: Apache-2.0
"""DeepTau 2017v2p6 (arXiv:2201.08458) in ONNX, as a whole and as the three parts of CMS's Triton ensemble.

::

    cells of a grid: e/gamma, muon, hadron features -> 1x1 convolutions -> 64 a cell     inner and outer: 211 783 floats each
    grids of 64 and 47 features of the tau -> 3x3 convolutions, dense layers -> 4        core: 739 635 floats

The widths are those of CMS's training (TauMLTools, 2017v2/SplitNetwork): each branch begins with 2 x 1.2 times its number of
inputs and shrinks by 1.6 per layer (the tau's by 1.4). As in the published frozen graphs, batch normalisation has four vectors
in the convolutions and two, scale and offset, in the dense layers. PReLU follows, with one slope per channel. The weights are
drawn from a seed, not trained; the whole network and its parts have the same weights.
"""

from __future__ import annotations

import math

from hypersonic.hls.zoo.onnx_graph import Dims, Graph

CORE_PARAMETERS, CELL_PARAMETERS = 739_635, 211_783
PARAMETERS = CORE_PARAMETERS + 2 * CELL_PARAMETERS

TAU_FEATURES = 47
#: features of a cell by the kind of particle; the first four are the tau's
CELL_FEATURES = {"egamma": 86, "muon": 64, "hadrons": 38}
#: cells per side of each grid
GRIDS = {"inner": 11, "outer": 21}
CELL_CHANNELS = 64
FINAL_LAYERS, FINAL_UNITS = 4, 200
CLASSES = ("e", "mu", "tau", "jet")

#: layers are wider by this factor, which makes up for the dropout in CMS's training
_DROPPED = 1.2
EPSILON = 1e-3  # of the batch normalisation, Keras' default

OUTPUT = "main_output/Softmax"
#: TensorFlow's name of the last layer of a grid's cells
CELL_OUTPUTS = {grid: f"{grid}_all_dropout_4/Identity" for grid in GRIDS}


def build(seed: int = 1) -> bytes:
    """Return model.onnx of the whole network: input_tau (N, 47), input_<grid>_<kind> (N, cells, cells, features) -> (N, 4)."""
    graph = Graph(seed)
    inputs: dict[str, Dims] = {"input_tau": ("N", TAU_FEATURES)}
    grids = {}
    for grid, cells in GRIDS.items():
        for kind, features in CELL_FEATURES.items():
            inputs[f"input_{grid}_{kind}"] = ("N", cells, cells, features)
        planes = [graph.node("Transpose", f"input_{grid}_{kind}", perm=[0, 3, 1, 2]) for kind in CELL_FEATURES]
        grids[grid] = _cells(graph, grid, planes)
    _core(graph, grids)
    return graph.model("deeptau", inputs, {OUTPUT: ("N", len(CLASSES))})


def build_inner(seed: int = 1) -> bytes:
    """Return model.onnx of the inner grid's cells: input_inner_<kind> (cells, 1, 1, features) -> (cells, 1, 1, 64)."""
    return _build_cells("inner", seed)


def build_outer(seed: int = 1) -> bytes:
    """Return model.onnx of the outer grid's cells: input_outer_<kind> (cells, 1, 1, features) -> (cells, 1, 1, 64)."""
    return _build_cells("outer", seed)


def build_core(seed: int = 1) -> bytes:
    """Return model.onnx of the rest: input_tau (N, 47), input_inner (N, 11, 11, 64), input_outer (N, 21, 21, 64) -> (N, 4)."""
    graph = Graph(seed)
    inputs: dict[str, Dims] = {"input_tau": ("N", TAU_FEATURES)}
    inputs |= {f"input_{grid}": ("N", cells, cells, CELL_CHANNELS) for grid, cells in GRIDS.items()}
    _core(graph, {grid: graph.node("Transpose", f"input_{grid}", perm=[0, 3, 1, 2]) for grid in GRIDS})
    return graph.model("deeptau_core", inputs, {OUTPUT: ("N", len(CLASSES))})


def _build_cells(grid: str, seed: int) -> bytes:
    graph = Graph(seed)
    inputs: dict[str, Dims] = {f"input_{grid}_{kind}": ("cells", 1, 1, size) for kind, size in CELL_FEATURES.items()}
    # the cells are the pixels of one image, instead of one image each
    lines = [graph.node("Transpose", name, perm=[1, 3, 0, 2]) for name in inputs]
    output = CELL_OUTPUTS[grid]
    graph.node("Transpose", _cells(graph, grid, lines), name=output, perm=[2, 0, 3, 1])
    return graph.model(f"deeptau_{grid}", inputs, {output: ("cells", 1, 1, CELL_CHANNELS)})


def widths(inputs: int, shrink: float) -> list[int]:
    """Return the widths of a branch's layers: from 2 x 1.2 times its number of inputs down to 1.2 times."""
    return _shrinking(math.ceil(2 * _DROPPED * inputs), math.ceil(_DROPPED * inputs), shrink)


def _shrinking(first: int, last: int, shrink: float) -> list[int]:
    layers = [first]
    while layers[-1] > last:
        layers.append(max(last, int(layers[-1] / shrink)))
    return layers


def _cells(graph: Graph, grid: str, planes: list[str]) -> str:
    """Append the layers of single cells: (n, features, ...) of each kind -> (n, 64, ...)."""
    grids, channels = [], 0
    for x, (kind, features) in zip(planes, CELL_FEATURES.items(), strict=True):
        layers = widths(features, 1.6)
        grids.append(_convolved(graph, x, f"{grid}_{kind}", features, layers))
        channels += layers[-1]
    together = graph.node("Concat", *grids, axis=1)
    return _convolved(graph, together, f"{grid}_all", channels, _shrinking(channels, CELL_CHANNELS, 1.6))


def _core(graph: Graph, grids: dict[str, str]) -> None:
    """Append the rest: input_tau and (n, 64, cells, cells) of each grid -> main_output/Softmax."""
    layers = widths(TAU_FEATURES, 1.4)
    branches = [_dense_layers(graph, "input_tau", "tau", TAU_FEATURES, layers)]
    features = layers[-1]
    for grid, x in grids.items():
        windows = [CELL_CHANNELS] * (GRIDS[grid] // 2)  # 3x3 without padding until one cell is left
        branches.append(graph.node("Flatten", _convolved(graph, x, f"{grid}_all_3x3", CELL_CHANNELS, windows, side=3)))
        features += CELL_CHANNELS
    final = _dense_layers(graph, graph.node("Concat", *branches, axis=1), "final", features, [FINAL_UNITS] * FINAL_LAYERS)
    graph.node("Softmax", graph.dense(final, "final_dense_last", (FINAL_UNITS, len(CLASSES))), name=OUTPUT, axis=1)


def _convolved(graph: Graph, x: str, name: str, channels: int, layers: list[int], side: int = 1) -> str:
    for i, (before, after) in enumerate(zip([channels, *layers], layers, strict=False), 1):
        x = graph.convolution(x, f"{name}_conv_{i}", (before, after), (side, side), bias=True)
        x = graph.normalised(x, f"{name}_norm_{i}", after, EPSILON)
        x = graph.node("PRelu", x, graph.uniform(f"{name}_activation_{i}/slope", (after, 1, 1), 0.0, 0.3))
    return x


def _dense_layers(graph: Graph, x: str, name: str, features: int, layers: list[int]) -> str:
    for i, (before, after) in enumerate(zip([features, *layers], layers, strict=False), 1):
        x = graph.dense(x, f"{name}_dense_{i}", (before, after))
        x = graph.node("Mul", x, graph.uniform(f"{name}_norm_{i}/scale", (after,), 0.8, 1.2))
        x = graph.node("Add", x, graph.uniform(f"{name}_norm_{i}/offset", (after,), -0.1, 0.1))
        x = graph.node("PRelu", x, graph.uniform(f"{name}_activation_{i}/slope", (after,), 0.0, 0.3))
    return x
