# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId: does a patch of a liquid argon detector's wire plane show a track, a shower or nothing; a Michel electron?"""
