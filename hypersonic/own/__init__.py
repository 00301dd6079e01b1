# SPDX-License-Identifier: Apache-2.0
"""A user's own model, as the zoo's are: its YAML, its rows and labels, and how its answers are judged."""
