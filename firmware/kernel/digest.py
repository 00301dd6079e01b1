# SPDX-License-Identifier: Apache-2.0
"""The digest of a kernel: its identity without the weights that it loads at run time.

Two models whose kernels have the same digest, target and platform compute with the same hardware. If they load weights at run
time, they differ in weights.bin only, and one compute unit can serve both; a weight or bias that is in a memory file belongs
to the hardware and to the digest.
"""

from __future__ import annotations

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.hls.cache import content_sha256


def kernel_digest(kernel: Kernel) -> str:
    """The SHA-256, in 64 hexadecimal digits, of the names and contents of the kernel's RTL sources and memory files."""
    return content_sha256(["kernel", kernel.top, *kernel.sources, *kernel.core.memories])
