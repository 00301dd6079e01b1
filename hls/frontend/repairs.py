# SPDX-License-Identifier: Apache-2.0
"""Corrections to hls4ml 1.3.0's C++, applied to every project that is written, for the C simulation and Vitis HLS alike.

Embedding reads table[index] without a range check, so a client's category could read outside the table. With the correction, an
index below 0 reads the first row and one past the end reads the last, as the rf core's rf_embed does.

LSTM multiplies its state as if it had the input's type, and stores the products as if they had the result's. If the types
differ at all, even in the rounding mode, it does not compile. Only the version that keeps its state in local variables is
correct.
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

#: (file in firmware/nnet_utils, text in it, replacement)
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

    Raises RuntimeError if the C++ is not hls4ml 1.3.0's, which these corrections are for.
    """
    directory = project / "firmware" / "nnet_utils"
    for name, words, instead in _REPAIRS:
        file = directory / name
        text = file.read_text()
        if words not in text:
            raise RuntimeError(f"{file} has no {words!r}: expected hls4ml 1.3.0, which is locked")
        file.write_text(text.replace(words, instead))
