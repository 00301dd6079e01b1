# SPDX-License-Identifier: Apache-2.0
"""The stages of an rf core, one file per kind: how a layer becomes stages, their RTL and their cost."""
