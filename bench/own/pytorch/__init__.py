# SPDX-License-Identifier: Apache-2.0
"""Small networks of published architectures (see __main__.py)."""
