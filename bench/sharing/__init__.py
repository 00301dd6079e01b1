# SPDX-License-Identifier: Apache-2.0
"""The parts of `hypersonic bench sharing`: models that share a card, a kernel, or a compute unit."""
