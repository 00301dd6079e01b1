# SPDX-License-Identifier: Apache-2.0
"""Model control: the options that decide which models are loaded (--model-control-mode), and the errors of load requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath

from hypersonic.server.core.links import Links
from hypersonic.server.errors import InvalidRequestError, ModelLoadError, ServerError, StartError, UnavailableError, escaped
from hypersonic.server.repository.layout import MODEL_NAME_RULE, NOT_FOUND, is_plain_name
from hypersonic.server.repository.override import OverridePolicy

_TRAVERSAL = re.compile(r"[/\\\0]|\.\.|^\.+$")


class ModelControlMode(StrEnum):
    """Which models are loaded. NONE: all, at start. POLL: those that are in the repositories now. EXPLICIT: as clients ask."""

    NONE = "none"
    POLL = "poll"
    EXPLICIT = "explicit"


@dataclass(frozen=True)
class ModelControlOptions:
    """The options of model control.

    Attributes:
        load_models: loaded at start with EXPLICIT; "*" = all.
        poll_s: the polling interval.
        complete_config: backends fill in the fields that config.pbtxt leaves out.
        override: what load requests may contain.
        load_timeout_s: for one version, 0 = no limit.
        load_threads: how many models are loaded in parallel.
        link_roots: see core/links.py.
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
        """Return the rules for where symbolic links below these repositories may lead."""
        return Links(*(tuple(path.absolute() for path in paths) for paths in (repositories, self.link_roots)))

    @property
    def loads_all(self) -> bool:
        """True if every model that is found at start is loaded."""
        return self.mode is not ModelControlMode.EXPLICIT or "*" in self.load_models

    def check(self) -> None:
        """Raise StartError for options that contradict each other."""
        if self.load_models and self.mode is not ModelControlMode.EXPLICIT:
            raise StartError("Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
        if "*" in self.load_models and len(self.load_models) > 1:
            raise StartError("Wildcard character '*' must be the ONLY startup model if specified at all.")
        for name in (name for name in self.load_models if "/" in name):
            raise StartError(
                f"--load-model is {name[:200]!r}, a path; expected the name of a model, which is that of its directory in the "
                f"repository: --model-repository={PurePath(name).parent} --load-model={PurePath(name).name}"
            )
        if self.mode is ModelControlMode.POLL and self.poll_s <= 0:
            raise StartError("--repository-poll-secs is 0, expected 1 or more with --model-control-mode=poll")
        for root in self.link_roots:
            if not root.is_dir():
                raise StartError(f"--model-link-roots: {root} is not a directory, expected one that links may lead into")

    def require_explicit(self) -> None:
        """Raise UnavailableError (UNAVAILABLE, 503) unless clients may load and unload models."""
        if self.mode is not ModelControlMode.EXPLICIT:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")


def check_requested_name(name: str) -> None:
    """Raise InvalidRequestError, with Triton's text, for a name that a load request may not have."""
    if not name:
        raise InvalidRequestError("Model name cannot be empty.")
    if _TRAVERSAL.search(name):
        raise InvalidRequestError(
            f"invalid model name '{escaped(name)}', model name must not contain path traversal characters"
        )


def check_override_name(name: str) -> None:
    """Raise InvalidRequestError for a name that a load request with a configuration or files may not have.

    The name has to be one that a model directory may have.
    """
    if not is_plain_name(name):
        raise InvalidRequestError(f"invalid model name '{escaped(name)}', {MODEL_NAME_RULE}")


def poll_failure(name: str, reason: str) -> ServerError:
    """Return the error (INTERNAL) of a load request for a model whose load could not begin, with Triton's text."""
    text = f"failed to load '{escaped(name)}', failed to poll from model repository"
    return ModelLoadError(text if reason == NOT_FOUND else f"{text}: {reason}")


def load_failure(name: str, reason: str) -> ServerError:
    """Return the error (INVALID_ARGUMENT) of a load request for a model whose load failed, with Triton's text."""
    return InvalidRequestError(f"load failed for model '{name}': {reason}\n")
