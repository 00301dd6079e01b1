# SPDX-License-Identifier: Apache-2.0
"""AMD's own XRT library over our Verilated kernel, through the socket of its `hw_emu` mode (XRT 2.13).

    host process --libxrt_hwemu--> unix socket --> device process
    (XRT, any program)             wire.py         card.py: one Verilated kernel per compute unit, and their memory

XRT starts the device process itself, from a directory that environment.py lays out.
"""
