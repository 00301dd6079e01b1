# SPDX-License-Identifier: Apache-2.0
"""The hls4ml backend plugin `Hypersonic`."""
