# SPDX-License-Identifier: Apache-2.0
"""The card: device, buffer objects, runs and compute units, over a driver: XRT's C API, or the registers of an F2 card.

One more accelerator: host/driver.py says what its driver needs, and where it is chosen.
"""
