# SPDX-License-Identifier: Apache-2.0
"""No silent wrap: hls4ml's C++ with an ap_fixed that counts, for each variable of each layer, what did not fit.

patch.py      ap_types' headers, changed by program; counted.h is what they call
source.py     gives each typedef of a project a C++ type of its own, and says which layer is computed
figures.py    what was counted, as frozen dataclasses and as text
run.py        find_overflows(project, x_raw): compiles, runs rows, reads the figures
model.py      overflows(hls_model, rows): the same for hls4ml's own users
"""
