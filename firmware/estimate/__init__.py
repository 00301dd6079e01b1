# SPDX-License-Identifier: Apache-2.0
"""Estimates that need no vendor tool: a kernel's resources, its longest paths and its rate."""
