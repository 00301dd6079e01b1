# SPDX-License-Identifier: Apache-2.0
"""Parts of `hypersonic infer` and `hypersonic run`: sending events, checking the answers, and showing the figures."""
