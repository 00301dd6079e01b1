# SPDX-License-Identifier: Apache-2.0
"""Toolchains: from kernels to a card's xclbin. Each folder is one; toolchain.py is what they have in common."""
