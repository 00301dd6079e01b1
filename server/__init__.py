# SPDX-License-Identifier: Apache-2.0
"""Triton's protocol over the cards of this host."""
