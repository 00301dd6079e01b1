# SPDX-License-Identifier: Apache-2.0
"""The statistics of model versions: counts, durations and distributions of latencies."""
