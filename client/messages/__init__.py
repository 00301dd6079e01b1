# SPDX-License-Identifier: Apache-2.0
"""Arrays to the bytes of a ModelInfer request, and the bytes of its answer to arrays."""
