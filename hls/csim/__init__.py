# SPDX-License-Identifier: Apache-2.0
"""C simulation: hls4ml's C++ compiled with g++, the golden reference for every core."""
