# SPDX-License-Identifier: Apache-2.0
"""FACILE in the size used by the GPU studies: 47-200-100-50-20-10-5-1, 36 229 parameters including its batch norm."""
