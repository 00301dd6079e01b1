# SPDX-License-Identifier: Apache-2.0
"""Parts of `hypersonic infer`, `hypersonic run` and `hypersonic events`: generating and sending events, checking the answers, and showing the figures."""
