# SPDX-License-Identifier: Apache-2.0
"""Code that several stages share: types as module parameters, windows, sums, limits on widths."""
