# SPDX-License-Identifier: Apache-2.0
"""Backend "python": Triton's own interface, `class TritonPythonModel` in <version>/model.py."""
