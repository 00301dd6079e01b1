# SPDX-License-Identifier: Apache-2.0
"""Parts of `hypersonic report` and `hypersonic load`: figures as tables and pictures."""
