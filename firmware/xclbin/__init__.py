# SPDX-License-Identifier: Apache-2.0
"""The xclbin container: its sections, and its assembly."""
