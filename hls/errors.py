# SPDX-License-Identifier: Apache-2.0
"""Errors in a model, and in the project that it was converted to."""

from __future__ import annotations

#: the advice for a layer that no core computes
INSTEAD = "a build with --target sw_emu runs the model's own C++"


class ConversionError(ValueError):
    """A model was refused. The message says which part, why, and what to do. Base class of the compiler side's refusals."""


class ProjectError(ValueError):
    """A directory does not hold a project, or holds one that another version wrote."""


class UnsupportedLayerError(ConversionError):
    """A layer cannot be computed exactly. The message says which layer, what it asks for, and what to do instead."""
