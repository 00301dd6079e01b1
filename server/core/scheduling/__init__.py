# SPDX-License-Identifier: Apache-2.0
"""Queues of a model version, and the rules by which requests become runs of its instances."""
