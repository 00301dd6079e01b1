# SPDX-License-Identifier: Apache-2.0
"""What computes: one file per backend."""
