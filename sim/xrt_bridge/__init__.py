# SPDX-License-Identifier: Apache-2.0
"""AMD's own XRT library with a Verilated kernel as its card, connected through the socket of XRT's `hw_emu` mode (XRT 2.13).

::

    host process --libxrt_hwemu--> unix socket --> device process
    (XRT, any program)             wire.py         card.py: one Verilated kernel per compute unit, and their memory

XRT itself starts the device process, from a directory that environment.py prepares.
"""
