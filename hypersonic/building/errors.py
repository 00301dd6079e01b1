# SPDX-License-Identifier: Apache-2.0
"""What a build refuses."""

from __future__ import annotations


class BuildError(ValueError):
    """This build cannot be made here: what was asked for, what is missing, what to do."""
