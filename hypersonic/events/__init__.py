# SPDX-License-Identifier: Apache-2.0
"""Events sent by `hypersonic infer` and `run`: what they have to answer, and their picture."""
