# SPDX-License-Identifier: Apache-2.0
"""What several stages share: types as parameters, windows, tables, sums, widths."""
