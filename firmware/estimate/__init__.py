# SPDX-License-Identifier: Apache-2.0
"""Estimates before any vendor tool has run: a kernel's resources, its longest paths and its rate."""
