# SPDX-License-Identifier: Apache-2.0
"""Packed rows: fields of 1 to 16 bits side by side, which become an input's numbers inside the fabric."""
