# SPDX-License-Identifier: Apache-2.0
"""The card: device, buffer objects, runs and compute units, on top of a driver for XRT's C API or for an F2 card's registers.

To add an accelerator, see host/driver.py: it describes the methods of a driver, and where the driver is chosen.
"""
