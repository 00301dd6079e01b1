# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId: classifies a patch of a liquid argon detector's wire plane as track, shower or nothing, and Michel
electron."""
