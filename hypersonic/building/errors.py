# SPDX-License-Identifier: Apache-2.0
"""Errors of a build."""

from __future__ import annotations


class BuildError(ValueError):
    """This build cannot be made here: what was asked for, what is missing, what to do."""
