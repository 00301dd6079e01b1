# SPDX-License-Identifier: Apache-2.0
"""C++ of activations that hls4ml 1.3.0 does not have, for arrays and for streams: SiLU, GELU, hard SiLU, ReLU to any number.

Each of the first three is x times a gate from 0 to 1, and gate(x) + gate(-x) is 1. So it is relu(x) plus an even function,
`-|x| * gate(-|x|)`, which is 0 far from 0. That function is in a table, whose entry holds its value in the middle of the step;
the first and the last entry are 0. The cores have the same table (hls/network/tables.py).
"""

from __future__ import annotations

#: other names of a function
ALIASES = {"swish": "silu", "hard_swish": "hard_silu"}

#: the functions, with the range of x that the table covers
SPANS = {"silu": 16, "gelu": 8, "hard_silu": 8}

#: C++ of -a * gate(-a) for a >= 0; the complementary error function is that of Abramowitz and Stegun, 7.1.26
_DIPS = """\
inline double silu_dip(double a) { return -a / (1.0 + std::exp(float(a))); }

inline double gelu_dip(double a) {
    double x = a * 0.7071067811865476;
    double t = 1.0 / (1.0 + 0.3275911 * x);
    double sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return -0.5 * a * sum * std::exp(float(-x * x));
}

inline double hard_silu_dip(double a) { return a < 3.0 ? a * (a - 3.0) / 6.0 : 0.0; }

template <typename CONFIG_T, int N_TABLE>
void init_dip_table(typename CONFIG_T::table_t table_out[N_TABLE], double span, double (*dip)(double)) {
    for (int ii = 0; ii < N_TABLE; ii++) {
        int steps = ii < N_TABLE / 2 ? N_TABLE / 2 - ii : ii - N_TABLE / 2;
        bool end = ii == 0 || ii == N_TABLE - 1;
        typename CONFIG_T::table_t real_val = end ? 0.0f : float(dip((steps + 0.5) * span / N_TABLE));
        table_out[ii] = real_val;
    }
}

"""

_TABLE = """\
#ifdef __HLS_SYN__
    bool initialized = false;
    typename CONFIG_T::table_t dip_table[CONFIG_T::table_size];
#else
    static bool initialized = false;
    static typename CONFIG_T::table_t dip_table[CONFIG_T::table_size];
#endif
    if (!initialized) {{
        init_dip_table<CONFIG_T, CONFIG_T::table_size>(dip_table, {span}.0, {name}_dip);
        initialized = true;
    }}
"""

_ARRAY = """\
template <class data_T, class res_T, typename CONFIG_T> void {name}(data_T data[CONFIG_T::n_in], res_T res[CONFIG_T::n_in]) {{
{table}
    #pragma HLS PIPELINE

    for (int ii = 0; ii < CONFIG_T::n_in; ii++) {{
        int data_round = data[ii] * CONFIG_T::table_size / {span};
        int index = data_round + int(CONFIG_T::table_size / 2);
        if (index < 0)
            index = 0;
        if (index > int(CONFIG_T::table_size) - 1)
            index = CONFIG_T::table_size - 1;
        data_T above = data[ii] > 0 ? data[ii] : data_T(0);
        res[ii] = above + dip_table[index];
    }}
}}

"""

_STREAM = """\
template <class data_T, class res_T, typename CONFIG_T> void {name}(hls::stream<data_T> &data, hls::stream<res_T> &res) {{
{table}
    for (int i = 0; i < CONFIG_T::n_in / res_T::size; i++) {{
        #pragma HLS PIPELINE

        data_T in_data = data.read();
        res_T out_data;
        PRAGMA_DATA_PACK(out_data)

        for (int j = 0; j < res_T::size; j++) {{
            #pragma HLS UNROLL
            int data_round = in_data[j] * CONFIG_T::table_size / {span};
            int index = data_round + int(CONFIG_T::table_size / 2);
            if (index < 0)
                index = 0;
            if (index > int(CONFIG_T::table_size) - 1)
                index = CONFIG_T::table_size - 1;
            typename data_T::value_type above = in_data[j] > 0 ? in_data[j] : typename data_T::value_type(0);
            out_data[j] = above + dip_table[index];
        }}

        res.write(out_data);
    }}
}}

"""


_CAPPED_ARRAY = """\
template <class data_T, class param_T, class res_T, typename CONFIG_T>
void capped_relu(data_T data[CONFIG_T::n_in], param_T most, res_T res[CONFIG_T::n_in]) {
    #pragma HLS PIPELINE

    for (int ii = 0; ii < CONFIG_T::n_in; ii++) {
        if (data[ii] < 0)
            res[ii] = 0;
        else if (data[ii] > most)
            res[ii] = most;
        else
            res[ii] = data[ii];
    }
}

"""

_CAPPED_STREAM = """\
template <class data_T, class param_T, class res_T, typename CONFIG_T>
void capped_relu(hls::stream<data_T> &data, param_T most, hls::stream<res_T> &res) {
    for (int i = 0; i < CONFIG_T::n_in / res_T::size; i++) {
        #pragma HLS PIPELINE

        data_T in_data = data.read();
        res_T out_data;
        PRAGMA_DATA_PACK(out_data)

        for (int j = 0; j < res_T::size; j++) {
            #pragma HLS UNROLL
            if (in_data[j] < 0)
                out_data[j] = 0;
            else if (in_data[j] > most)
                out_data[j] = most;
            else
                out_data[j] = in_data[j];
        }

        res.write(out_data);
    }
}

"""


def _functions(template: str) -> str:
    filled = ((name, span, _TABLE.format(name=name, span=span)) for name, span in SPANS.items())
    return "".join(template.format(name=name, span=span, table=table) for name, span, table in filled)


#: for nnet_activation.h
ARRAYS = _DIPS + _functions(_ARRAY) + _CAPPED_ARRAY

#: for nnet_activation_stream.h
STREAMS = _functions(_STREAM) + _CAPPED_STREAM
