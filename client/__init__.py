# SPDX-License-Identifier: Apache-2.0
"""Clients of a running server: they know the wire and nothing else."""
