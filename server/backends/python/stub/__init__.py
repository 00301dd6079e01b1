# SPDX-License-Identifier: Apache-2.0
"""The child process of backend "python": runs one instance of a `model.py`. It imports only the standard library and numpy."""
