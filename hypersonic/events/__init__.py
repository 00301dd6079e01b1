# SPDX-License-Identifier: Apache-2.0
"""Parts of `hypersonic infer`, `run` and `events`: generated events and those of files, checked answers, and the figures."""
