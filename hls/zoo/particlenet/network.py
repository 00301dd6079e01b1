# SPDX-License-Identifier: Apache-2.0
"""ParticleNet as CMS' AK4 jet tagger, in ONNX with the published tensors and layers: 235 495 parameters.

The layers follow arXiv:1902.08570 as configured by CMS (weaver's particle_net_ak4_pf_sv). Candidates and vertices each pass a
1x1 convolution to 32 channels. Three edge convolutions of 64, 96 and 128 channels over the 8 nearest neighbours follow; the
first looks for neighbours in the plane of the jet, the others in the space of the features. Their outputs are fused to 256
channels and averaged over the points present; dense layers of 128 and 8 follow. Batch normalisation is separate, as in the
published file. The weights are drawn from a seed, not trained.

The numbers of candidates and vertices may differ from request to request. Points whose mask is 0 are not read. A jet of fewer
than 9 points has masked points (features 0) among its neighbours, as published; if there are no masked points either, it has
fewer neighbours.
"""

from __future__ import annotations

from hypersonic.hls.zoo.onnx_graph import Dims, Graph

PARAMETERS = 235_495
NEIGHBOURS = 8
EDGE_CHANNELS = (64, 96, 128)
INPUT_CHANNELS, FUSED_CHANNELS, DENSE = 32, 256, 128
LABELS = ("b", "bb", "c", "cc", "uds", "g", "undef", "pu")
#: added to the coordinates of masked points, so that they are not among the nearest neighbours of other points
FAR = 1e9
EPSILON = 1e-5  # of the batch normalisation, PyTorch's default

INPUTS: dict[str, Dims] = {
    "pf_points": ("N", 2, "n_pf"),
    "pf_features": ("N", 20, "n_pf"),
    "pf_mask": ("N", 1, "n_pf"),
    "sv_points": ("N", 2, "n_sv"),
    "sv_features": ("N", 11, "n_sv"),
    "sv_mask": ("N", 1, "n_sv"),
}
OUTPUTS: dict[str, Dims] = {"softmax": ("N", len(LABELS))}


def build(seed: int = 1) -> bytes:
    """Return model.onnx, FP32: INPUTS -> OUTPUTS.

    Args:
        seed: of the weights.
    """
    graph = Graph(seed)
    mask = graph.node("Concat", "pf_mask", "sv_mask", name="mask", axis=2)
    points = graph.node("Mul", graph.node("Concat", "pf_points", "sv_points", axis=2), mask)
    features = graph.node("Concat", _embedded(graph, "pf", 20), _embedded(graph, "sv", 11), axis=2)
    absent = graph.node("Sub", graph.scalar(1.0), mask)
    shift = graph.node("Mul", absent, graph.scalar(FAR))
    edges = []
    for i, channels in enumerate(EDGE_CHANNELS):
        before = EDGE_CHANNELS[i - 1] if i else INPUT_CHANNELS
        neighbours = _nearest(graph, graph.node("Add", features if i else points, shift))
        features = graph.node("Mul", edge_convolution(graph, f"edge{i}", features, neighbours, (before, channels)), mask)
        edges.append(features)
    together = graph.node("Concat", *edges, axis=1)
    fused = graph.node("Mul", _layer(graph, together, "fusion", (sum(EDGE_CHANNELS), FUSED_CHANNELS), (1,)), mask)
    last = graph.integers(-1)
    count = graph.node("Max", graph.node("ReduceSum", mask, last, keepdims=0), graph.scalar(1.0))
    mean = graph.node("Div", graph.node("ReduceSum", fused, last, keepdims=0), count)
    hidden = graph.node("Relu", graph.dense(mean, "dense", (FUSED_CHANNELS, DENSE)))
    graph.node("Softmax", graph.dense(hidden, "output", (DENSE, len(LABELS))), name="softmax", axis=1)
    return graph.model("particlenet", INPUTS, OUTPUTS)


