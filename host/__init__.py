# SPDX-License-Identifier: Apache-2.0
"""The card: device, buffer objects, runs and compute units, over XRT's C API."""
