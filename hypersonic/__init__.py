# SPDX-License-Identifier: Apache-2.0
"""hypersonic: FPGA inference as a service, from a trained network to a served event."""

__version__ = "0.1.0"