def edge_convolution(graph: Graph, name: str, x: str, neighbours: str, sizes: tuple[int, int]) -> str:
    """Append an edge convolution: x (n, sizes[0], points) -> (n, sizes[1], points).

    The features of an edge are those of the point and their difference to the neighbour's. They pass three 1x1 convolutions and
    are averaged over the k edges of a point. A shortcut adds the point's own features through one 1x1 convolution.

    Args:
        neighbours: indices (n, points, k).
    """
    there = _gathered(graph, x, sizes[0], neighbours)
    here = graph.node("Unsqueeze", x, graph.integers(-1))
    here = graph.node("Expand", here, graph.node("Shape", there))
    edges = graph.node("Concat", here, graph.node("Sub", there, here), axis=1)
    for i in range(3):
        edges = _layer(graph, edges, f"{name}/conv{i}", (2 * sizes[0] if i == 0 else sizes[1], sizes[1]), (1, 1))
    mean = graph.node("ReduceMean", edges, axes=[-1], keepdims=0)
    around = graph.convolution(x, f"{name}/around", sizes, (1,), bias=False)
    around = graph.normalised(around, f"{name}/around_norm", sizes[1], EPSILON)
    return graph.node("Relu", graph.node("Add", around, mean), name=name)


def _embedded(graph: Graph, kind: str, channels: int) -> str:
    """Map the features of candidates ("pf") or vertices ("sv") to INPUT_CHANNELS; masked points are 0."""
    mask = f"{kind}_mask"
    given = graph.node("Mul", f"{kind}_features", mask)
    normalised = graph.normalised(given, f"{kind}_norm", channels, EPSILON)
    return graph.node("Mul", _layer(graph, normalised, f"{kind}_conv", (channels, INPUT_CHANNELS), (1,)), mask)


def _layer(graph: Graph, x: str, name: str, sizes: tuple[int, int], window: tuple[int, ...]) -> str:
    convolved = graph.convolution(x, name, sizes, window, bias=False)
    return graph.node("Relu", graph.normalised(convolved, f"{name}_norm", sizes[1], EPSILON))


def _nearest(graph: Graph, x: str) -> str:
    """Return indices (n, points, k) of the nearest other points, by the squared distances of all pairs in x (n, dimensions,
    points)."""
    across = graph.node("Transpose", x, perm=[0, 2, 1])
    products = graph.node("Mul", graph.node("MatMul", across, x), graph.scalar(-2.0))
    squares = graph.node("ReduceSum", graph.node("Mul", x, x), graph.integers(1), keepdims=1)
    nearness = graph.node("Sub", graph.node("Neg", squares), products)
    nearness = graph.node("Sub", nearness, graph.node("Transpose", squares, perm=[0, 2, 1]))
    points = graph.size(x, 2)
    indices = graph.top(nearness, graph.node("Min", points, graph.integers(NEIGHBOURS + 1)))
    # the nearest point is the point itself; it is dropped unless it is the only one
    first = graph.node("Min", graph.node("Sub", points, graph.integers(1)), graph.integers(1))
    return graph.node("Slice", indices, first, graph.integers(NEIGHBOURS + 1), graph.integers(-1))


def _gathered(graph: Graph, x: str, channels: int, neighbours: str) -> str:
    """Return the neighbours' features (n, channels, points, k) for x (n, channels, points) and indices (n, points, k)."""
    jets, points = (graph.node("Squeeze", graph.size(x, axis)) for axis in (0, 2))
    jet = graph.node("Range", graph.integer(0), jets, graph.integer(1))
    first = graph.node("Unsqueeze", graph.node("Mul", jet, points), graph.integers(1, 2))
    rows = graph.node("Reshape", graph.node("Transpose", x, perm=[0, 2, 1]), graph.integers(-1, channels))
    picked = graph.node("Gather", rows, graph.node("Add", neighbours, first), axis=0)
    return graph.node("Transpose", picked, perm=[0, 3, 1, 2])
