# SPDX-License-Identifier: Apache-2.0
"""Corrections of hls4ml 1.3.0's C++, in every project that is written: for the C simulation and for Vitis HLS alike.

Embedding reads table[index] and never looks whether there is such a row: a client's category would read past the table, and a
negative one in front of it. An index below 0 reads the first row, one past the end the last, as the rf core's rf_embed does.

LSTM multiplies its state as if it had the input's type, and takes the products for results: with types that differ in anything,
the rounding mode included, it does not compile. Only the version that keeps its state in variables of its own is right.
"""

from __future__ import annotations

from pathlib import Path

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

#: file of firmware/nnet_utils, words in it, words instead
_REPAIRS = (
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
    """Correct the files of a project that hls4ml has just written. project: hls4ml's output directory.

    Raises RuntimeError when hls4ml's C++ is another than the one that these corrections are for.
    """
    directory = project / "firmware" / "nnet_utils"
    for name, words, instead in _REPAIRS:
        file = directory / name
        text = file.read_text()
        if words not in text:
            raise RuntimeError(f"{file} has no {words!r}: expected hls4ml 1.3.0, which is locked")
        file.write_text(text.replace(words, instead))
