# SPDX-License-Identifier: Apache-2.0
"""C simulation: hls4ml's C++ compiled by g++, the golden reference of every core."""
