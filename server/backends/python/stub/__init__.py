# SPDX-License-Identifier: Apache-2.0
"""The child process of backend "python": runs one instance of a `model.py`. Imports the standard library and numpy only."""
