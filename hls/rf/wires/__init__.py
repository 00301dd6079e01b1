# SPDX-License-Identifier: Apache-2.0
"""Stages between layers, one a file: FIFOs, copies of a stream, conversions of its lanes. Each defines a STAGE."""
