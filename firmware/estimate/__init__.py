# SPDX-License-Identifier: Apache-2.0
"""What a kernel takes of an FPGA, and its rate, before any vendor tool has seen it."""
