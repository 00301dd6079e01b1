# SPDX-License-Identifier: Apache-2.0
"""AWS F2 cards, without XRT: registers through BAR0, and buffers in pinned huge pages with known physical addresses.

::

    driver.py   F2Driver: a driver (host/driver.py) that uses the registers
    unit.py     Unit: a compute unit's runs, started and acknowledged by ap_ctrl_chain
    access.py   Access: a window of registers and memory: the interface that a real card and a simulated one implement
    bar.py      BarAccess: BAR0 by mmap, the card found in sysfs
    pinned.py   PinnedMemory: huge pages and their physical addresses
    image.py    loading an Amazon FPGA image with AWS' own commands

The simulated card is sim/card/f2_simulation.py. No F2 instance has run this yet.
"""
