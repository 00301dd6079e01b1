# SPDX-License-Identifier: Apache-2.0
from hypersonic.hls.csim.overflow.model import overflows as overflows

__all__ = ["overflows"]
