# SPDX-License-Identifier: Apache-2.0
"""Corrections to hls4ml 1.3.0's C++, applied to every project that is written, for the C simulation and Vitis HLS alike.

Embedding reads table[index] without a range check, so a client's category could read outside the table. With the correction, an
index below 0 reads the first row and one past the end reads the last, as the rf core's rf_embed does.

LSTM multiplies its state as if it had the input's type, and stores the products as if they had the result's. If the types
differ at all, even in the rounding mode, it does not compile. Only the version that keeps its state in local variables is
correct.

A maximum with padding takes the bits 10...0 for the smallest number of a type. Those of an unsigned type are half of its range,
so that the padding is the largest number of most windows.

ReLU with a cap (relu6, relu1) has no C++ for streams.

SiLU, GELU and hard SiLU have no C++ at all (gated.py).

The table of a LayerNormalization ends at a variance of 1, or earlier. With the correction a negative power is a range above 1.

A normalisation that is merged with a binary activation can only have a bit as its result; an output of the model is -1 or 1.
"""

from __future__ import annotations

from pathlib import Path

from hypersonic.hls.frontend.passes import gated

_ROW = """\
// The row of the table: the first for an index below 0, the last for one past the end.
template <class CONFIG_T, class index_T> unsigned embedding_row(index_T index) {
    #pragma HLS INLINE
    if (index < 1)
        return 0;
    if (index >= CONFIG_T::vocab_size)
        return CONFIG_T::vocab_size - 1;
    return index.to_uint();
}

"""

_EMBEDDING = "template <class data_T, class res_T, typename CONFIG_T>\nvoid embedding("

_RELU = """\
// *************************************************
//       Sigmoid Activation
"""

_CAPPED = """\
// *************************************************
//       RELU Activation with a largest value
// *************************************************
template <class data_T, class res_T, int MAX_INT, typename CONFIG_T>
void relu_max(hls::stream<data_T> &data, hls::stream<res_T> &res) {
ReLUMaxActLoop:
    for (int i = 0; i < CONFIG_T::n_in / res_T::size; i++) {
        #pragma HLS PIPELINE

        data_T in_data = data.read();
        res_T out_data;
        PRAGMA_DATA_PACK(out_data)

    ReLUMaxPackLoop:
        for (int j = 0; j < res_T::size; j++) {
            #pragma HLS UNROLL
            if (in_data[j] < 0)
                out_data[j] = 0;
            else if (in_data[j] > MAX_INT)
                out_data[j] = MAX_INT;
            else
                out_data[j] = in_data[j];
        }

        res.write(out_data);
    }
}

template <class data_T, class res_T, typename CONFIG_T> void relu6(hls::stream<data_T> &data, hls::stream<res_T> &res) {
    relu_max<data_T, res_T, 6, CONFIG_T>(data, res);
}

template <class data_T, class res_T, typename CONFIG_T> void relu1(hls::stream<data_T> &data, hls::stream<res_T> &res) {
    relu_max<data_T, res_T, 1, CONFIG_T>(data, res);
}

"""

_TOP_BIT = """\
        x[x.width - 1] = 1;
        return x;
"""

_LEAST = """\
        x[x.width - 1] = 1;
        return x < 0 ? x : T(0);
"""

#: the declarations of functions whose result is a bit, and of the same whose result can also be -1 or 1
_BIT = """\
template <class data_T, typename CONFIG_T>
void normalize_binary_tanh(data_T data[CONFIG_T::n_in], ap_uint<1> res[CONFIG_T::n_in],
"""
_SIGN = """\
// The result below a threshold: -1, or the bit that stands for it.
template <class res_T> res_T below_threshold() { return res_T(-1); }
template <> inline ap_uint<1> below_threshold<ap_uint<1>>() { return 0; }

template <class data_T, typename CONFIG_T, class res_T>
void normalize_binary_tanh(data_T data[CONFIG_T::n_in], res_T res[CONFIG_T::n_in],
"""
_STREAM_BIT = """\
template <class data_T, typename CONFIG_T>
void normalize_binary_tanh(hls::stream<data_T> &data, hls::stream<nnet::array<ap_uint<1>, CONFIG_T::n_scale_bias>> &res,
"""
_STREAM_SIGN = """\
template <class data_T, typename CONFIG_T, class res_T>
void normalize_binary_tanh(hls::stream<data_T> &data, hls::stream<res_T> &res,
"""

