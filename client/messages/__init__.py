# SPDX-License-Identifier: Apache-2.0
"""Converts arrays to the bytes of a ModelInfer request, and the bytes of the answer to arrays."""
