# SPDX-License-Identifier: Apache-2.0
"""The model repository: which models exist, and how they enter and leave service."""
