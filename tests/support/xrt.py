# SPDX-License-Identifier: Apache-2.0
"""A mark for tests that need the real XRT library."""

from __future__ import annotations

import pytest

from hypersonic.sim.xrt_bridge.environment import XrtNotFoundError, find_xrt
from tests.support.optional import needs


def has_xrt() -> bool:
    try:
        find_xrt()
    except XrtNotFoundError:
        return False
    return True


needs_xrt = pytest.mark.skipif(not has_xrt(), reason=needs("libxrt1", detail="XRT 2.13 with its hw_emu shim"))
