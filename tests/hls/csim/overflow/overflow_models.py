# SPDX-License-Identifier: Apache-2.0
"""A network with a variable that is too narrow in each layer: python tests/hls/csim/overflow/overflow_models.py DIRECTORY

DIRECTORY/planted/ is its project, as hls4ml alone writes it, and DIRECTORY/graph.txt what `hypersonic.hls.overflows` says of
the same ModelGraph on the rows of DIRECTORY/rows.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls import overflows
from hypersonic.hls.frontend.keras.classes import own_classes
from hypersonic.hls.frontend.keras.model import conversion_options, use_keras_2
from hypersonic.hls.frontend.keras.readers import register_readers
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.model_graph import tensor_types
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

ROWS = 24
WIDE = "ap_fixed<26,12>"

#: layer -> the settings that are too narrow for the rows
PLANTED: dict[str, dict[str, Any]] = {
    "dense_accum": {"Precision": {"accum": "ap_fixed<12,3>"}},
    "dense_result": {"Precision": {"result": "ap_fixed<12,3>"}},
    "dense_cancels": {"Precision": {"accum": "ap_fixed<18,4>"}},
    "dense_weight": {"Precision": {"weight": "ap_fixed<12,2>"}},
    "dense_saturates": {"Precision": {"result": "ap_fixed<12,3,AP_TRN,AP_SAT>"}},
    "conv_accum": {"Precision": {"accum": "ap_fixed<14,4>"}},
    "relu_result": {"Precision": {"result": "ap_ufixed<8,2>"}},
    "norm_result": {"Precision": {"result": "ap_fixed<12,3>"}},
    "add_result": {"Precision": {"result": "ap_fixed<12,3>"}},
    "pool_accum": {"Precision": {"accum": "ap_fixed<16,3>"}},
    "global_accum": {"Precision": {"accum": "ap_fixed<16,3>"}},
    "softmax_sum": {
        "inp_norm_t": "ap_ufixed<14,6,AP_RND,AP_SAT>",
        "exp_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
        "inv_inp_t": "ap_ufixed<20,3>",
        "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
        "Precision": {"accum": "ap_ufixed<20,1>"},
    },
    "softmax_table": {
        "inp_norm_t": "ap_ufixed<14,6,AP_RND,AP_SAT>",
        "exp_table_t": "ap_ufixed<18,0>",
        "inv_inp_t": "ap_ufixed<20,3>",
        "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
        "Precision": {"accum": "ap_ufixed<20,3>"},
    },
    "multiply_result": {"Precision": {"result": "ap_fixed<18,2>"}},
    "dot_accum": {"Precision": {"accum": "ap_fixed<18,3>"}},
    "einsum_accum": {"Precision": {"accum": "ap_fixed<18,3>"}},
    "depthwise_accum": {"Precision": {"accum": "ap_fixed<14,2>"}},
    "tanh_table": {"table_t": "ap_fixed<16,0>"},
    "elu_result": {"Precision": {"result": "ap_fixed<12,2>"}},
    "bidirectional_accum": {"Precision": {"accum": "ap_fixed<14,2>"}},
    "lstm_accum": {"Precision": {"accum": "ap_fixed<14,2>"}},
    "gru_accum": {"Precision": {"accum": "ap_fixed<14,2>"}},
}


def planted(layers: Any, keras: Any) -> Any:
    """A branch and an output for each layer of PLANTED."""
    x, line = keras.Input((4,), name="x"), keras.Input((5, 3), name="line")

    def dense(name: str, *weights: float) -> Any:
        kernel = keras.initializers.Constant(np.tile(np.array(weights)[:, None], (1, 2)))
        return layers.Dense(2, name=name, kernel_initializer=kernel)(x)

    def dense_4(name: str) -> Any:
        return layers.Dense(4, kernel_initializer="identity", name=name)(x)

    def softmax(name: str) -> Any:
        return layers.Activation("softmax", name=name)(layers.Dense(4, name=f"{name}_logits")(x))

    outputs = [
        dense("dense_accum", 3, 3, 3, 3),
        dense("dense_result", 3, 3, 3, 3),
        dense("dense_cancels", 6, 6, -6, -6),
        dense("dense_weight", 2.5, 1, 1, 1),
        dense("dense_saturates", 3, 3, 3, 3),
        layers.Flatten(name="conv_flat")(layers.Conv1D(2, 3, kernel_initializer="ones", name="conv_accum")(line)),
        layers.Activation("relu", name="relu_result")(dense("before_relu", 3, 3, 3, 3)),
        layers.BatchNormalization(gamma_initializer=keras.initializers.Constant(5.0), name="norm_result")(
            layers.Activation("relu", name="before_norm")(x)
        ),
        layers.Add(name="add_result")([dense("left", 1, 1, 0, 0), dense("right", 0, 0, 1, 1)]),
        layers.Flatten(name="pool_flat")(layers.AveragePooling1D(5, name="pool_accum")(line)),
        layers.GlobalAveragePooling1D(name="global_accum")(line),
        softmax("softmax_sum"),
        softmax("softmax_table"),
        layers.Multiply(name="multiply_result")([dense("factor", 1, 1, 0, 0), dense("other_factor", 0, 0, 1, 1)]),
        layers.Dot(1, name="dot_accum")([x, dense_4("dot_second")]),
        layers.Flatten(name="einsum_flat")(own_classes()["Einsum"]("ab,cb->ac", name="einsum_accum")([line, line])),
        layers.Flatten(name="depthwise_flat")(
            layers.DepthwiseConv1D(3, depthwise_initializer="ones", name="depthwise_accum")(line)
        ),
        layers.Activation("tanh", name="tanh_table")(x),
        layers.ELU(name="elu_result")(dense("before_elu", 1, 1, 1, 1)),
        layers.Bidirectional(layers.LSTM(2, kernel_initializer="ones"), name="bidirectional_accum")(line),
        layers.LSTM(2, kernel_initializer="ones", name="lstm_accum")(line),
        layers.GRU(2, kernel_initializer="ones", name="gru_accum")(line),
    ]
    return keras.Model([x, line], outputs)


def rows() -> list[NDArray[np.float64]]:
    """x of 1 to 2, line of 1 to 1.5; the second half of the rows is 64 times smaller, and nothing wraps there."""
    random = np.random.default_rng(1)
    x, line = random.uniform(1, 2, (ROWS, 4)), random.uniform(1, 1.5, (ROWS, 5, 3))
    both = [np.floor(part * 256) / 256 for part in (x, line)]
    for part in both:
        part[ROWS // 2 :] = np.floor(part[ROWS // 2 :] * 4) / 256
    return both


def main(directory: Path) -> None:
    use_keras_2()
    register_readers()
    import hls4ml
    import tf_keras as keras

    keras.utils.set_random_seed(1)
    model = planted(keras.layers, keras)
    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Vitis", default_precision=WIDE)
    for name, layer in config["LayerName"].items():
        layer["Precision"] = dict.fromkeys(layer["Precision"], WIDE)
        own = PLANTED.get(name, {})
        layer.update({key: value for key, value in own.items() if key != "Precision"})
        layer["Precision"].update(own.get("Precision", {}))
    options = conversion_options(directory / "planted" / "hls", "planted", "xcu250-figd2104-2L-e")
    graph = hls4ml.converters.convert_from_keras_model(model, hls_config=config, **options)
    graph.write()
    repair(directory / "planted" / "hls")
    x, y = (Row(tuple(TensorSpec(f"t{i}", t.shape, t.fixed) for i, t in enumerate(side))) for side in tensor_types(graph))
    HlsProject(directory / "planted", "planted", x, y, "xcu250-figd2104-2L-e", {}).save()
    np.savez(directory / "rows.npz", *rows())
    before = sorted(directory.rglob("*"))
    found = overflows(graph, rows())
    assert sorted(directory.rglob("*")) == before
    (directory / "graph.txt").write_text("\n".join(found.lines()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
