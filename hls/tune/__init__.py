# SPDX-License-Identifier: Apache-2.0
"""Chooses the types and reuse factors of a model, for `hypersonic new` and `hypersonic tune`, and writes its YAML."""
