# SPDX-License-Identifier: Apache-2.0
from hypersonic.hls.csim.overflow.model import overflows as overflows
from hypersonic.hls.plugin.compare import compare as compare

__all__ = ["compare", "overflows"]
