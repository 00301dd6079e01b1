# SPDX-License-Identifier: Apache-2.0
"""The text of a core's top module: ports, identifiers, weight streams."""
