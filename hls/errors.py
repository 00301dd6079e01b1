# SPDX-License-Identifier: Apache-2.0
"""Errors of a model, and of the project that was made of it."""

from __future__ import annotations

#: what is left to do with a layer that no core computes
INSTEAD = "a build with --target sw_emu runs the model's own C++"


class ConversionError(ValueError):
    """A model that is refused: which part of it, why, and what to do. Every refusal of the compiler side is one of these."""


class ProjectError(ValueError):
    """A directory that holds no project, or one that another version wrote."""


class UnsupportedLayerError(ConversionError):
    """A layer that this project does not compute exactly: which layer, what it asks for, what to do instead."""
