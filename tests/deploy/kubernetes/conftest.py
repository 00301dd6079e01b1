# SPDX-License-Identifier: Apache-2.0
"""Every overlay, rendered once, and fixtures of other folders that tests here use."""

from __future__ import annotations

import pytest

from tests.deploy.kubernetes.programs import KUBERNETES, OVERLAYS, Manifest, kustomize
from tests.host.conftest import build, image

__all__ = ["build", "image"]


@pytest.fixture(scope="session")
def farms() -> dict[str, list[Manifest]]:
    """Overlay -> its objects."""
    return {overlay: kustomize(KUBERNETES / "overlays" / overlay) for overlay in OVERLAYS}


@pytest.fixture(scope="session")
def monitoring() -> list[Manifest]:
    """The rules and dashboards as objects."""
    return kustomize(KUBERNETES / "monitoring")
