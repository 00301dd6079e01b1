# SPDX-License-Identifier: Apache-2.0
"""Model control: who decides what is loaded (--model-control-mode), and the texts of what is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from hypersonic.server.errors import InvalidRequestError, ModelLoadError, ServerError, StartError, UnavailableError, escaped
from hypersonic.server.links import Links
from hypersonic.server.repository.layout import MODEL_NAME_RULE, NOT_FOUND, is_plain_name
from hypersonic.server.repository.override import OverridePolicy

_TRAVERSAL = re.compile(r"[/\\\0]|\.\.|^\.+$")


class ModelControlMode(StrEnum):
    """NONE: all models, once. POLL: whatever the repositories hold at the moment. EXPLICIT: what clients ask for."""

    NONE = "none"
    POLL = "poll"
    EXPLICIT = "explicit"


@dataclass(frozen=True)
class ModelControlOptions:
    """load_models: at start, with EXPLICIT; "*" = all. complete_config: backends fill in what config.pbtxt leaves out.

    load_timeout_s: of one version, 0 = none. load_threads: models loaded side by side. link_roots: see links.py.
    """

    mode: ModelControlMode = ModelControlMode.NONE
    load_models: tuple[str, ...] = ()
    poll_s: float = 15.0
    complete_config: bool = True
    override: OverridePolicy = field(default_factory=OverridePolicy)
    load_timeout_s: float = 600.0
    load_threads: int = 4
    link_roots: tuple[Path, ...] = ()

    def links(self, repositories: Sequence[Path]) -> Links:
        """Where links below these repositories may lead."""
        return Links(*(tuple(path.absolute() for path in paths) for paths in (repositories, self.link_roots)))

    @property
    def loads_all(self) -> bool:
        """Whether every model found at start is loaded."""
        return self.mode is not ModelControlMode.EXPLICIT or "*" in self.load_models

    def check(self) -> None:
        """Raises StartError for options that contradict each other."""
        if self.load_models and self.mode is not ModelControlMode.EXPLICIT:
            raise StartError("Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
        if "*" in self.load_models and len(self.load_models) > 1:
            raise StartError("Wildcard character '*' must be the ONLY startup model if specified at all.")
        if self.mode is ModelControlMode.POLL and self.poll_s <= 0:
            raise StartError("--repository-poll-secs is 0, expected 1 or more with --model-control-mode=poll")
        for root in self.link_roots:
            if not root.is_dir():
                raise StartError(f"--model-link-roots: {root} is not a directory, expected one that links may lead into")

    def require_explicit(self) -> None:
        """Raises UnavailableError where clients do not decide."""
        if self.mode is not ModelControlMode.EXPLICIT:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")


def check_requested_name(name: str) -> None:
    """Of a load request. Raises InvalidRequestError."""
    if not name:
        raise InvalidRequestError("Model name cannot be empty.")
    if _TRAVERSAL.search(name):
        raise InvalidRequestError(
            f"invalid model name '{escaped(name)}', model name must not contain path traversal characters"
        )


def check_override_name(name: str) -> None:
    """Of a load request that brings a configuration or files: one that a directory could have. Raises InvalidRequestError."""
    if not is_plain_name(name):
        raise InvalidRequestError(f"invalid model name '{escaped(name)}', {MODEL_NAME_RULE}")


def poll_failure(name: str, reason: str) -> ServerError:
    """A model that could not even be tried, as a load request's error (INTERNAL)."""
    text = f"failed to load '{escaped(name)}', failed to poll from model repository"
    return ModelLoadError(text if reason == NOT_FOUND else f"{text}: {reason}")


def load_failure(name: str, reason: str) -> ServerError:
    """A model that was tried and failed, as a load request's error (INVALID_ARGUMENT)."""
    return InvalidRequestError(f"load failed for model '{name}': {reason}\n")
