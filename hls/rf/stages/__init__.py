# SPDX-License-Identifier: Apache-2.0
"""The stages of an rf core: what each layer becomes in RTL."""
