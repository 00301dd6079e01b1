# SPDX-License-Identifier: Apache-2.0
"""The layers: each file has a layer's class, its reader, and what it computes."""
