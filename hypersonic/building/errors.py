# SPDX-License-Identifier: Apache-2.0
"""Errors of a build."""

from __future__ import annotations


class BuildError(ValueError):
    """The requested build is not possible on this machine. The message says what is missing and what to do."""
