# SPDX-License-Identifier: Apache-2.0
"""Networks that ship with the project, one folder each: layers, input generator, weights and figure of merit (README.md)."""
