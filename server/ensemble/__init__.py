# SPDX-License-Identifier: Apache-2.0
"""Models that are made of other models."""
