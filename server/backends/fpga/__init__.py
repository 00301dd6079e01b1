# SPDX-License-Identifier: Apache-2.0
"""Backend "fpga": kernels on the cards of this host."""
