# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core, and the xclbin that carries it."""
