# SPDX-License-Identifier: Apache-2.0
"""Formal proofs of the RTL modules."""
