# SPDX-License-Identifier: Apache-2.0
"""From a kernel's RTL to a card's xclbin with the vendor's tools: Vivado packages, v++ links, AWS makes an image."""
