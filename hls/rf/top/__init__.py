# SPDX-License-Identifier: Apache-2.0
"""Generators of a core's top module: ports, identifiers, weight streams."""