_COMPARED = """\
            out_data[j] = (in_data[j] >= threshold[norm_index]) ? 1 : 0;
"""
_SIGNED = """\
            if (in_data[j] >= threshold[norm_index])
                out_data[j] = 1;
            else
                out_data[j] = below_threshold<typename res_T::value_type>();
"""

_RANGE = """\
(int)1 << ((int)CONFIG_T::table_range_power2 > 0 ? (int)CONFIG_T::table_range_power2 : 0);
    // a range above 1 has a negative power
    static const int down = (int)CONFIG_T::table_range_power2 < 0 ? -(int)CONFIG_T::table_range_power2 : 0;
"""

#: (file in firmware/nnet_utils, text in it, replacement)
_REPAIRS = (
    ("nnet_batchnorm.h", _BIT, _SIGN),
    ("nnet_batchnorm.h", "    ap_uint<1> cache;\n", "    res_T cache;\n"),
    (
        "nnet_batchnorm.h",
        "            cache = 1;\n        else\n            cache = 0;\n",
        "            cache = 1;\n        else\n            cache = below_threshold<res_T>();\n",
    ),
    ("nnet_batchnorm_stream.h", '#include "nnet_common.h"', '#include "nnet_batchnorm.h"\n#include "nnet_common.h"'),
    ("nnet_batchnorm_stream.h", _STREAM_BIT, _STREAM_SIGN),
    (
        "nnet_batchnorm_stream.h",
        "        nnet::array<ap_uint<1>, CONFIG_T::n_scale_bias> out_data;\n",
        "        res_T out_data;\n",
    ),
    ("nnet_batchnorm_stream.h", _COMPARED, _SIGNED),
    ("nnet_pooling.h", _TOP_BIT, _LEAST),
    (
        "nnet_layernorm.h",
        "(int)1 << CONFIG_T::table_range_power2;\n",
        _RANGE,
    ),
    (
        "nnet_layernorm.h",
        "(var) * (CONFIG_T::table_size)*inv_range_inv",
        "(var) * (CONFIG_T::table_size >> down) * inv_range_inv",
    ),
    ("nnet_activation_stream.h", _RELU, _CAPPED + gated.STREAMS + _RELU),
    ("nnet_activation.h", _RELU, gated.ARRAYS + _RELU),
    ("nnet_embed.h", _EMBEDDING, _ROW + _EMBEDDING),
    ("nnet_embed.h", "embeddings[data[j] *", "embeddings[embedding_row<CONFIG_T>(data[j]) *"),
    ("nnet_embed_stream.h", '#include "nnet_common.h"', '#include "nnet_common.h"\n#include "nnet_embed.h"'),
    ("nnet_embed_stream.h", "embeddings[in_data[j] *", "embeddings[embedding_row<CONFIG_T>(in_data[j]) *"),
    (
        "nnet_recurrent.h",
        "nnet::dense<data_T, res_T, typename CONFIG_T::mult_config1>(data,",
        "nnet::dense<data_T, typename CONFIG_T::accum_t, typename CONFIG_T::mult_config1>(data,",
    ),
    (
        "nnet_recurrent.h",
        "nnet::dense<data_T, res_T, typename CONFIG_T::mult_config2>(h_newstate,",
        "nnet::dense<res_T, typename CONFIG_T::accum_t, typename CONFIG_T::mult_config2>(h_newstate,",
    ),
)


def repair(project: Path) -> None:
    """Correct the files of a project that hls4ml has just written.

    Args:
        project: hls4ml's output directory.

    Raises:
        RuntimeError: If the C++ is not hls4ml 1.3.0's, which these corrections are for.
    """
    directory = project / "firmware" / "nnet_utils"
    for name, words, instead in _REPAIRS:
        file = directory / name
        text = file.read_text()
        if words not in text:
            raise RuntimeError(f"{file} has no {words!r}: expected hls4ml 1.3.0, which is locked")
        file.write_text(text.replace(words, instead))
