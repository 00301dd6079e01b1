# SPDX-License-Identifier: Apache-2.0
"""The backend `Hypersonic` of hls4ml, as a plugin."""
