# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId with packed patches of 12-bit pixels. The network and its weights are emtrk's."""
