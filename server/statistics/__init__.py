# SPDX-License-Identifier: Apache-2.0
"""Figures of model versions: counts, durations and how latencies are distributed."""
