# SPDX-License-Identifier: Apache-2.0
"""The backend "fpga" for NVIDIA's tritonserver: C++ in cpp/, its compilation, and starting tritonserver with it."""
