# SPDX-License-Identifier: Apache-2.0
"""Errors in a model, in the project that it was converted to, and of the tools that build it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: the advice for a layer that no core computes
INSTEAD = "a build with --target sw_emu runs the model's own C++"


#: the advice for a layer that hls4ml does not convert
ELSEWHERE = "build it from other layers, or serve the whole model with the server's onnxruntime backend"


@dataclass(frozen=True)
class Edit:
    """A change of a model's YAML.

    Attributes:
        place: the keys that lead to a value.
        value: what to write there; None to leave it out.
    """

    place: tuple[str, ...]
    value: str | int | None


class ConversionError(ValueError):
    """A model was refused. The message says which part, why, and what to do. Base class of the compiler side's refusals.

    Args:
        edits: changes of the YAML that the message advises, if it can say them exactly. Layers have hls4ml's names.
    """

    def __init__(self, message: str, edits: tuple[Edit, ...] = ()) -> None:
        super().__init__(message)
        self.edits = edits


def layer_place(layer: str, *keys: str) -> tuple[str, ...]:
    """Return the place of a layer's setting in a model's YAML."""
    return "hls4ml", "LayerName", layer, *keys


class ProjectError(ValueError):
    """A directory does not hold a project, or holds one that another version wrote."""


class UnsupportedLayerError(ConversionError):
    """A layer cannot be computed exactly. The message says which layer, what it asks for, and what to do instead."""


def without_layers(layer: Any, what: str, remedy: str) -> UnsupportedLayerError:
    """Return the refusal of a layer of Keras that has a property for which hls4ml has no layers; the caller raises it."""
    return UnsupportedLayerError(
        f"layer {layer.name!r} ({type(layer).__name__}): {what}, which has no layers in hls4ml; {remedy}"
    )


class ToolError(RuntimeError):
    """A tool is missing or failed. The message gives the tool, its command and its last lines, or what to install."""

    exit_code = 1


class MissingToolError(ToolError):
    """A tool is not installed on this machine. The message says which, and what to install."""

    exit_code = 2


class ToolResourceError(ToolError):
    """A tool got less of the machine than it needs. The message says which tool, what it lacked, and what to do."""

    exit_code = 2


class DiskFullError(ToolResourceError):
    """A tool found no space left on a disk. The message names the file."""


class ToolMemoryError(ToolResourceError):
    """A tool needs more memory than it may take. The message says how much, and the limit."""
