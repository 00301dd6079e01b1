# SPDX-License-Identifier: Apache-2.0
"""Parts that several stages share: types as parameters, windows, tables, sums, widths."""
